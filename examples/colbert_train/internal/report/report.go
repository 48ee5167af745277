// Package report writes down what a run was and what it achieved: report.json, a table, and a plot.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"text/tabwriter"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/evaluate"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/train"
)

// The files that this package writes into the folder of a run.
const (
	reportFile = "report.json"
	plotFile   = "loss.png"
)

// Remove removes the report and the plot from a folder, if they are there.
func Remove(dir string) error {
	return errors.Join(os.RemoveAll(filepath.Join(dir, reportFile)), os.RemoveAll(filepath.Join(dir, plotFile)))
}

// Report is report.json.
type Report struct {
	Systems Systems  `json:"systems"`          // on test queries
	Unseen  *Systems `json:"unseen,omitempty"` // on queries for packages without a training query, if there are any

	PTrainedVsBM25            float64  `json:"p_trained_vs_bm25"` // paired randomisation test on reciprocal ranks@10
	PTrainedVsUntrained       float64  `json:"p_trained_vs_untrained"`
	PTrainedVsBM25Unseen      *float64 `json:"p_trained_vs_bm25_unseen,omitempty"`
	PTrainedVsUntrainedUnseen *float64 `json:"p_trained_vs_untrained_unseen,omitempty"`

	Dev Dev `json:"dev"`

	Data     Data         `json:"data"`
	Seed     uint64       `json:"seed"`
	Settings train.Config `json:"settings"`
	Device   string       `json:"device"`

	StepSeconds     train.Seconds `json:"step_seconds"` // means over all steps
	TrainingSeconds float64       `json:"training_seconds"`
	TokensPerSecond float64       `json:"tokens_per_second"`
	PeakMemory      Memory        `json:"peak_memory"`

	Machine Machine           `json:"machine"`
	Go      string            `json:"go_version"`
	Modules map[string]string `json:"modules"`
}

// Systems are the measures of the systems that are compared on some queries.
type Systems struct {
	Queries   int               `json:"queries"`
	Trained   evaluate.Measures `json:"trained"`
	Untrained evaluate.Measures `json:"untrained"`
	BM25      evaluate.Measures `json:"bm25"`
}

// Dev is what choosing the best state looked at.
type Dev struct {
	BestStep int     `json:"best_step"`
	Trained  float64 `json:"trained_mrr@10"`
	BM25     float64 `json:"bm25_mrr@10"`
	Queries  int     `json:"queries"`
}

// Data describes the task.
type Data struct {
	Source        string         `json:"source"`
	Documents     int            `json:"documents"`
	TrainQueries  int            `json:"train_queries"` // those with judged documents; triples only add to the examples
	TrainExamples int            `json:"train_examples"`
	Vocabulary    int            `json:"vocabulary"`
	Leaks         int            `json:"near_copies_of_training_queries"` // among test and unseen queries
	CutDocuments  int            `json:"cut_documents"`                   // of the pool: longer than the model reads
	CutQueries    int            `json:"cut_queries"`                     // of train, dev, test and unseen
	Dropped       map[string]int `json:"dropped,omitempty"`
}

// Machine says where the run took place.
type Machine struct {
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Threads int    `json:"threads"` // GOMAXPROCS
}

// Results are the three systems on the same queries.
type Results struct{ Trained, Untrained, BM25 evaluate.Result }

// Compare fills in test and, if it has queries, unseen.
func (r *Report) Compare(test, unseen Results) error {
	var err error
	if r.PTrainedVsBM25, err = evaluate.Difference(test.Trained, test.BM25); err != nil {
		return err
	}
	if r.PTrainedVsUntrained, err = evaluate.Difference(test.Trained, test.Untrained); err != nil {
		return err
	}
	r.Systems = test.systems()
	if len(unseen.Trained.ReciprocalRanks) == 0 {
		return nil
	}
	bm25, err := evaluate.Difference(unseen.Trained, unseen.BM25)
	if err != nil {
		return err
	}
	untrained, err := evaluate.Difference(unseen.Trained, unseen.Untrained)
	if err != nil {
		return err
	}
	s := unseen.systems()
	r.Unseen, r.PTrainedVsBM25Unseen, r.PTrainedVsUntrainedUnseen = &s, &bm25, &untrained
	return nil
}

func (r Results) systems() Systems {
	return Systems{
		Queries: len(r.Trained.ReciprocalRanks),
		Trained: r.Trained.Measures, Untrained: r.Untrained.Measures, BM25: r.BM25.Measures,
	}
}

// Steps fills in the times from the records of a run.
func (r *Report) Steps(records []train.Record) {
	var sum train.Seconds
	tokens := 0
	for _, rec := range records {
		sum = sum.Add(rec.Seconds)
		tokens += rec.Tokens
	}
	n := float64(max(1, len(records)))
	r.TrainingSeconds = sum.Total()
	r.StepSeconds = train.Seconds{
		Encoder: sum.Encoder / n, MaxSimForward: sum.MaxSimForward / n, MaxSimBackward: sum.MaxSimBackward / n, Optimiser: sum.Optimiser / n,
	}
	if r.TrainingSeconds > 0 {
		r.TokensPerSecond = float64(tokens) / r.TrainingSeconds
	}
}

// Process fills in what the running process knows about itself. Peak memory is read now, so call it last.
func (r *Report) Process() {
	r.PeakMemory = peakMemory()
	r.Machine = Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Threads: runtime.GOMAXPROCS(0)}
	r.Go = runtime.Version()
	r.Modules = map[string]string{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return
	}
	r.Modules[info.Main.Path] = info.Main.Version
	for _, m := range info.Deps {
		for m.Replace != nil {
			m = m.Replace
		}
		r.Modules[m.Path] = m.Version
	}
}

// Write writes report.json into a folder.
func (r *Report) Write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, reportFile), append(text, '\n'), 0o644)
}

// Table prints the comparison.
func (r *Report) Table(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "queries\tsystem\tMRR@10\tRecall@10\tRecall@100\tnDCG@10\tp against trained")
	part := func(name string, s Systems, pUntrained, pBM25 float64) {
		row := func(system string, m evaluate.Measures, p string) {
			fmt.Fprintf(tw, "%s (%d)\t%s\t%.3f\t%.3f\t%.3f\t%.3f\t%s\n",
				name, s.Queries, system, m.MRR10, m.Recall10, m.Recall100, m.NDCG10, p)
		}
		row("untrained", s.Untrained, formatP(pUntrained))
		row("BM25, stop words + Porter", s.BM25, formatP(pBM25))
		row("trained", s.Trained, "")
	}
	part("test", r.Systems, r.PTrainedVsUntrained, r.PTrainedVsBM25)
	if r.Unseen != nil {
		part("unseen packages", *r.Unseen, *r.PTrainedVsUntrainedUnseen, *r.PTrainedVsBM25Unseen)
	}
	return tw.Flush()
}

// formatP prints a p value with the digits that the test resolves.
func formatP(p float64) string {
	if p < 0.0005 {
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", p)
}
