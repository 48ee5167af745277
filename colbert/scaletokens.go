package colbert

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// ScaleTokens multiplies each token vector by a weight of its own: the learned importance of a query token.
//
//	out[i,t,:] = w[i,t] * x[i,t,:]
//
//	x, out [B,T,dim]          or [N,dim]         float32 or float64
//	w      [B,T] or [B,T,1]   or [N] or [N,1]    dtype of x
//
// MaxSim is linear in a query token's length as long as the weight is not negative, so scaling the query tokens
// weighs their share of the score.
func ScaleTokens(x, w *gorgonia.Node) (*gorgonia.Node, error) {
	if err := floatNode("ScaleTokens", "x", x); err != nil {
		return nil, err
	}
	if err := checkNode("ScaleTokens", "w", w); err != nil {
		return nil, err
	}
	if n := x.Dims(); n != 2 && n != 3 {
		return nil, fmt.Errorf("%w: ScaleTokens: x has shape %v, expected [B,T,dim] or [N,dim]", ErrShape, x.Shape())
	}
	column := w.Dims() == x.Dims()
	if x.Dtype() == tensor.Float32 {
		return apply(scaleTokens[float32]{x.Dims(), column}, x, w)
	}
	return apply(scaleTokens[float64]{x.Dims(), column}, x, w)
}

type scaleTokens[T layout.Float] struct {
	dims   int
	column bool // w has a last axis of 1
}

func (scaleTokens[T]) name() string { return "ScaleTokens" }
func (k scaleTokens[T]) rank() int  { return k.dims }

func (k scaleTokens[T]) operands() []operand {
	w := operand{"w", k.dims - 1, dtypeOf[T](), true}
	if k.column {
		w.dims = k.dims
	}
	return []operand{{"x", k.dims, dtypeOf[T](), true}, w}
}

func (k scaleTokens[T]) output(in []tensor.Shape) (tensor.Shape, error) {
	x, w := in[0], in[1]
	want := x[:k.dims-1].Clone()
	if k.column {
		want = append(want, 1)
	}
	if !w.Eq(want) {
		return nil, fmt.Errorf("%w: ScaleTokens: w has shape %v, expected %v for x %v", ErrShape, w, want, x)
	}
	return x.Clone(), nil
}

func (k scaleTokens[T]) forward(in []*tensor.Dense, out []T) error {
	x, dim := vectors[T](in[0])
	scale(x, slice[T](in[1]), out, dim)
	return nil
}

func (k scaleTokens[T]) backward(i int, in []*tensor.Dense, g, out []T) error {
	x, dim := vectors[T](in[0])
	if i == 0 {
		scale(g, slice[T](in[1]), out, dim)
		return nil
	}
	parallel(len(out), grain(dim), func(lo, hi int) {
		for n := lo; n < hi; n++ {
			out[n] = T(dot(x[n*dim:(n+1)*dim], g[n*dim:(n+1)*dim]))
		}
	})
	return nil
}

// scale writes w[n] times vector n of x into out.
func scale[T layout.Float](x, w, out []T, dim int) {
	parallel(len(w), grain(dim), func(lo, hi int) {
		for n := lo; n < hi; n++ {
			y := out[n*dim : (n+1)*dim]
			for c, v := range x[n*dim : (n+1)*dim] {
				y[c] = w[n] * v
			}
		}
	})
}
