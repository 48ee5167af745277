package colbert

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

func dtypeOf[T layout.Float]() tensor.Dtype {
	var zero T
	if _, ok := any(zero).(float32); ok {
		return tensor.Float32
	}
	return tensor.Float64
}

// slice returns the elements of a row-major tensor.
func slice[T layout.Float](d *tensor.Dense) []T {
	var out any
	if dtypeOf[T]() == tensor.Float32 {
		out = d.Float32s()
	} else {
		out = d.Float64s()
	}
	return out.([]T)
}

// value returns out as what Gorgonia expects of a result: a scalar type, or a tensor that owns out.
func value[T layout.Float](shape tensor.Shape, out []T) gorgonia.Value {
	if shape.Dims() > 0 {
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(out))
	}
	switch x := any(out[0]).(type) {
	case float32:
		return gorgonia.NewF32(x)
	case float64:
		return gorgonia.NewF64(x)
	}
	panic("unreachable: T is float32 or float64")
}

// gradient returns the elements of an upstream gradient, which must have the shape of the result.
func gradient[T layout.Float](name string, shape tensor.Shape, upstream gorgonia.Value) ([]T, error) {
	if upstream == nil {
		return nil, fmt.Errorf("%w: %s: no upstream gradient", ErrValue, name)
	}
	if dt := upstream.Dtype(); dt != dtypeOf[T]() {
		return nil, fmt.Errorf("%w: %s: upstream gradient is %v, expected %v", ErrDtype, name, dt, dtypeOf[T]())
	}
	if got := upstream.Shape(); !got.Eq(shape) {
		return nil, fmt.Errorf("%w: %s: upstream gradient has shape %v, expected %v", ErrShape, name, got, shape)
	}
	if shape.Dims() == 0 {
		if x, ok := upstream.Data().(T); ok {
			return []T{x}, nil
		}
		return nil, fmt.Errorf("%w: %s: upstream gradient holds %T", ErrValue, name, upstream.Data())
	}
	d, err := rowMajor(upstream)
	if err != nil {
		return nil, fmt.Errorf("%w (upstream gradient of %s)", err, name)
	}
	return slice[T](d), nil
}

// rowMajor returns v itself if it is a contiguous row-major tensor, else a copy that is.
func rowMajor(v gorgonia.Value) (*tensor.Dense, error) {
	d, ok := v.(*tensor.Dense)
	if !ok {
		return nil, fmt.Errorf("%w: a %T, expected a *tensor.Dense", ErrValue, v)
	}
	shape := d.Shape()
	strides, err := stridesOf(d)
	if err != nil {
		return nil, err
	}
	if isRowMajor(shape, strides) && d.DataSize() == shape.TotalSize() {
		return d, nil
	}
	out := tensor.New(tensor.WithShape(shape.Clone()...), tensor.Of(d.Dtype()))
	at := make([]int, len(shape))
	for i := range shape.TotalSize() {
		from := 0
		for k, c := range at {
			from += c * strides[k]
		}
		out.Set(i, d.Get(from))
		for k := len(at) - 1; k >= 0; k-- {
			if at[k]++; at[k] < shape[k] {
				break
			}
			at[k] = 0
		}
	}
	return out, nil
}

// stridesOf returns a stride for every axis. Package tensor leaves those of axes of size 1 out of some shapes.
func stridesOf(d *tensor.Dense) ([]int, error) {
	shape, strides := d.Shape(), d.Strides()
	if len(strides) == len(shape) {
		return strides, nil
	}
	full := make([]int, len(shape))
	next := 0
	for k, n := range shape {
		if n > 1 && next < len(strides) {
			full[k] = strides[next]
		}
		if n > 1 {
			next++
		}
	}
	if next > 0 && next != len(strides) {
		return nil, fmt.Errorf("%w: tensor of shape %v has strides %v", ErrShape, shape, strides)
	}
	return full, nil
}

func isRowMajor(shape tensor.Shape, strides []int) bool {
	want := 1
	for k := len(shape) - 1; k >= 0; k-- {
		if shape[k] > 1 && strides[k] != want {
			return false
		}
		want *= shape[k]
	}
	return true
}
