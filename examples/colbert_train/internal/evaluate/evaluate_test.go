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

func TestSignFlip(t *testing.T) {
	ones, zeros := make([]float64, 10), make([]float64, 10)
	for i := range ones {
		ones[i] = 1
	}
	// Ten equal differences are as large only with all signs equal: 2 of 1024 patterns.
	if p := SignFlip(ones, zeros); math.Abs(p-2.0/1024) > 0.001 {
		t.Errorf("ten equal differences: p = %v, want about %v", p, 2.0/1024)
	}
	if a, b := SignFlip(ones, zeros), SignFlip(zeros, ones); a != b {
		t.Errorf("the test is not symmetric: %v, %v", a, b)
	}
	if p := SignFlip(ones, ones); p != 1 {
		t.Errorf("equal systems: p = %v, want 1", p)
	}
	// +1 and -1: the sum 0 is reached by every pattern.
	if p := SignFlip([]float64{1, 0}, []float64{0, 1}); p != 1 {
		t.Errorf("differences that cancel: p = %v, want 1", p)
	}
}
