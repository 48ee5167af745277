package colbert

import (
	"fmt"
	"math"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// L2Normalize scales the vectors along the last axis to length 1.
//
//	out = x / max(‖x‖, eps)
//
//	x, out [B,T,dim], [N,dim] or [dim]   float32 or float64
//
// At or below eps the divisor is the constant eps, so a zero vector gives zero; its gradient is defined as 0 as well,
// so that padding never moves a weight (the formula would give g/eps). All arithmetic is in float64, without scaling: a
// float64 vector longer than 1e154 has an infinite square and comes out 0. A vector with a NaN comes out NaN and leaves
// the others alone.
func L2Normalize(x *gorgonia.Node, eps float64) (*gorgonia.Node, error) {
	if err := floatNode("L2Normalize", "x", x); err != nil {
		return nil, err
	}
	if !(eps > 0) || math.IsInf(eps, 1) {
		return nil, fmt.Errorf("%w: L2Normalize: eps is %v, expected a finite number above 0", ErrValue, eps)
	}
	if x.Dims() < 1 {
		return nil, fmt.Errorf("%w: L2Normalize: x is a scalar, expected vectors along the last axis", ErrShape)
	}
	if x.Dtype() == tensor.Float32 {
		return apply(l2normalize[float32]{x.Dims(), eps}, x)
	}
	return apply(l2normalize[float64]{x.Dims(), eps}, x)
}

type l2normalize[T layout.Float] struct {
	dims int
	eps  float64
}

func (l2normalize[T]) name() string          { return "L2Normalize" }
func (k l2normalize[T]) rank() int           { return k.dims }
func (k l2normalize[T]) operands() []operand { return []operand{{"x", k.dims, dtypeOf[T](), true}} }

func (l2normalize[T]) output(in []tensor.Shape) (tensor.Shape, error) { return in[0].Clone(), nil }

func (k l2normalize[T]) forward(in []*tensor.Dense, out []T) error {
	x, dim := vectors[T](in[0])
	parallel(len(x)/dim, grain(dim), func(lo, hi int) {
		for n := lo; n < hi; n++ {
			xn, yn := x[n*dim:(n+1)*dim], out[n*dim:(n+1)*dim]
			r := 1 / max(length(xn), k.eps)
			for c, v := range xn {
				yn[c] = T(float64(v) * r)
			}
		}
	})
	return nil
}

// backward: for y = x/l with l = ‖x‖, dx = (g − x⟨x,g⟩/l²)/l.
func (k l2normalize[T]) backward(_ int, in []*tensor.Dense, g, dx []T) error {
	x, dim := vectors[T](in[0])
	parallel(len(x)/dim, grain(dim), func(lo, hi int) {
		for n := lo; n < hi; n++ {
			xn, gn, dn := x[n*dim:(n+1)*dim], g[n*dim:(n+1)*dim], dx[n*dim:(n+1)*dim]
			l := length(xn)
			if l == 0 {
				continue
			}
			along := 0.0 // ⟨x,g⟩/l²; 0 where the divisor is constant
			if l > k.eps {
				along = dot(xn, gn) / (l * l)
			}
			r := 1 / max(l, k.eps)
			for c, v := range xn {
				dn[c] = T((float64(gn[c]) - float64(v)*along) * r)
			}
		}
	})
	return nil
}

// vectors returns the elements of d and the length of its last axis.
func vectors[T layout.Float](d *tensor.Dense) ([]T, int) {
	shape := d.Shape()
	return slice[T](d), shape[len(shape)-1]
}

// length returns the Euclidean length of x; NaN if x holds one.
func length[T layout.Float](x []T) float64 { return math.Sqrt(dot(x, x)) }

// dot returns the inner product of x and y, summed in float64 in four chains so that additions need not wait for each
// other.
func dot[T layout.Float](x, y []T) float64 {
	var s0, s1, s2, s3 float64
	y = y[:len(x)]
	for len(x) >= 4 && len(y) >= 4 {
		s0 += float64(x[0]) * float64(y[0])
		s1 += float64(x[1]) * float64(y[1])
		s2 += float64(x[2]) * float64(y[2])
		s3 += float64(x[3]) * float64(y[3])
		x, y = x[4:], y[4:]
	}
	for i := range x {
		s0 += float64(x[i]) * float64(y[i])
	}
	return (s0 + s1) + (s2 + s3)
}
