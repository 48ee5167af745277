package colbert

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRank: falling scores, and falling ids where scores are equal.
func TestRank(t *testing.T) {
	got, err := Rank([]Scored[string]{{"d1", 1}, {"d10", 2}, {"d2", 2}, {"d3", math.Inf(-1)}, {"d4", math.Inf(1)}})
	if want := []string{"d4", "d2", "d10", "d1", "d3"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("ranked %v, %v, want %v", got, err, want)
	}
	numbers, err := Rank([]Scored[int]{{1, 1}, {10, 2}, {2, 2}})
	if want := []int{10, 2, 1}; err != nil || !slices.Equal(numbers, want) {
		t.Errorf("ranked %v, %v, want %v", numbers, err, want)
	}
	_, err = Rank([]Scored[string]{{"d1", 1}, {"d2", math.NaN()}})
	wantError(t, err, ErrValue, "Rank: score of document d2 (entry 1) is NaN")
	_, err = Rank([]Scored[string]{{"d1", 1}, {"d2", 2}, {"d1", 3}})
	wantError(t, err, ErrValue, "Rank: document d1 is there twice (entry 2)")
}

func TestMetrics(t *testing.T) {
	ranked := []string{"a", "b", "c", "d", "e"}
	log2 := math.Log2
	for _, c := range []struct {
		name             string
		judged           Judgements[string]
		k                int
		rr, recall, ndcg float64
	}{
		{"first", Judgements[string]{"a": 1}, 10, 1, 1, 1},
		{"third", Judgements[string]{"c": 1}, 10, 1. / 3, 1, 1 / log2(4)},
		{"third, cut at two", Judgements[string]{"c": 1}, 2, 0, 0, 0},
		{"several", Judgements[string]{"b": 1, "e": 1, "z": 1}, 3, 0.5, 1. / 3, (1 / log2(3)) / (1 + 1/log2(3) + 1/log2(4))},
		{"graded", Judgements[string]{"a": 1, "b": 3, "c": -1, "d": 0, "z": 2}, 3, 1, 2. / 3,
			(1 + 3/log2(3)) / (3 + 2/log2(3) + 1/log2(4))},
		{"more relevant than k", Judgements[string]{"a": 1, "b": 1, "c": 1}, 2, 1, 2. / 3, 1},
		{"nothing relevant", Judgements[string]{"a": 0, "b": -2}, 10, 0, 0, 0},
		{"nothing judged", nil, 10, 0, 0, 0},
		{"k of 0", Judgements[string]{"a": 1}, 0, 0, 0, 0},
		{"k below 0", Judgements[string]{"a": 1}, -3, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, m := range []struct {
				name      string
				got, want float64
			}{{"reciprocal rank", ReciprocalRank(ranked, c.judged, c.k), c.rr}, {"recall", Recall(ranked, c.judged, c.k), c.recall},
				{"nDCG", NDCG(ranked, c.judged, c.k), c.ndcg}} {
				if !close(m.got, m.want, 1e-15) {
					t.Errorf("%s is %v, want %v", m.name, m.got, m.want)
				}
			}
		})
	}
}

// FuzzMetrics: metrics stay in [0, 1], do not fall with k (nDCG aside), and are 1 for the ideal order.
func FuzzMetrics(f *testing.F) {
	f.Add([]byte{3, 1, 0, 2}, 2)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, b []byte, k int) {
		judged := Judgements[int]{}
		docs := make([]Scored[int], len(b))
		ideal := make([]Scored[int], len(b))
		for i, x := range b {
			judged[i] = int(x%5) - 1
			docs[i] = Scored[int]{i, float64(x / 5 % 7)}
			ideal[i] = Scored[int]{i, float64(judged[i])}
		}
		ranked, err := Rank(docs)
		if err != nil || len(ranked) != len(docs) {
			t.Fatalf("%d of %d documents, %v", len(ranked), len(docs), err)
		}
		for name, m := range map[string]func([]int, Judgements[int], int) float64{
			"reciprocal rank": ReciprocalRank[int], "recall": Recall[int], "nDCG": NDCG[int],
		} {
			x := m(ranked, judged, k)
			if !(x >= 0 && x <= 1+1e-12) {
				t.Errorf("%s is %v", name, x)
			}
			if name != "nDCG" && k < math.MaxInt && m(ranked, judged, k+1) < x {
				t.Errorf("%s falls from k = %d to %d", name, k, k+1)
			}
		}
		best, err := Rank(ideal)
		if err != nil {
			t.Fatal(err)
		}
		if k > 0 && judged.relevant() > 0 {
			if x := NDCG(best, judged, k); !close(x, 1, 1e-12) {
				t.Errorf("nDCG of the ideal order is %v", x)
			}
		}
	})
}

