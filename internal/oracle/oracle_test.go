package oracle_test

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/casefile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/oracle"
)

// The cases were computed by other means (exact fractions), so they hold the oracle to the definition.
func TestOraclePassesEveryCase(t *testing.T) {
	cases, err := casefile.LoadDir(filepath.Join("..", "..", "testdata", "cases"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if c.ErrorReason != "" || c.Options.Heavy {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			for n := range c.Steps {
				runCase(t, c, &c.Steps[n])
			}
		})
	}
}

func runCase(t *testing.T, c *casefile.Case, s *casefile.Step) {
	b, err := c.Batch(s)
	if err != nil {
		t.Fatal(err)
	}
	q, d := casefile.Values[float64](s.Q), casefile.Values[float64](s.D)
	r := oracle.Forward[float64](b, q, d)
	check(t, "scores", r.Scores, s.Expect.Scores, s.Expect.ScoreTol())
	check(t, "argmax", c.ArgmaxOf(b, r.Argmax), s.Expect.Argmax, casefile.Exact)
	// The files give three digits.
	if want := s.Expect.MinMargin; want > 0 && math.Abs(r.MinMargin()-want) > 5e-3*want {
		t.Errorf("smallest margin %g, want %g", r.MinMargin(), want)
	}
	if s.Upstream == nil {
		return
	}
	g := oracle.Backward[float64](b, q, d, r.Argmax, casefile.Values[float64](s.Upstream))
	check(t, "dq", g.DQ, s.Expect.DQ, s.Expect.GradTol())
	check(t, "dd", g.DD, s.Expect.DD, s.Expect.GradTol())
}

func check[T casefile.Element](t *testing.T, name string, got []T, want *casefile.Expected, tol casefile.Tol) {
	t.Helper()
	if want == nil {
		return
	}
	if err := casefile.Compare(name, got, want, tol); err != nil {
		t.Error(err)
	}
}

func TestMargin(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, test := range []struct {
		name   string
		d      []float64
		score  float64
		argmax int32
		margin float64
	}{
		{"best last", []float64{1, 2, 5}, 5, 2, 3},
		{"best first", []float64{5, 1, 2}, 5, 0, 3},
		{"tie", []float64{2, 5, 5}, 5, 1, 0},
		{"tie of worse tokens", []float64{2, 2, 5}, 5, 2, 3},
		{"one token", []float64{2}, 2, 0, inf},
		{"nan first", []float64{nan, 2, 5}, nan, 0, nan},
		{"nan last", []float64{2, 5, nan}, nan, 2, nan},
		{"two nans", []float64{2, nan, nan}, nan, 1, nan},
		{"all -Inf", []float64{-inf, -inf}, -inf, 0, 0},
		{"-Inf and a number", []float64{-inf, 2}, 2, 1, inf},
		{"two infinities", []float64{1, inf, inf}, inf, 1, 0},
		{"zeros of both signs", []float64{math.Copysign(0, -1), 0}, 0, 0, 0},
	} {
		b := &layout.Batch{Q: layout.Dense(1, 1), D: layout.Dense(1, len(test.d)), Dim: 1}
		r := oracle.Forward[float64](b, []float64{1}, test.d)
		if !same(r.Scores[0], test.score) || r.Argmax[0] != test.argmax || !same(r.Margin[0], test.margin) {
			t.Errorf("%s: score %g, argmax %d, margin %g; want %g, %d, %g", test.name,
				r.Scores[0], r.Argmax[0], r.Margin[0], test.score, test.argmax, test.margin)
		}
	}
}

func same(a, b float64) bool { return a == b || a != a && b != b }

// The closed form is the derivative: central differences of Σ ds·scores, exact while no winner changes.
func TestBackwardIsTheDerivativeOfForward(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := &layout.Batch{
		Q:   layout.Packed(8, []int{0, 3, 3, 7}).Masked(func(row int) bool { return row != 1 }),
		D:   layout.Packed(12, []int{0, 4, 4, 9, 11}).Masked(func(row int) bool { return row%5 != 3 }),
		Dim: 3,
	}
	q, d := normal(rng, b.Q.Rows*b.Dim), normal(rng, b.D.Rows*b.Dim)
	ds := normal(rng, b.Q.Len()*b.Cols())
	r := oracle.Forward[float64](b, q, d)
	const step = 1e-5
	if m := r.MinMargin(); m < 100*step {
		t.Fatalf("margin %g: a winner may change", m)
	}
	loss := func() (sum float64) {
		for at, s := range oracle.Forward[float64](b, q, d).Scores {
			sum += ds[at] * s
		}
		return sum
	}
	g := oracle.Backward[float64](b, q, d, r.Argmax, ds)
	for _, side := range []struct {
		name    string
		x, grad []float64
	}{{"dq", q, g.DQ}, {"dd", d, g.DD}} {
		if !slices.ContainsFunc(side.grad, func(v float64) bool { return v == 0 }) {
			t.Errorf("%s: every element has a gradient, the capacity row too", side.name)
		}
		for at := range side.x {
			x := side.x[at]
			side.x[at] = x + step
			up := loss()
			side.x[at] = x - step
			down := loss()
			side.x[at] = x
			if diff := (up - down) / (2 * step); math.Abs(diff-side.grad[at]) > 1e-8 {
				t.Errorf("%s[%d] is %g, central differences give %g", side.name, at, side.grad[at], diff)
			}
		}
	}
}

func normal(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for at := range x {
		x[at] = rng.NormFloat64()
	}
	return x
}
