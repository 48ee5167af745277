package enginetest

import (
	"fmt"
	"math"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// specialChecks plants NaN, infinities and signed zeros in valid rows. Everything around them is a small integer, so
// the comparison is exact again.
func specialChecks[T layout.Float](e Engine[T]) []check {
	nan, inf := math.NaN(), math.Inf(1)
	var list []check
	add := func(name string, p *problem[T]) {
		list = append(list, check{name, func() error { return exact(e, p, nil) }})
	}
	s := shape{3, 5, 4, 37, 9}
	base := func(pat pattern) *problem[T] {
		return newProblem[T](42, s, 0, pat, pat, between(1, 2), integers(2), between(1, 3))
	}
	for _, pat := range []pattern{all, holes} {
		for _, v := range []float64{nan, inf, -inf} {
			for _, u := range []int{0, 1, 15, 16, 31, 32, 35, 36} {
				for _, k := range []int{0, 8} {
					p := base(pat)
					p.d[(1*s.td+u)*s.dim+k] = T(v)
					add(fmt.Sprintf("d token %d coordinate %d is %g,d=%s", u, k, v, pat), p)
				}
			}
			for _, t := range []int{0, 2, 4} {
				p := base(pat)
				p.q[(1*s.tq+t)*s.dim+3] = T(v)
				add(fmt.Sprintf("q token %d is %g,q=%s", t, v, pat), p)
			}
		}
		p := base(pat)
		fill(p.d[s.td*s.dim:2*s.td*s.dim], T(-inf))
		add(fmt.Sprintf("document of -Inf,d=%s", pat), p)
		p = base(pat)
		fill(p.d[s.td*s.dim:2*s.td*s.dim], T(nan))
		add(fmt.Sprintf("document of NaN,d=%s", pat), p)
		p = base(pat)
		p.d[5*s.dim], p.d[6*s.dim] = T(inf), T(nan)
		add(fmt.Sprintf("Inf before NaN,d=%s", pat), p)
		p = base(pat)
		p.d[5*s.dim], p.d[6*s.dim], p.d[5*s.dim+1] = T(nan), T(inf), T(-inf)
		add(fmt.Sprintf("NaN before Inf,d=%s", pat), p)
	}
	for _, v := range []float64{nan, inf, -inf} {
		p := base(holes)
		p.ds[5] = T(v)
		add(fmt.Sprintf("upstream gradient is %g", v), p)
		for _, u := range []int{0, 511, 2999} { // in every part of a document that is cut for several threads
			p := newProblem[T](43, shape{2, 3, 1, 3000, 5}, 0, all, all, between(1, 2), integers(2), between(1, 3))
			p.d[u*5+4] = T(v)
			add(fmt.Sprintf("token %d of a long document is %g", u, v), p)
		}
	}
	return append(list,
		check{"-0 ties with +0", func() error { return exact(e, zeros[T](), tiesOnly) }},
		check{"overflow to infinity", func() error { return overflow(e) }})
}

// zeros has similarities that are a zero of either sign: the first token wins.
func zeros[T layout.Float]() *problem[T] {
	p := newProblem[T](5, shape{1, 2, 1, 40, 1}, 0, all, all, between(1, 2), between(0, 0), between(1, 3))
	for u := range p.d {
		if u%3 != 1 {
			p.d[u] = T(math.Copysign(0, -1))
		}
	}
	return p
}

// overflow has similarities beyond the range of T: they are infinite, and the first of them wins.
func overflow[T layout.Float](e Engine[T]) error {
	var big T
	switch p := any(&big).(type) {
	case *float32:
		*p = math.MaxFloat32
	case *float64:
		*p = math.MaxFloat64
	}
	p := newProblem[T](6, shape{1, 2, 1, 9, 2}, 0, all, all, between(4, 4), between(1, 1), between(1, 1))
	p.d[3*2], p.d[7*2], p.d[5*2] = big, big, -big
	got, err := solve(e, p)
	if err != nil {
		return err
	}
	if !math.IsInf(float64(got.scores[0]), 1) || got.argmax[0] != 3 || got.argmax[1] != 3 {
		return fmt.Errorf("score %g, argmax %v; want +Inf and token 3", got.scores[0], got.argmax)
	}
	return nil
}

func fill[T layout.Float](x []T, v T) {
	for at := range x {
		x[at] = v
	}
}
