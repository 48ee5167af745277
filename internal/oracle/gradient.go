package oracle

import (
	"math"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Gradient is a backward pass. DQ and DQScale are [b.Q.Rows, dim], DD and DDScale are [b.D.Rows, dim].
type Gradient[S layout.Float] struct {
	DQ, DD []S

	// DQScale and DDScale are the sums of the absolute products that make up each element: what its rounding error
	// is proportional to.
	DQScale, DDScale []float64
}

// Backward computes the gradients of Σ ds[i,k]·scores[i,k] in closed form, for the winners u* that tape holds in the
// order of Batch.TapeAt:
//
//	dq[i,t,:] = Σ_k ds[i,k]·d[j,u*,:]
//	dd[j,u,:] = Σ ds[i,k]·q[i,t,:]    over every (i,k,t) with u* = u
//
// with products and sums in S, in ascending order of i, k and t. Rows that no winner touches stay 0.
func Backward[S, T layout.Float](b *layout.Batch, q, d []T, tape []int32, ds []T) Gradient[S] {
	g := Gradient[S]{
		DQ: make([]S, b.Q.Rows*b.Dim), DQScale: make([]float64, b.Q.Rows*b.Dim),
		DD: make([]S, b.D.Rows*b.Dim), DDScale: make([]float64, b.D.Rows*b.Dim),
	}
	cols := b.Cols()
	for i := range b.Q.Len() {
		for k := range cols {
			for t := range b.Q.Tokens(i) {
				u := tape[b.TapeAt(i, k)+t]
				if u < 0 {
					continue
				}
				qrow := (b.Q.Cu[i] + t) * b.Dim
				drow := (b.D.Cu[b.Doc(i, k)] + int(u)) * b.Dim
				up := S(ds[i*cols+k])
				for c := range b.Dim {
					add(g.DQ, g.DQScale, qrow+c, up*S(d[drow+c]))
					add(g.DD, g.DDScale, drow+c, up*S(q[qrow+c]))
				}
			}
		}
	}
	return g
}

// add adds one product to an element and to its scale.
func add[S layout.Float](sum []S, scale []float64, at int, product S) {
	sum[at] += product
	scale[at] += math.Abs(float64(product))
}
