package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/dataset"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/progress"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/report"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/train"
)

// trainAndReport trains on the task, compares the systems on its test queries, once, and writes everything down.
func trainAndReport(ctx context.Context, o *options, device *maxsim.Device, stdout, stderr io.Writer, bar bool) error {
	set, err := task(o)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%s: %s\n", set.Source, set)
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	if err := set.WriteCorpus(filepath.Join(o.out, poolFile)); err != nil {
		return err
	}
	outcome, err := trainWithProgress(ctx, o, set, device, stderr, bar)
	if errors.Is(err, train.ErrInterrupted) {
		return fmt.Errorf("%w; -resume -out %s continues", err, o.out)
	}
	if err != nil {
		return err
	}
	if err := outcome.Model.Save(filepath.Join(o.out, modelFolder)); err != nil {
		return err
	}
	rep, err := compare(o, set, outcome, device)
	if err != nil {
		return err
	}
	if err := report.Plot(o.out, outcome.Records, rep.Dev.BM25); err != nil {
		return err
	}
	if err := rep.Write(o.out); err != nil {
		return err
	}
	if err := rep.Table(stdout); err != nil {
		return err
	}
	if rep.Data.CutDocuments+rep.Data.CutQueries > 0 {
		fmt.Fprintf(stdout, "cut: %d documents to -doc-tokens %d, %d queries to -query-tokens %d\n",
			rep.Data.CutDocuments, o.Model.DocTokens, rep.Data.CutQueries, o.Model.QueryTokens)
	}
	_, err = fmt.Fprintf(stdout, "best on dev after step %d of %d; report.json, train.jsonl, loss.png and model/ are in %s\n",
		outcome.BestStep, o.Steps, o.out)
	return err
}

// trainWithProgress runs the training and shows it.
func trainWithProgress(ctx context.Context, o *options, set *dataset.Set, device *maxsim.Device, w io.Writer, bar bool) (*train.Outcome, error) {
	var display *progress.Display
	var shown error
	outcome, err := train.Run(ctx, train.Options{
		Config: o.Config, Set: set, Out: o.out, Resume: o.resume, Device: device,
		Observe: func(r train.Record) {
			if display == nil {
				display = progress.New(w, bar, o.Steps, r.Step-1)
			}
			shown = errors.Join(shown, display.Step(r))
		},
	})
	return outcome, errors.Join(err, shown)
}
