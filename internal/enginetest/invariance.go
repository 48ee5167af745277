package enginetest

import (
	"fmt"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// floatShapes has random-number problems with tails of every usual tile and vector width.
var floatShapes = []shape{
	{1, 1, 1, 1, 1},
	{2, 5, 3, 17, 20},
	{3, 33, 5, 130, 128},
	{2, 7, 2, 65, 96},
	{5, 3, 9, 4, 31},
	{2, 2, 2, 9, 768},
	{1, 3, 2, 5, 4096},
	{1, 70, 2, 600, 16},
}

// floatProblems draws normal numbers in every pairing; the patterns change from shape to shape.
func floatProblems[T layout.Float]() []*problem[T] {
	var list []*problem[T]
	for n, s := range floatShapes {
		for g, group := range []int{0, 1, 3} {
			q, d := patterns[(n+g)%len(patterns)], patterns[(n+2*g+1)%len(patterns)]
			list = append(list, newProblem[T](1000+10*n+g, s, group, q, d, normal, normal, normal))
		}
	}
	return list
}

// invarianceChecks demand the same bits of scores and argmax for a pair in any batch, at any padding, in any pairing.
// The numbers are such that another order of summation shows.
func invarianceChecks[T layout.Float](e Engine[T]) []check {
	var list []check
	for _, p := range floatProblems[T]() {
		list = append(list, check{p.name, func() error { return invariant(e, p) }})
	}
	// Beside a NaN the argmax may be any valid token, but it is the same one everywhere.
	for group, pat := range []pattern{holes, packed, left} {
		p := newProblem[T](1900+group, shape{3, 9, 4, 41, 6}, group, pat, pat, normal, normalOrNaN, normal)
		list = append(list, check{"NaN," + p.name, func() error { return invariant(e, p) }})
	}
	return list
}

func invariant[T layout.Float](e Engine[T], p *problem[T]) error {
	want, err := solve(e, p)
	if err != nil {
		return err
	}
	same := func(other *problem[T], got output[T]) error {
		if err := diffBits("scores", got.scores, want.scores); err != nil {
			return fmt.Errorf("%s: %w", other.name, err)
		}
		if err := diffArgmax(got.argmax, want.argmax); err != nil {
			return fmt.Errorf("%s: %w", other.name, err)
		}
		return nil
	}
	for _, r := range rewrites(p) {
		got, err := solve(e, r.problem)
		if err != nil {
			return fmt.Errorf("%s: %w", r.problem.name, err)
		}
		if err := same(r.problem, r.back(got)); err != nil {
			return err
		}
	}
	return alone(e, p, want)
}

// alone calls the engine once for every pair, which is all there is in its batch.
func alone[T layout.Float](e Engine[T], p *problem[T], want output[T]) error {
	b := p.b
	for i := range b.Q.Len() {
		for k := range b.Cols() {
			j := b.Doc(i, k)
			q := plan(&b.Q, 1, func(int) int { return i }, asIs)
			d := plan(&b.D, 1, func(int) int { return j }, asIs)
			r := build(p, fmt.Sprintf("query %d and document %d alone", i, j), q, d, 0, func(int, int) (int, int) { return 0, 0 })
			got, err := solve(e, r.problem)
			if err != nil {
				return fmt.Errorf("%s: %w", r.problem.name, err)
			}
			if err := diffBits("scores", got.scores, want.scores[i*b.Cols()+k:][:1]); err != nil {
				return fmt.Errorf("%s: %w", r.problem.name, err)
			}
			lo := b.TapeAt(i, k)
			if err := diffArgmax(got.argmax[:b.Q.Tokens(i)], want.argmax[lo:lo+b.Q.Tokens(i)]); err != nil {
				return fmt.Errorf("%s: %w", r.problem.name, err)
			}
		}
	}
	return nil
}
