package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/bm25"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/dataset"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/evaluate"
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

// compare measures the trained and the untrained model and BM25 on test and unseen queries.
func compare(o *options, set *dataset.Set, outcome *train.Outcome, device *maxsim.Device) (*report.Report, error) {
	texts := make([]string, len(set.Docs))
	for i, d := range set.Docs {
		texts[i] = d.Text
	}
	lexical := bm25.NewIndex(texts)
	baseline := func(queries []string) ([][]float64, error) {
		out := make([][]float64, len(queries))
		for i, q := range queries {
			out[i] = lexical.Scores(q)
		}
		return out, nil
	}
	all := func(queries []dataset.Query) (r report.Results, err error) {
		if r.Trained, err = train.Evaluate(outcome.Model, set, queries, device); err != nil {
			return r, err
		}
		if r.Untrained, err = train.Evaluate(outcome.Untrained, set, queries, device); err != nil {
			return r, err
		}
		r.BM25, err = evaluate.Run(queries, baseline)
		return r, err
	}
	test, err := all(set.Test)
	if err != nil {
		return nil, err
	}
	unseen, err := all(set.Unseen)
	if err != nil {
		return nil, err
	}
	dev, err := evaluate.Run(set.Dev, baseline)
	if err != nil {
		return nil, err
	}
	v := outcome.Model.Vocabulary
	var queryTexts []string
	for _, q := range slices.Concat(set.Train, set.Dev, set.Test, set.Unseen) {
		queryTexts = append(queryTexts, q.Text)
	}
	rep := &report.Report{
		Dev: report.Dev{BestStep: outcome.BestStep, Trained: outcome.BestDev, BM25: dev.MRR10, Queries: len(set.Dev)},
		Data: report.Data{
			Source: set.Source, Documents: len(set.Docs), TrainQueries: len(set.Train), TrainExamples: len(set.Examples()),
			Vocabulary: v.Size(), Dropped: set.Dropped,
			CutDocuments: v.Longer(texts, o.Model.DocTokens), CutQueries: v.Longer(queryTexts, o.Model.QueryTokens),
		},
		Seed: o.Seed, Settings: o.Config, Device: device.String(),
	}
	rep.Steps(outcome.Records)
	if err := rep.Compare(test, unseen); err != nil {
		return nil, err
	}
	rep.Process()
	return rep, nil
}
