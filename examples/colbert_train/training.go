package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	course := train.Options{Config: o.Config, Set: set, Out: o.out, Resume: o.resume, Device: device}
	if err := errors.Join(course.Check(), checkOut(o)); err != nil {
		return err
	}
	if !o.resume {
		if err := removeResults(o.out); err != nil {
			return err
		}
	}
	outcome, err := trainWithProgress(ctx, course, stderr, bar)
	if errors.Is(err, train.ErrInterrupted) {
		return fmt.Errorf("%w; -resume -out %s%s continues", err, o.out, o.taskFlag())
	}
	if err != nil {
		return err
	}
	rep, err := compare(o, set, outcome, device)
	if err != nil {
		return err
	}
	if err := save(o, set, outcome, rep); err != nil {
		return err
	}
	return summarise(o, rep, stdout)
}

// save writes the model with its pool, the plot and the report.
func save(o *options, set *dataset.Set, outcome *train.Outcome, rep *report.Report) error {
	if err := outcome.Model.Save(filepath.Join(o.out, modelFolder)); err != nil {
		return err
	}
	if err := set.WriteCorpus(filepath.Join(o.out, poolFile)); err != nil {
		return err
	}
	if err := report.Plot(o.out, outcome.Records, rep.Dev.BM25); err != nil {
		return err
	}
	return rep.Write(o.out)
}

// summarise prints the comparison and what a reader of it should know.
func summarise(o *options, rep *report.Report, w io.Writer) error {
	if err := rep.Table(w); err != nil {
		return err
	}
	if n := rep.Data.Leaks; n > 0 {
		fmt.Fprintf(w, "%d of the queries are near copies of a training query: the table measures memory as well\n", n)
	}
	if rep.Data.CutDocuments+rep.Data.CutQueries > 0 {
		fmt.Fprintf(w, "cut: %d documents to -doc-tokens %d, %d queries to -query-tokens %d\n",
			rep.Data.CutDocuments, o.Model.DocTokens, rep.Data.CutQueries, o.Model.QueryTokens)
	}
	_, err := fmt.Fprintf(w, "best on dev after step %d of %d; report.json, train.jsonl, loss.png and model/ are in %s\n",
		rep.Dev.BestStep, o.Steps, o.out)
	return err
}

// trainWithProgress runs the training and shows it.
func trainWithProgress(ctx context.Context, course train.Options, w io.Writer, bar bool) (*train.Outcome, error) {
	var display *progress.Display
	var shown error // the first: where one line cannot be written, none can
	course.Observe = func(r train.Record) {
		if display == nil {
			display = progress.New(w, bar, course.Steps, r.Step-1)
		}
		if err := display.Step(r); shown == nil {
			shown = err
		}
	}
	outcome, err := train.Run(ctx, course)
	return outcome, errors.Join(err, shown)
}
