package colbert

import (
	"fmt"
	"math"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/colbert/internal/adam"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// parameter is one trained tensor in one step.
type parameter interface {
	squaredNorm() float64
	update(rates)
	zeroGrad(gorgonia.ValueGrad) error
}

// param holds the elements of a parameter and, in step with them, its moments and gradient.
type param[T layout.Float] struct {
	w, m, v, g []T
	rows       []int32 // the rows of w, m and v that g is for; nil: all of them
	width      int     // elements in a row
}

// parameters pairs the model with the state and checks all of it. On the first step it makes the state.
func (a *Adam) parameters(model []gorgonia.ValueGrad) ([]parameter, error) {
	first := a.state.M == nil && a.state.Step == 0
	if !first && len(model) != len(a.state.M) {
		return nil, fmt.Errorf("%w: Adam: %d parameters, state is of %d", ErrShape, len(model), len(a.state.M))
	}
	m, v := a.state.M, a.state.V
	params := make([]parameter, len(model))
	for i, vg := range model {
		if vg == nil {
			return nil, fmt.Errorf("%w: Adam: parameter %d is nil", ErrValue, i)
		}
		w, ok := vg.Value().(*tensor.Dense)
		if !ok {
			return nil, fmt.Errorf("%w: Adam: parameter %s is a %T, expected a *tensor.Dense", ErrValue, paramName(i, vg), vg.Value())
		}
		if first {
			m = append(m, tensor.New(tensor.WithShape(w.Shape().Clone()...), tensor.Of(w.Dtype())))
			v = append(v, tensor.New(tensor.WithShape(w.Shape().Clone()...), tensor.Of(w.Dtype())))
		}
		var err error
		switch w.Dtype() {
		case tensor.Float32:
			params[i], err = newParam[float32](vg, w, m[i], v[i])
		case tensor.Float64:
			params[i], err = newParam[float64](vg, w, m[i], v[i])
		default:
			err = fmt.Errorf("%w: weights are %v, expected float32 or float64", ErrDtype, w.Dtype())
		}
		if err != nil {
			return nil, fmt.Errorf("%w (parameter %s of Adam)", err, paramName(i, vg))
		}
	}
	a.state.M, a.state.V = m, v
	return params, nil
}

func paramName(i int, vg gorgonia.ValueGrad) string {
	if n, ok := vg.(gorgonia.Namer); ok {
		return fmt.Sprintf("%d (%s)", i, n.Name())
	}
	return fmt.Sprint(i)
}

func newParam[T layout.Float](vg gorgonia.ValueGrad, w, m, v *tensor.Dense) (*param[T], error) {
	gv, err := vg.Grad()
	if err != nil {
		return nil, fmt.Errorf("%w: no gradient, expected one: call Grad with the parameter and run the machine before Step: %w", ErrValue, err)
	}
	if n, ok := vg.(*gorgonia.Node); ok {
		if err := overwritten(n, gv); err != nil {
			return nil, err
		}
	}
	p := &param[T]{}
	var g *tensor.Dense
	want := w.Shape()
	switch gv := gv.(type) {
	case *RowGrad:
		if w.Dims() != 2 {
			return nil, fmt.Errorf("%w: gradient of rows for weights %v, expected [V,h]", ErrShape, w.Shape())
		}
		if err := gv.check(w.Shape()[0]); err != nil {
			return nil, err
		}
		g, p.rows = gv.Dense, gv.Rows
		want = tensor.Shape{len(gv.Rows), w.Shape()[1]}
	case *tensor.Dense:
		g = gv
	default:
		return nil, fmt.Errorf("%w: gradient is a %T, expected a *tensor.Dense or a *colbert.RowGrad", ErrValue, gv)
	}
	for _, t := range []struct {
		name  string
		d     *tensor.Dense
		shape tensor.Shape
	}{{"weights", w, w.Shape()}, {"gradient", g, want}, {"first moment", m, w.Shape()}, {"second moment", v, w.Shape()}} {
		if t.d.Dtype() != w.Dtype() {
			return nil, fmt.Errorf("%w: %s is %v, weights are %v", ErrDtype, t.name, t.d.Dtype(), w.Dtype())
		}
		if !t.d.Shape().Eq(t.shape) {
			return nil, fmt.Errorf("%w: %s has shape %v, expected %v", ErrShape, t.name, t.d.Shape(), t.shape)
		}
		if !contiguous(t.d) {
			return nil, fmt.Errorf("%w: %s %v has strides %v, expected a contiguous row-major tensor", ErrShape, t.name, t.d.Shape(), t.d.Strides())
		}
	}
	p.w, p.m, p.v, p.g = slice[T](w), slice[T](m), slice[T](v), slice[T](g)
	p.width = len(p.w)
	if p.rows != nil {
		p.width = w.Shape()[1]
	}
	return p, nil
}

const normBlock = 1 << 14 // elements of one partial sum: fixed, so that the norm is the same on any number of cores

func (p *param[T]) squaredNorm() float64 {
	partial := make([]float64, (len(p.g)+normBlock-1)/normBlock)
	parallel(len(p.g), normBlock, func(lo, hi int) {
		s := 0.0
		for _, v := range p.g[lo:hi] {
			s += float64(v) * float64(v)
		}
		partial[lo/normBlock] = s
	})
	sum := 0.0
	for _, s := range partial {
		sum += s
	}
	return sum
}

func (p *param[T]) update(r rates) {
	k := &adam.Rates[T]{
		Clip: T(r.clip), Beta1: T(r.beta1), Beta2: T(r.beta2), Rest1: T(1 - r.beta1), Rest2: T(1 - r.beta2),
		Keep: T(1 - r.lr*r.weightDecay), Step: T(r.lr / r.bias1), Root: T(1 / math.Sqrt(r.bias2)), Epsilon: T(r.epsilon),
	}
	if p.rows == nil {
		parallel(len(p.w), 1<<14, func(lo, hi int) { adam.Update(k, p.w[lo:hi], p.m[lo:hi], p.v[lo:hi], p.g[lo:hi]) })
		return
	}
	parallel(len(p.rows), grain(p.width), func(lo, hi int) {
		for n := lo; n < hi; n++ {
			at, end := int(p.rows[n])*p.width, (int(p.rows[n])+1)*p.width
			adam.Update(k, p.w[at:end], p.m[at:end], p.v[at:end], p.g[n*p.width:(n+1)*p.width])
		}
	})
}

// gradZeroer is a parameter that can set its gradient to 0 itself.
type gradZeroer interface{ ZeroGrad() error }

func (p *param[T]) zeroGrad(vg gorgonia.ValueGrad) error {
	if z, ok := vg.(gradZeroer); ok {
		return z.ZeroGrad()
	}
	clear(p.g)
	return nil
}

// contiguous reports whether the elements of d are its memory in row-major order.
func contiguous(d *tensor.Dense) bool {
	same, err := rowMajor(d)
	return err == nil && same == d
}
