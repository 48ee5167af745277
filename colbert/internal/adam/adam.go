// Package adam is the inner loop of the optimiser.
package adam

import (
	"math"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Rates are the numbers of one step that are the same for every element. The assembly reads them in this order.
type Rates[T layout.Float] struct {
	Clip         T // factor on the gradient
	Beta1, Beta2 T // decay of the moments
	Rest1, Rest2 T // 1 less that
	Keep         T // factor on the weight: 1 without decay
	Step         T // learning rate over the bias of the first moment
	Root         T // 1 over the root of the bias of the second moment
	Epsilon      T
}

// Update moves weights w and moments m and v by gradient g, all of one length:
//
//	g' = Clip·g
//	m  = Beta1·m + Rest1·g'
//	v  = Beta2·v + Rest2·g'·g'
//	w  = Keep·w − Step·m / (√v·Root + Epsilon)
//
// Every operation is rounded by itself, so the result has the same bits with any instruction set.
func Update[T layout.Float](r *Rates[T], w, m, v, g []T) {
	m, v, g = m[:len(w)], v[:len(w)], g[:len(w)]
	n := 0
	if best := fastest[T](); best.loop != nil {
		if n = len(w) / best.lanes * best.lanes; n > 0 {
			best.loop(&r.Clip, &w[0], &m[0], &v[0], &g[0], n)
		}
	}
	update(r, w[n:], m[n:], v[n:], g[n:])
}

// kernel is an assembled loop over a multiple of lanes elements.
type kernel[T layout.Float] struct {
	name  string
	lanes int
	loop  func(rates, w, m, v, g *T, n int) // rates: the first field of Rates
}

// update is Update in Go. A conversion keeps the compiler from fusing a product into a sum.
func update[T layout.Float](r *Rates[T], w, m, v, g []T) {
	m, v, g = m[:len(w)], v[:len(w)], g[:len(w)]
	for i := range w {
		gi := g[i] * r.Clip
		mi := T(r.Beta1*m[i]) + T(r.Rest1*gi)
		vi := T(r.Beta2*v[i]) + T(r.Rest2*gi*gi)
		root := T(T(math.Sqrt(float64(vi))) * r.Root)
		w[i] = T(r.Keep*w[i]) - r.Step*mi/(root+r.Epsilon)
		m[i], v[i] = mi, vi
	}
}

var (
	fastest32 = first(kernels[float32]())
	fastest64 = first(kernels[float64]())
)

// fastest returns the best loop that this machine can run; the zero value if it can run none.
func fastest[T layout.Float]() kernel[T] {
	if k, ok := any(fastest32).(kernel[T]); ok {
		return k
	}
	return any(fastest64).(kernel[T])
}

func first[T layout.Float](k []kernel[T]) kernel[T] {
	if len(k) == 0 {
		return kernel[T]{}
	}
	return k[0]
}
