package report

import (
	"errors"
	"image/color"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/train"
)

var (
	faint  = color.RGBA{R: 0xa9, G: 0xc8, B: 0xe8, A: 0xff}
	strong = color.RGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: 0xff}
	other  = color.RGBA{R: 0xc0, G: 0x50, B: 0x20, A: 0xff}
)

// Plot draws loss.png into a folder: the loss of every step and its moving average above, MRR@10 on dev below, with that
// of BM25 for comparison.
func Plot(dir string, records []train.Record, devBM25 float64) (err error) {
	loss, err := lossPanel(records)
	if err != nil {
		return err
	}
	dev, err := devPanel(records, devBM25)
	if err != nil {
		return err
	}
	for _, p := range []*plot.Plot{loss, dev} { // one time axis for both
		p.X.Min, p.X.Max = 0, float64(max(1, len(records)))
	}
	canvas := vgimg.New(16*vg.Centimeter, 16*vg.Centimeter)
	panels := [][]*plot.Plot{{loss}, {dev}}
	tiles := draw.Tiles{Rows: 2, Cols: 1, PadY: 5 * vg.Millimeter, PadTop: vg.Millimeter, PadBottom: vg.Millimeter, PadRight: 3 * vg.Millimeter}
	for i, row := range plot.Align(panels, tiles, draw.New(canvas)) {
		panels[i][0].Draw(row[0])
	}
	f, err := os.Create(filepath.Join(dir, plotFile))
	if err != nil {
		return err
	}
	_, err = vgimg.PngCanvas{Canvas: canvas}.WriteTo(f)
	return errors.Join(err, f.Close())
}

// lossPanel draws the loss of each step and its moving average.
func lossPanel(records []train.Record) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = "ColBERT with in-batch negatives"
	p.Y.Label.Text = "InfoNCE loss"
	p.Legend.Top = true
	raw, mean := make(plotter.XYs, len(records)), make(plotter.XYs, len(records))
	average := 0.0
	for i, r := range records {
		const smoothing = 0.02
		weight := max(smoothing, 1/float64(i+1)) // the plain mean until there are enough steps
		average += weight * (r.Loss - average)
		raw[i] = plotter.XY{X: float64(r.Step), Y: r.Loss}
		mean[i] = plotter.XY{X: float64(r.Step), Y: average}
	}
	return p, errors.Join(addLine(p, "each step", raw, faint, false), addLine(p, "moving average", mean, strong, false))
}

// devPanel draws the dev measure at the steps where it was taken.
func devPanel(records []train.Record, bm25 float64) (*plot.Plot, error) {
	p := plot.New()
	p.X.Label.Text = "step"
	p.Y.Label.Text = "MRR@10 on dev"
	var dev plotter.XYs
	for _, r := range records {
		if r.DevMRR10 != nil {
			dev = append(dev, plotter.XY{X: float64(r.Step), Y: *r.DevMRR10})
		}
	}
	baseline := plotter.XYs{{X: 0, Y: bm25}, {X: float64(len(records)), Y: bm25}}
	return p, errors.Join(addLine(p, "trained", dev, strong, true), addLine(p, "BM25", baseline, other, false))
}

// addLine adds a line, with its points if wanted, and its name in the legend.
func addLine(p *plot.Plot, name string, xys plotter.XYs, c color.Color, points bool) error {
	if len(xys) == 0 {
		return nil
	}
	line, dots, err := plotter.NewLinePoints(xys)
	if err != nil {
		return err
	}
	line.Color, dots.Color, dots.Shape = c, c, draw.CircleGlyph{}
	p.Add(line)
	if points {
		p.Add(dots)
	}
	p.Legend.Add(name, line)
	return nil
}
