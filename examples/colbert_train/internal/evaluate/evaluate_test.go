package evaluate

import (
	"math"
	"strings"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/examples/colbert_train/internal/dataset"
)

// TestRun: two queries over four documents.
//
//	first:  ranking 1 0 3 2; relevant 0: reciprocal rank 1/2, recall 1, nDCG 1/log2(3)
//	second: ranking 3 2 1 0; relevant 3 (grade 1) and 1 (grade 2): reciprocal rank 1, recall 1,
//	        nDCG (1 + 2/2) / (2 + 1/log2(3))
func TestRun(t *testing.T) {
	queries := []dataset.Query{
		{Text: "first", Relevant: []dataset.Judgement{{Doc: 0, Grade: 1}}},
		{Text: "second", Relevant: []dataset.Judgement{{Doc: 1, Grade: 2}, {Doc: 3, Grade: 1}}},
	}
	r, err := Run(queries, func(texts []string) ([][]float64, error) {
		if strings.Join(texts, " ") != "first second" {
			t.Errorf("queries %q", texts)
		}
		return [][]float64{{2, 3, 0, 1}, {0, 0, 0, 0}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	discount := 1 / math.Log2(3)
	want := Measures{MRR10: 0.75, Recall10: 1, Recall100: 1, NDCG10: (discount + 2/(2+discount)) / 2}
	for _, c := range []struct{ got, want float64 }{
		{r.MRR10, want.MRR10}, {r.Recall10, want.Recall10}, {r.Recall100, want.Recall100}, {r.NDCG10, want.NDCG10},
		{r.ReciprocalRanks[0], 0.5}, {r.ReciprocalRanks[1], 1},
	} {
		if math.Abs(c.got-c.want) > 1e-12 {
			t.Errorf("got %+v, want %+v", r, want)
			break
		}
	}
}

func TestRunErrors(t *testing.T) {
	queries := []dataset.Query{{Text: "first", Relevant: []dataset.Judgement{{Doc: 0, Grade: 1}}}}
	for want, scores := range map[string][][]float64{
		"0 rows of scores for 1 queries": nil,
		`query "first": `:                {{math.NaN()}},
	} {
		if _, err := Run(queries, func([]string) ([][]float64, error) { return scores, nil }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestDifference(t *testing.T) {
	a := Result{ReciprocalRanks: []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}
	b := Result{ReciprocalRanks: make([]float64, 10)}
	p, err := Difference(a, b) // as large only with all signs equal: 2 of 1024 patterns
	if err != nil || math.Abs(p-2.0/1024) > 0.001 {
		t.Errorf("ten equal differences: p = %v, %v, want about %v", p, err, 2.0/1024)
	}
	if _, err := Difference(a, Result{}); err == nil {
		t.Error("different numbers of queries: no error")
	}
}
