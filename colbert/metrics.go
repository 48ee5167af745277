package colbert

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Scored is a document and its score for one query.
type Scored[ID cmp.Ordered] struct {
	ID    ID
	Score float64
}

// Rank returns the documents by falling score, equal scores by falling id: the order in which trec_eval and pytrec_eval
// evaluate a run whatever ranks it was written with (comp_sim_docno in trec_eval's form_res_rels.c; ids are compared
// as strings there, and so here when ID is string). Scores are compared as given; trec_eval rounds them to float32
// first. A NaN and a document that is there twice are errors.
func Rank[ID cmp.Ordered](docs []Scored[ID]) ([]ID, error) {
	sorted := slices.Clone(docs)
	seen := make(map[ID]bool, len(docs))
	for i, d := range docs {
		if math.IsNaN(d.Score) {
			return nil, fmt.Errorf("%w: Rank: score of document %v (entry %d) is NaN", ErrValue, d.ID, i)
		}
		if seen[d.ID] {
			return nil, fmt.Errorf("%w: Rank: document %v is there twice (entry %d)", ErrValue, d.ID, i)
		}
		seen[d.ID] = true
	}
	slices.SortFunc(sorted, func(a, b Scored[ID]) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.ID, a.ID))
	})
	ids := make([]ID, len(sorted))
	for i, d := range sorted {
		ids[i] = d.ID
	}
	return ids, nil
}

// Judgements are the relevance grades of one query: a document that is missing, or has a grade below 1, is not relevant.
type Judgements[ID cmp.Ordered] map[ID]int

func (j Judgements[ID]) relevant() int {
	n := 0
	for _, grade := range j {
		if grade > 0 {
			n++
		}
	}
	return n
}

// ReciprocalRank returns 1/rank of the first relevant document among the first k, 0 if there is none. Its mean over
// queries is MRR@k. Like the other measures it takes a ranking in which no document is there twice, as Rank makes it:
// a second copy would count again.
func ReciprocalRank[ID cmp.Ordered](ranked []ID, j Judgements[ID], k int) float64 {
	for r, id := range first(ranked, k) {
		if j[id] > 0 {
			return 1 / float64(r+1)
		}
	}
	return 0
}

// Recall returns the share of the relevant documents that are among the first k, 0 if no document is relevant.
func Recall[ID cmp.Ordered](ranked []ID, j Judgements[ID], k int) float64 {
	total := j.relevant()
	if total == 0 {
		return 0
	}
	found := 0
	for _, id := range first(ranked, k) {
		if j[id] > 0 {
			found++
		}
	}
	return float64(found) / float64(total)
}

// NDCG returns the normalised discounted cumulative gain of the first k documents, with the grade as gain and
// 1/log2(1+rank) as discount (trec_eval's ndcg_cut), 0 if no document is relevant.
func NDCG[ID cmp.Ordered](ranked []ID, j Judgements[ID], k int) float64 {
	var grades []int
	for _, grade := range j {
		if grade > 0 {
			grades = append(grades, grade)
		}
	}
	slices.SortFunc(grades, func(a, b int) int { return cmp.Compare(b, a) })
	ideal := dcg(first(grades, k))
	if ideal == 0 {
		return 0
	}
	var gains []int
	for _, id := range first(ranked, k) {
		gains = append(gains, max(0, j[id]))
	}
	return dcg(gains) / ideal
}

func dcg(gains []int) float64 {
	s := 0.0
	for r, g := range gains {
		s += float64(g) / math.Log2(float64(r+2))
	}
	return s
}

func first[E any](x []E, k int) []E { return x[:max(0, min(k, len(x)))] }
