package colbert

import (
	"fmt"

	"gonum.org/v1/gonum/blas"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
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
// Products go through the BLAS of gorgonia.WhichBLAS in blocks of rows of a fixed size, spread over the cores.
func Linear(x, w, bias *gorgonia.Node) (*gorgonia.Node, error) {
	if err := floatNode("Linear", "x", x); err != nil {
		return nil, err
	}
	if w == nil {
		return nil, fmt.Errorf("%w: Linear: w is nil", ErrValue)
	}
	if n := x.Dims(); n != 2 && n != 3 {
		return nil, fmt.Errorf("%w: Linear: x has shape %v, want [B,T,h] or [N,h]", ErrShape, x.Shape())
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

type linear[T Float] struct {
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
		return nil, fmt.Errorf("%w: Linear: bias %v does not fit w %v, want [%d]", ErrShape, in[2], w, w[1])
	}
	out := x.Clone()
	out[last] = w[1]
	return out, nil
}

const gemmBlock = 256 // rows of one BLAS call: enough to amortise it, few enough to share out

func (k linear[T]) forward(in []*tensor.Dense, out []T) error {
	x, w := slice[T](in[0]), slice[T](in[1])
	h, dim := in[1].Shape()[0], in[1].Shape()[1]
	var bias []T
	if k.biased {
		bias = slice[T](in[2])
	}
	parallel(len(x)/h, gemmBlock, func(lo, hi int) {
		for n := lo; n < hi && k.biased; n++ {
			copy(out[n*dim:(n+1)*dim], bias)
		}
		gemm(blas.NoTrans, blas.NoTrans, hi-lo, dim, h, x[lo*h:], h, w, dim, out[lo*dim:], dim)
	})
	return nil
}

func (k linear[T]) backward(i int, in []*tensor.Dense, g, out []T) error {
	h, dim := in[1].Shape()[0], in[1].Shape()[1]
	rows := len(g) / dim
	switch i {
	case 0: // dx = g·wᵀ
		w := slice[T](in[1])
		parallel(rows, gemmBlock, func(lo, hi int) {
			gemm(blas.NoTrans, blas.Trans, hi-lo, h, dim, g[lo*dim:], dim, w, dim, out[lo*h:], h)
		})
	case 1: // dw = xᵀ·g, each block of rows of dw with one owner
		x := slice[T](in[0])
		parallel(h, 64, func(lo, hi int) {
			gemm(blas.Trans, blas.NoTrans, hi-lo, dim, rows, x[lo:], h, g, dim, out[lo*dim:], dim)
		})
	case 2: // dbias = sum of g over rows
		for lo := 0; lo < len(g); lo += dim {
			for c, v := range g[lo : lo+dim] {
				out[c] += v
			}
		}
	}
	return nil
}

// gemm adds op(a)·op(b) to c, where op(a) is m×k, op(b) is k×n and lda, ldb, ldc are row strides.
func gemm[T Float](ta, tb blas.Transpose, m, n, k int, a []T, lda int, b []T, ldb int, c []T, ldc int) {
	switch a := any(a).(type) {
	case []float32:
		gorgonia.WhichBLAS().Sgemm(ta, tb, m, n, k, 1, a, lda, any(b).([]float32), ldb, 1, any(c).([]float32), ldc)
	case []float64:
		gorgonia.WhichBLAS().Dgemm(ta, tb, m, n, k, 1, a, lda, any(b).([]float64), ldb, 1, any(c).([]float64), ldc)
	}
}
