package main

import (
	"slices"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/bm25"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/dataset"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/evaluate"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/report"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/train"
)

// systems are what is compared on the same queries and documents.
type systems struct {
	set     *dataset.Set
	device  *maxsim.Device
	outcome *train.Outcome
	lexical *bm25.Index
}

// measure evaluates every system on some queries of the set.
func (s *systems) measure(queries []dataset.Query) (r report.Results, err error) {
	if r.Trained, err = train.Evaluate(s.outcome.Model, s.set, queries, s.device); err != nil {
		return r, err
	}
	if r.Untrained, err = train.Evaluate(s.outcome.Untrained, s.set, queries, s.device); err != nil {
		return r, err
	}
	r.BM25, err = evaluate.Run(queries, s.bm25)
	return r, err
}

// bm25 scores every document for each query.
func (s *systems) bm25(queries []string) ([][]float64, error) {
	out := make([][]float64, len(queries))
	for i, q := range queries {
		out[i] = s.lexical.Scores(q)
	}
	return out, nil
}

// compare looks at test and unseen queries, the only time that anything does, and reports.
func compare(o *options, set *dataset.Set, outcome *train.Outcome, device *maxsim.Device) (*report.Report, error) {
	texts := set.Texts()
	s := &systems{set: set, device: device, outcome: outcome, lexical: bm25.NewIndex(texts)}
	test, err := s.measure(set.Test)
	if err != nil {
		return nil, err
	}
	unseen, err := s.measure(set.Unseen)
	if err != nil {
		return nil, err
	}
	dev, err := evaluate.Run(set.Dev, s.bm25)
	if err != nil {
		return nil, err
	}
	var queries []string
	for _, q := range slices.Concat(set.Train, set.Dev, set.Test, set.Unseen) {
		queries = append(queries, q.Text)
	}
	v := outcome.Model.Vocabulary
	r := &report.Report{
		Dev: report.Dev{BestStep: outcome.BestStep, Trained: outcome.BestDev, BM25: dev.MRR10, Queries: len(set.Dev)},
		Data: report.Data{
			Source: set.Source, Documents: len(set.Docs), TrainQueries: len(set.Train), TrainExamples: len(set.Examples()),
			Vocabulary: v.Size(), Dropped: set.Dropped, Leaks: set.Leaks(),
			CutDocuments: v.Longer(texts, o.Model.DocTokens), CutQueries: v.Longer(queries, o.Model.QueryTokens),
		},
		Seed: o.Seed, Settings: o.Config, Device: device.Describe(),
	}
	r.Steps(outcome.Records)
	if err := r.Compare(test, unseen); err != nil {
		return nil, err
	}
	r.Process()
	return r, nil
}
