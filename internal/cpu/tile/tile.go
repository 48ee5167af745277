// Package tile holds the micro-kernels of the CPU engine: the only place where its arithmetic happens.
//
// There are three. Max folds document rows into the running row maxima of a panel of query tokens, so that a similarity
// lives in a register and nowhere else. Pack makes the panels. Gather adds weighted rows, and both gradients are
// made of it.
//
// A panel is lanes query tokens, K-major: coordinate k of token l is qp[k*lanes+l]. Query tokens lie in the vector
// lanes and document tokens are broadcast, so documents are read where they are, never copied or padded, and the
// maximum over document tokens is an element-wise one.
package tile

import "github.com/flash-maxsim/gorgonia-maxsim/internal/layout"

// MaxFunc folds n document rows into one panel. It equals
//
//	for u := range n {
//		for l := range lanes {
//			s := Σ_k qp[k*lanes+l] * doc[u*dim+k]          // k ascending, one chain
//			if s > mx[l] { mx[l], ix[l] = s, int32(base+u) } // the lowest u wins
//			if s != s    { mx[l] = NaN }                     // and stays: nothing exceeds it
//		}
//	}
//
// with lanes = len(mx) = len(ix), one of the Kernels' widths, len(qp) ≥ lanes*dim and len(doc) ≥ n*dim. ix beside a
// NaN is left in bounds and is otherwise unspecified. No element outside these bounds is read or written.
type MaxFunc[T layout.Float] func(qp, doc []T, n, dim int, mx []T, ix []int32, base int)

// GatherFunc sets dst to a weighted sum of rows. It equals
//
//	for k := range dst {
//		dst[k] = Σ_e w[e] * base[rows[e]*len(dst)+k] // e ascending, one chain from +0
//	}
//
// with len(w) ≥ len(rows).
type GatherFunc[T layout.Float] func(dst, base []T, rows []int32, w []T)

// PackFunc writes query rows to the first lanes of a panel. It equals
//
//	for l, row := range rows {
//		for k := range dim {
//			panel[k*lanes+l] = q[row*dim+k]
//		}
//	}
//
// with len(rows) ≤ lanes.
type PackFunc[T layout.Float] func(panel []T, lanes int, q []T, rows []int32, dim int)

// Kernels are the micro-kernels of one instruction set.
type Kernels[T layout.Float] struct {
	Name   string // what Select calls them
	Widths []int  // panel widths that Max knows, in lanes, widest first
	Max    MaxFunc[T]
	Gather GatherFunc[T]
	Pack   PackFunc[T]
}

// Width returns the panel width for the next of left query tokens: the widest that they fill, or else the narrowest
// that holds them.
func (k *Kernels[T]) Width(left int) int {
	width := k.Widths[0]
	for _, w := range k.Widths[1:] {
		if w < left {
			break
		}
		width = w
	}
	return width
}
