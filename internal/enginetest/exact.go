package enginetest

import (
	"fmt"
	"math"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/oracle"
)

// exactShapes has odd sizes, single tokens, tails of every usual tile and vector width, large dim, long documents and
// more documents than one grid axis takes.
var exactShapes = []shape{
	{1, 1, 1, 1, 1},
	{1, 1, 1, 1, 3},
	{2, 3, 4, 5, 7},
	{3, 5, 2, 17, 20},
	{4, 1, 5, 1, 64},
	{1, 32, 3, 33, 16},
	{2, 31, 2, 65, 33},
	{2, 7, 3, 130, 8},
	{3, 33, 2, 29, 5},
	{5, 9, 4, 48, 31},
	{1, 129, 1, 257, 4},
	{1, 2, 1, 300, 128},
	{1, 3, 2, 9, 768},
	{1, 2, 2, 7, 1024},
	{1, 2, 1, 5, 4096},
	{1, 3, 1, 4500, 2},
	{2, 1, 70000, 1, 1},
}

// exactChecks compares small-integer problems with the oracle bit for bit: every order of summation is exact.
func exactChecks[T layout.Float](e Engine[T]) []check {
	upstream := between(-3, 3)
	var list []check
	add := func(name string, seed int, s shape, group int, q, d pattern, qv, dv values, prove proof) {
		name += problemName(s, group, q, d)
		list = append(list, check{name, func() error {
			return exact(e, newProblem[T](seed, s, group, q, d, qv, dv, upstream), prove)
		}})
	}
	for n, s := range exactShapes {
		small := integers(2)
		if s.dim == 1 {
			small = integers(4)
		}
		for m, d := range patterns {
			// The query side takes another pattern than the document side, so that all pairs come up in the table.
			q := patterns[(m+n)%len(patterns)]
			seed := 100*n + m
			add("", seed, s, 0, q, d, small, small, several)
			if s.bd < 1000 {
				add("", seed+10, s, 1, d, q, small, small, nil)
				add("", seed+20, s, 3, q, d, small, small, nil)
			}
		}
	}
	add("", 1, shape{70000, 1, 0, 2, 1}, 1, all, holes, integers(2), integers(2), ties)
	for m, pat := range patterns {
		add("ties,", 9000+m, shape{3, 9, 4, 70, 3}, 0, pat, pat, integers(1), integers(1), ties)
		add("negative,", 9000+m, shape{3, 9, 4, 33, 6}, 0, pat, pat, between(1, 3), between(-3, -1), negatives)
	}
	return append(list,
		check{"hub", func() error { return exact(e, hub[T](), onlyWinner(11)) }},
		check{"long document", func() error { return exact(e, long[T](), winners(4097, 69999)) }},
		check{"no valid token at all", func() error { return exact(e, emptied[T](), nil) }})
}

// hub has a token in document 0 that wins every query token of every query.
func hub[T layout.Float]() *problem[T] {
	p := newProblem[T](7, shape{40, 32, 2, 19, 5}, 0, all, all, between(1, 3), between(-3, 1), between(-3, 3))
	fill(p.d[11*5:12*5], 3)
	return p
}

// long has winners beyond 12 and beyond 16 bits.
func long[T layout.Float]() *problem[T] {
	p := newProblem[T](9, shape{2, 4, 1, 70000, 2}, 0, all, all, between(1, 3), between(-3, 0), between(-3, 3))
	p.d[2*4097+1], p.d[2*69999] = 7, 7
	return p
}

func emptied[T layout.Float]() *problem[T] {
	p := newProblem[T](8, shape{3, 4, 3, 5, 6}, 0, all, all, integers(2), integers(2), between(-3, 3))
	p.b.D = p.b.D.Masked(func(int) bool { return false })
	return p
}

// exact compares one problem bit for bit with the oracle, after proving that the comparison says something.
func exact[T layout.Float](e Engine[T], p *problem[T], prove proof) error {
	want := oracle.Forward[float64](p.b, p.q, p.d)
	if prove != nil {
		if err := prove(p.b, &want); err != nil {
			return fmt.Errorf("the problem does not ask what it should: %w", err)
		}
	}
	for _, scale := range want.Scale {
		if scale >= 1<<24 && !math.IsInf(scale, 1) {
			return fmt.Errorf("the problem is not exact in float32: Σ|products| is %g", scale)
		}
	}
	got, err := solve(e, p)
	if err != nil {
		return err
	}
	return matches(p, got, &want)
}

// matches holds an output to the oracle, number for number.
func matches[T layout.Float](p *problem[T], got output[T], want *oracle.Result[float64]) error {
	if err := diffNumbers("scores", got.scores, want.Scores); err != nil {
		return err
	}
	for at, u := range want.Argmax {
		// Beside a NaN any valid token will do; solve has seen that it is one.
		if got.argmax[at] != u && !math.IsNaN(want.Margin[at]) {
			return fmt.Errorf("tape[%d] of %d is %d, want %d (margin %g)", at, len(want.Argmax), got.argmax[at], u, want.Margin[at])
		}
	}
	g := oracle.Backward[float64](p.b, p.q, p.d, got.argmax, p.ds)
	if err := diffNumbers("dq", got.dq, g.DQ); err != nil {
		return err
	}
	return diffNumbers("dd", got.dd, g.DD)
}

// diffNumbers compares exactly; the sign of a zero, which depends on the order of a sum, does not count.
func diffNumbers[T layout.Float](name string, got []T, want []float64) error {
	for at := range want {
		if g, w := float64(got[at]), want[at]; g != w && !(g != g && w != w) {
			return fmt.Errorf("%s[%d] of %d is %g, want exactly %g", name, at, len(want), g, w)
		}
	}
	return nil
}
