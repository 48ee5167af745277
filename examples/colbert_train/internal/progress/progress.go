// Package progress shows a training run: on a terminal as a bar, elsewhere as plain lines.
package progress

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/train"
)

const (
	// smoothing is the weight of the newest step in the numbers that are shown.
	smoothing = 0.05
	// plainLines is how many lines a run prints where there is no terminal.
	plainLines = 20
)

// Display shows how far a run is. It is for one goroutine.
type Display struct {
	w           io.Writer
	bar         *progressbar.ProgressBar // nil: plain lines
	total, done int                      // done before this process began
	started     time.Time

	loss, accuracy, tokens, seconds smoothed
	dev                             *float64 // of the last look; nil before any
}

// New returns a display on w for a run of total steps of which some were done before. bar asks for a progress bar, which
// needs a terminal.
func New(w io.Writer, bar bool, total, done int) *Display {
	d := &Display{w: w, total: total, done: done, started: time.Now()}
	if bar {
		d.bar = progressbar.NewOptions(total-done,
			progressbar.OptionSetWriter(w),
			progressbar.OptionSetTheme(progressbar.ThemeASCII),
			progressbar.OptionSetWidth(12),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionShowDescriptionAtLineEnd(),
		)
	}
	return d
}

// Step shows a step that was done.
func (d *Display) Step(r train.Record) error {
	d.loss.add(r.Loss)
	d.accuracy.add(r.Accuracy)
	d.tokens.add(float64(r.Tokens))
	d.seconds.add(r.Seconds.Total())
	if r.DevMRR10 != nil {
		d.dev = r.DevMRR10
	}
	if d.bar != nil {
		return d.showBar(r)
	}
	if every := max(1, d.total/plainLines); r.Step%every != 0 && r.Step != d.total {
		return nil
	}
	line := fmt.Sprintf("step %d/%d  loss %.3f  accuracy %.3f  lr %.2g  %.0f tokens/s", r.Step, d.total,
		d.loss.mean, d.accuracy.mean, r.LearningRate, d.speed())
	if d.dev != nil {
		line += fmt.Sprintf("  dev MRR@10 %.3f", *d.dev)
	}
	perStep := time.Since(d.started) / time.Duration(r.Step-d.done)
	left := (perStep * time.Duration(d.total-r.Step)).Round(time.Second)
	_, err := fmt.Fprintf(d.w, "%s  ETA %v\n", line, left)
	return err
}

// showBar moves the bar; its text is short, for it has to fit on one line.
func (d *Display) showBar(r train.Record) error {
	status := fmt.Sprintf("loss %.2f acc %.2f lr %.1e %.0fk tok/s", d.loss.mean, d.accuracy.mean, r.LearningRate, d.speed()/1000)
	if d.dev != nil {
		status += fmt.Sprintf(" dev %.3f", *d.dev)
	}
	d.bar.Describe(status)
	if err := d.bar.Add(1); err != nil {
		return err
	}
	if r.Step < d.total {
		return nil
	}
	_, err := fmt.Fprintln(d.w)
	return err
}

// speed returns tokens per second.
func (d *Display) speed() float64 { return d.tokens.mean / d.seconds.mean }

// smoothed is an exponential moving average that starts at its first value.
type smoothed struct {
	mean    float64
	started bool
}

func (s *smoothed) add(x float64) {
	if !s.started {
		s.mean, s.started = x, true
		return
	}
	s.mean += smoothing * (x - s.mean)
}