func TestPairedRandomisation(t *testing.T) {
	p := func(a, b []float64) float64 {
		t.Helper()
		x, err := PairedRandomisation(a, b, 100_000, 7)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	a := []float64{0.9, 0.5, 0.4, 0.8, 0.7, 1}
	if got := p(a, a); got != 1 {
		t.Errorf("p of a system against itself is %v, want 1", got)
	}
	// Every query better by a different amount: only the 2 of 2⁶ sign patterns that are all equal are as extreme.
	b := []float64{0.8, 0.3, 0.1, 0.4, 0.2, 0.4}
	if got, want := p(a, b), 2./64; math.Abs(got-want) > 4*math.Sqrt(want/100_000) { // four standard deviations
		t.Errorf("p is %v, want %v", got, want)
	}
	if p(a, b) != p(b, a) || p(a, b) != p(a, b) {
		t.Error("p depends on the order of the systems or on the call")
	}
	// Queries on which both systems agree are no evidence, wherever they stand.
	tied := func(x []float64) []float64 { return slices.Concat([]float64{1}, x, []float64{1, 0}) }
	if got, want := p(tied(a), tied(b)), p(a, b); got != want {
		t.Errorf("p with ties is %v, without %v", got, want)
	}
	// 0.1 + 0.2 - 0.3 is not 0 in floating point: of the 12 of 2⁴ sign patterns that are as extreme, 2 are only up to rounding.
	if got, want := p([]float64{0.1, 0.2, -0.3, 0.25}, make([]float64, 4)), 12./16; math.Abs(got-want) > 4*math.Sqrt(want*(1-want)/100_000) {
		t.Errorf("p of sums that differ in their last bits is %v, want %v", got, want)
	}
	// Equal systems: p is spread evenly over [0, 1].
	rng := rand.New(rand.NewPCG(1, 1))
	below := 0
	for range 400 {
		x, y := make([]float64, 30), make([]float64, 30)
		for i := range x {
			x[i], y[i] = rng.Float64(), rng.Float64()
		}
		v, err := PairedRandomisation(x, y, 500, rng.Uint64())
		if err != nil {
			t.Fatal(err)
		}
		if v <= 0.1 {
			below++
		}
	}
	if below < 20 || below > 60 { // 40 expected, standard deviation 6
		t.Errorf("p ≤ 0.1 in %d of 400 comparisons of equal systems, want about 40", below)
	}
	for _, c := range []struct {
		a, b   []float64
		trials int
		is     error
		want   string
	}{
		{[]float64{1}, []float64{1, 2}, 10, ErrShape, "1 and 2 results in 10 trials"},
		{nil, nil, 10, ErrShape, "0 and 0 results"},
		{[]float64{1}, []float64{2}, 0, ErrShape, "in 0 trials"},
		{[]float64{1, math.NaN()}, []float64{2, 1}, 10, ErrValue, "results of query 1 are NaN and 1"},
	} {
		_, err := PairedRandomisation(c.a, c.b, c.trials, 1)
		wantError(t, err, c.is, c.want)
	}
}

func ExampleRank() {
	scores := map[string]float64{"fmt.Println": 7.1, "os.ReadFile": 9.3, "io.ReadAll": 9.3}
	var docs []Scored[string]
	for id, s := range scores {
		docs = append(docs, Scored[string]{id, s})
	}
	ranked, err := Rank(docs)
	if err != nil {
		panic(err)
	}
	judged := Judgements[string]{"io.ReadAll": 1}
	fmt.Println(ranked)
	fmt.Println(ReciprocalRank(ranked, judged, 10), Recall(ranked, judged, 10))
	// Output:
	// [os.ReadFile io.ReadAll fmt.Println]
	// 0.5 1
}
