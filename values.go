package maxsim

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// problem is one run of a node: its batch and its token rows.
type problem[T layout.Float] struct {
	batch  layout.Batch
	shapes []tensor.Shape // of the inputs
	q, d   []T
}

// bind checks the values of a node's inputs and turns them into a problem.
func bind[T layout.Float](s spec, in []gorgonia.Value) (p problem[T], err error) {
	if p.shapes, err = s.checkValues(in); err != nil {
		return p, err
	}
	if p.batch, err = s.batchOf(in, p.shapes); err != nil {
		return p, err
	}
	err = p.bindTokens(in)
	return p, err
}

// bindBatch is bind for a batch that a forward pass of the same run has built.
func bindBatch[T layout.Float](s spec, in []gorgonia.Value, batch layout.Batch) (p problem[T], err error) {
	p.batch = batch
	if p.shapes, err = s.checkValues(in); err != nil {
		return p, err
	}
	err = p.bindTokens(in)
	return p, err
}

// bindTokens takes the token rows of both sides.
func (p *problem[T]) bindTokens(in []gorgonia.Value) (err error) {
	if p.q, err = rowMajor[T](in[0], "query tokens"); err != nil {
		return err
	}
	p.d, err = rowMajor[T](in[1], "document tokens")
	return err
}

// checkValues repeats at run time what checkNodes did while the graph was built: machines check nothing.
func (s spec) checkValues(in []gorgonia.Value) ([]tensor.Shape, error) {
	n := s.inputs()
	if len(in) < n {
		return nil, fmt.Errorf("%w: got %d values, expected at least %d", ErrShape, len(in), n)
	}
	names := s.inputNames()
	shapes := make([]tensor.Shape, n)
	dtypes := make([]tensor.Dtype, n)
	for k, v := range in[:n] {
		if v == nil {
			return nil, fmt.Errorf("%w: %s have no value", ErrNode, names[k])
		}
		shapes[k], dtypes[k] = v.Shape(), v.Dtype()
	}
	if err := s.checkDtypes(dtypes); err != nil {
		return nil, err
	}
	return shapes, s.checkShapes(shapes)
}

// byDtype runs the body of an op for the element type of its query tokens.
func byDtype(in []gorgonia.Value, f32, f64 func([]gorgonia.Value) (gorgonia.Value, error)) (gorgonia.Value, error) {
	if len(in) == 0 || in[0] == nil {
		return nil, fmt.Errorf("%w: query tokens have no value", ErrNode)
	}
	switch dt := in[0].Dtype(); dt {
	case tensor.Float32:
		return f32(in)
	case tensor.Float64:
		return f64(in)
	default:
		return nil, fmt.Errorf("%w: query tokens are %v, expected float32 or float64", ErrDtype, dt)
	}
}

// rowMajor returns the elements of v in row-major order. A contiguous row-major tensor is returned as it is; views and
// column-major tensors are copied.
func rowMajor[T any](v gorgonia.Value, name string) ([]T, error) {
	t, ok := v.(*tensor.Dense)
	if !ok {
		return nil, fmt.Errorf("%w: %s are a %T, expected a *tensor.Dense", ErrDtype, name, v)
	}
	if len(t.Mask()) > 0 { // IsMasked is true of every tensor without elements
		return nil, fmt.Errorf("%w: %s carry a tensor mask, give masks as graph inputs", ErrDtype, name)
	}
	if !t.IsNativelyAccessible() {
		return nil, fmt.Errorf("%w: %s are not in host memory", ErrDtype, name)
	}
	if t.Shape().TotalSize() == 0 {
		return nil, nil // Data would panic
	}
	data, ok := t.Data().([]T)
	if !ok {
		return nil, fmt.Errorf("%w: %s hold %T, expected %T", ErrDtype, name, t.Data(), data)
	}
	if !t.DataOrder().IsColMajor() && !t.RequiresIterator() {
		return data, nil
	}
	return strided(data, t.Shape(), stridesOf(t)), nil
}

// stridesOf returns a stride for every axis. Package tensor leaves those of axes of size 1 out of some column-major tensors.
func stridesOf(t *tensor.Dense) []int {
	given, shape := t.Strides(), t.Shape()
	if len(given) == len(shape) {
		return given
	}
	strides := make([]int, len(shape))
	for axis, n := range shape {
		if n > 1 && len(given) > 0 {
			strides[axis], given = given[0], given[1:]
		}
	}
	return strides
}

// strided copies the elements at the given strides into row-major order.
func strided[T any](data []T, shape tensor.Shape, strides []int) []T {
	out := make([]T, 0, shape.TotalSize())
	index := make([]int, len(shape))
	for at := 0; ; {
		out = append(out, data[at])
		axis := len(shape) - 1
		for ; axis >= 0; axis-- {
			index[axis]++
			at += strides[axis]
			if index[axis] < shape[axis] {
				break
			}
			at -= index[axis] * strides[axis]
			index[axis] = 0
		}
		if axis < 0 {
			return out
		}
	}
}

// denseOf wraps data in a tensor of the given shape without copying it.
func denseOf[T any](shape tensor.Shape, data []T) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data))
}
