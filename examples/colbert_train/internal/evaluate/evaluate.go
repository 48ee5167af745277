// Package evaluate measures how well a system ranks the documents of a task, and whether two systems differ.
package evaluate

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/flash-maxsim/gorgonia-maxsim/colbert"
	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/dataset"
)

// Measures are means over queries.
type Measures struct {
	MRR10     float64 `json:"mrr@10"`
	Recall10  float64 `json:"recall@10"`
	Recall100 float64 `json:"recall@100"`
	NDCG10    float64 `json:"ndcg@10"`
}

// Result is what a system achieves on some queries. ReciprocalRanks has one reciprocal rank@10 for each query, for
// paired tests.
type Result struct {
	Measures
	ReciprocalRanks []float64
}

// Scorer returns the score of every document of the pool, in its order, for each query.
type Scorer func(queries []string) ([][]float64, error)

// Difference returns the two-sided p value of the paired randomisation test on the reciprocal ranks of two systems for
// the same queries: the chance of a difference at least as large if each query's two results were swapped at random.
func Difference(a, b Result) (float64, error) {
	const trials = 20000 // the standard error of p = .05 is then .0015
	return colbert.PairedRandomisation(a.ReciprocalRanks, b.ReciprocalRanks, trials, 1)
}

// Run ranks the whole pool for every query. Equal scores are ranked by the place in the pool, later documents first,
// which has nothing to do with relevance.
func Run(queries []dataset.Query, score Scorer) (Result, error) {
	texts := make([]string, len(queries))
	for i, q := range queries {
		texts[i] = q.Text
	}
	scores, err := score(texts)
	if err != nil {
		return Result{}, err
	}
	if len(scores) != len(queries) {
		return Result{}, fmt.Errorf("%d rows of scores for %d queries", len(scores), len(queries))
	}
	perQuery := make([]Measures, len(queries))
	errs := make([]error, len(queries))
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				perQuery[i], errs[i] = measure(queries[i], scores[i])
			}
		})
	}
	for i := range queries {
		next <- i
	}
	close(next)
	wg.Wait()

	r := Result{ReciprocalRanks: make([]float64, len(queries))}
	n := float64(len(queries))
	for i, m := range perQuery {
		if errs[i] != nil {
			return Result{}, fmt.Errorf("query %q: %w", queries[i].Text, errs[i])
		}
		r.ReciprocalRanks[i] = m.MRR10
		r.MRR10 += m.MRR10 / n
		r.Recall10 += m.Recall10 / n
		r.Recall100 += m.Recall100 / n
		r.NDCG10 += m.NDCG10 / n
	}
	return r, nil
}

// measure evaluates the ranking of one query.
func measure(q dataset.Query, scores []float64) (Measures, error) {
	docs := make([]colbert.Scored[int], len(scores))
	for doc, s := range scores {
		docs[doc] = colbert.Scored[int]{ID: doc, Score: s}
	}
	ranked, err := colbert.Rank(docs)
	if err != nil {
		return Measures{}, err
	}
	grades := colbert.Judgements[int]{}
	for _, r := range q.Relevant {
		grades[r.Doc] = r.Grade
	}
	return Measures{
		MRR10:     colbert.ReciprocalRank(ranked, grades, 10),
		Recall10:  colbert.Recall(ranked, grades, 10),
		Recall100: colbert.Recall(ranked, grades, 100),
		NDCG10:    colbert.NDCG(ranked, grades, 10),
	}, nil
}
