package colbert

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/colbert/internal/gemm"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Linear projects token vectors.
//
//	out[i,t,:] = x[i,t,:]·w + bias
//
//	x    [B,T,h] or [N,h]       float32 or float64
//	w    [h,dim]                dtype of x
//	bias [dim], or nil          dtype of x
//	out  [B,T,dim] or [N,dim]
//
// Products go through the BLAS that was chosen with gorgonia.Use. By default, on amd64 with AVX2, kernels of this module
// take the place of gonum's, several times as fast and spread over the cores. They are the fastest that the machine can
// run, or those that the environment variable MAXSIM_CPU names: avx512 and avx2, which have the same bits, or generic,
// which is gonum.
func Linear(x, w, bias *gorgonia.Node) (*gorgonia.Node, error) {
	if err := floatNode("Linear", "x", x); err != nil {
		return nil, err
	}
	if n := x.Dims(); n != 2 && n != 3 {
		return nil, fmt.Errorf("%w: Linear: x has shape %v, expected [B,T,h] or [N,h]", ErrShape, x.Shape())
	}
	nodes := gorgonia.Nodes{x, w}
	if bias != nil {
		nodes = append(nodes, bias)
	}
	if x.Dtype() == tensor.Float32 {
		return apply(linear[float32]{x.Dims(), bias != nil}, nodes...)
	}
	return apply(linear[float64]{x.Dims(), bias != nil}, nodes...)
}

type linear[T layout.Float] struct {
	dims   int
	biased bool
}

func (linear[T]) name() string { return "Linear" }
func (k linear[T]) rank() int  { return k.dims }

func (k linear[T]) operands() []operand {
	dt := dtypeOf[T]()
	ops := []operand{{"x", k.dims, dt, true}, {"w", 2, dt, true}}
	if k.biased {
		ops = append(ops, operand{"bias", 1, dt, true})
	}
	return ops
}

func (k linear[T]) output(in []tensor.Shape) (tensor.Shape, error) {
	x, w := in[0], in[1]
	last := len(x) - 1
	if x[last] != w[0] {
		return nil, fmt.Errorf("%w: Linear: x %v has vectors of %d, w %v takes %d", ErrShape, x, x[last], w, w[0])
	}
	if k.biased && in[2][0] != w[1] {
		return nil, fmt.Errorf("%w: Linear: bias %v does not fit w %v, expected [%d]", ErrShape, in[2], w, w[1])
	}
	out := x.Clone()
	out[last] = w[1]
	return out, nil
}

func (k linear[T]) forward(in []*tensor.Dense, out []T) error {
	x, w := rowsOf[T](in[0]), rowsOf[T](in[1])
	y := gemm.Dense(out, x.Rows, w.Cols)
	if k.biased {
		bias := slice[T](in[2])
		for lo := 0; lo < len(out); lo += y.Cols {
			copy(out[lo:], bias)
		}
	}
	return addProduct(y, x, w)
}

func (k linear[T]) backward(i int, in []*tensor.Dense, g, out []T) error {
	x, w := rowsOf[T](in[0]), rowsOf[T](in[1])
	dy := gemm.Dense(g, x.Rows, w.Cols)
	switch i {
	case 0:
		return addProduct(gemm.Dense(out, x.Rows, x.Cols), dy, w.T())
	case 1:
		return addProduct(gemm.Dense(out, w.Rows, w.Cols), x.T(), dy)
	default:
		sumRows(dy, out)
		return nil
	}
}

// sumRows writes the sum of the rows of m into out: first within blocks of a fixed size, then over the blocks.
func sumRows[T layout.Float](m gemm.Matrix[T], out []T) {
	const block = 256
	partial := make([]T, (m.Rows+block-1)/block*m.Cols)
	parallel(m.Rows, block, func(lo, hi int) {
		sum := partial[lo/block*m.Cols:][:m.Cols]
		for i := lo; i < hi; i++ {
			for j, v := range m.Data[i*m.Cols : (i+1)*m.Cols] {
				sum[j] += v
			}
		}
	})
	for lo := 0; lo < len(partial); lo += m.Cols {
		for j, v := range partial[lo : lo+m.Cols] {
			out[j] += v
		}
	}
}

// rowsOf returns the vectors along the last axis of d as the rows of a matrix.
func rowsOf[T layout.Float](d *tensor.Dense) gemm.Matrix[T] {
	x, n := vectors[T](d)
	return gemm.Dense(x, len(x)/n, n)
}
