package colbert

import (
	"fmt"

	"gorgonia.org/tensor"
)

// flags returns the elements of a mask: 1 is true, 0 is false, any other number is an error.
func flags(d *tensor.Dense) ([]bool, error) {
	switch d.Dtype() {
	case tensor.Bool:
		return d.Bools(), nil
	case tensor.Int:
		return zeroOne(d.Shape(), d.Ints())
	case tensor.Int8:
		return zeroOne(d.Shape(), d.Int8s())
	case tensor.Int16:
		return zeroOne(d.Shape(), d.Int16s())
	case tensor.Int32:
		return zeroOne(d.Shape(), d.Int32s())
	case tensor.Int64:
		return zeroOne(d.Shape(), d.Int64s())
	case tensor.Uint:
		return zeroOne(d.Shape(), d.Uints())
	case tensor.Uint8:
		return zeroOne(d.Shape(), d.Uint8s())
	case tensor.Uint16:
		return zeroOne(d.Shape(), d.Uint16s())
	case tensor.Uint32:
		return zeroOne(d.Shape(), d.Uint32s())
	case tensor.Uint64:
		return zeroOne(d.Shape(), d.Uint64s())
	case tensor.Float32:
		return zeroOne(d.Shape(), d.Float32s())
	case tensor.Float64:
		return zeroOne(d.Shape(), d.Float64s())
	}
	return nil, fmt.Errorf("%w: mask is %v, expected bool, an integer or a float", ErrDtype, d.Dtype())
}

// number is an element type of a mask beside bool.
type number interface {
	int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

func zeroOne[E number](shape tensor.Shape, x []E) ([]bool, error) {
	out := make([]bool, len(x))
	for i, v := range x {
		if v != 0 && v != 1 {
			return nil, fmt.Errorf("%w: mask%v is %v, expected 0 or 1", ErrValue, position(i, shape), v)
		}
		out[i] = v == 1
	}
	return out, nil
}
