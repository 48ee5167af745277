package enginetest

import (
	"fmt"
	"math"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/oracle"
)

// boundChecks hold random-number results to the oracle.
func boundChecks[T layout.Float](e Engine[T], o Options) []check {
	var list []check
	for _, p := range floatProblems[T]() {
		list = append(list, check{p.name, func() error { return bounded(e, o, p) }})
	}
	return list
}

// bounded compares one problem. Errors are counted in units of roundoff(T)·Σ|products|, per element:
//
//   - float32: at most twice the worst error of the naive float32 loop on the same problem, both against float64.
//     Naive errors below one unit count as one, since a correctly rounded result may have that much;
//   - float64: no wider type is at hand, so at most twice the worst case of n additions in any order, n units;
//   - with Options.Roundoff r: (2r + r²)·Σ|products| more, the error of rounding both factors.
//
// An argmax may differ from the oracle's only where the two similarities are closer than the errors that both may have.
func bounded[T layout.Float](e Engine[T], o Options, p *problem[T]) error {
	got, err := solve(e, p)
	if err != nil {
		return err
	}
	longest := 0
	for i := range p.b.Q.Len() {
		longest = max(longest, p.b.Q.Tokens(i))
	}
	want, naive := oracle.Forward[float64](p.b, p.q, p.d), oracle.Forward[T](p.b, p.q, p.d)
	limit := limits[T]{roundoff: o.Roundoff}
	if err := limit.check("scores", got.scores, want.Scores, naive.Scores, want.Scale, p.b.Dim+longest); err != nil {
		return err
	}
	if err := closeArgmax(p, o, got.argmax, want.Argmax); err != nil {
		return err
	}
	g, ng := oracle.Backward[float64](p.b, p.q, p.d, got.argmax, p.ds), oracle.Backward[T](p.b, p.q, p.d, got.argmax, p.ds)
	if err := limit.check("dq", got.dq, g.DQ, ng.DQ, g.DQScale, p.b.Cols()); err != nil {
		return err
	}
	return limit.check("dd", got.dd, g.DD, ng.DD, g.DDScale, p.b.Q.Rows)
}

type limits[T layout.Float] struct{ roundoff float64 }

// check holds every element to its bound; terms is the largest number of terms in a sum.
func (l limits[T]) check(name string, got []T, want []float64, naive []T, scale []float64, terms int) error {
	unit := roundoff[T]()
	units := 2 * float64(terms)
	if unit > 0x1p-53 {
		worst := 1.0
		for at, w := range want {
			if scale[at] > 0 {
				worst = max(worst, math.Abs(float64(naive[at])-w)/(unit*scale[at]))
			}
		}
		units = 2 * worst
	}
	perScale := units*unit + 2*l.roundoff + l.roundoff*l.roundoff
	for at, w := range want {
		if diff := math.Abs(float64(got[at]) - w); !(diff <= perScale*scale[at]) {
			return fmt.Errorf("%s[%d] of %d is %.9g, want %.9g within %.3g: error %.3g, %.3g units of %.3g·Σ|products|; allowed %.3g",
				name, at, len(want), got[at], w, perScale*scale[at], diff, diff/(unit*scale[at]), unit, perScale/unit)
		}
	}
	return nil
}

// roundoff returns the unit roundoff of T.
func roundoff[T layout.Float]() float64 {
	if T(1)+0x1p-30 == 1 {
		return 0x1p-24
	}
	return 0x1p-53
}

// closeArgmax allows another winner only if its similarity is as large within the errors of both: dim additions and
// the rounding of the factors.
func closeArgmax[T layout.Float](p *problem[T], o Options, got, want []int32) error {
	b := p.b
	relative := float64(b.Dim)*roundoff[T]() + 2*o.Roundoff + o.Roundoff*o.Roundoff
	for i := range b.Q.Len() {
		for k := range b.Cols() {
			for t := range b.Q.Tokens(i) {
				at, j := b.TapeAt(i, k)+t, b.Doc(i, k)
				if got[at] == want[at] {
					continue
				}
				best, bestScale := oracle.Similarity[float64](b, p.q, p.d, i, t, j, int(want[at]))
				sim, scale := oracle.Similarity[float64](b, p.q, p.d, i, t, j, int(got[at]))
				if gap, allowed := best-sim, relative*(bestScale+scale); !(gap <= allowed) {
					return fmt.Errorf("tape[%d] is %d, want %d: its similarity %.9g is %.3g below the best; rounding explains %.3g",
						at, got[at], want[at], sim, gap, allowed)
				}
			}
		}
	}
	return nil
}
