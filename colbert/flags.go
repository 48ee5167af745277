package colbert

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// maskNode returns an error unless n can be a mask: bool or numbers.
func maskNode(op, name string, n *G.Node) error {
	if _, err := flags(tensor.New(tensor.Of(n.Dtype()), tensor.WithShape(1))); err != nil {
		return fmt.Errorf("%w: %s: %s is %v, want bool, an integer or a float", ErrDtype, op, name, n.Dtype())
	}
	return nil
}

// flags returns the elements of a mask: true where they are not 0.
func flags(d *tensor.Dense) ([]bool, error) {
	switch d.Dtype() {
	case tensor.Bool:
		return d.Bools(), nil
	case tensor.Int:
		return nonzero(d.Ints()), nil
	case tensor.Int8:
		return nonzero(d.Int8s()), nil
	case tensor.Int16:
		return nonzero(d.Int16s()), nil
	case tensor.Int32:
		return nonzero(d.Int32s()), nil
	case tensor.Int64:
		return nonzero(d.Int64s()), nil
	case tensor.Uint8:
		return nonzero(d.Uint8s()), nil
	case tensor.Float32:
		return nonzero(d.Float32s()), nil
	case tensor.Float64:
		return nonzero(d.Float64s()), nil
	}
	return nil, fmt.Errorf("%w: mask is %v, want bool, an integer or a float", ErrDtype, d.Dtype())
}

func nonzero[E int | int8 | int16 | int32 | int64 | uint8 | float32 | float64](x []E) []bool {
	out := make([]bool, len(x))
	for i, v := range x {
		out[i] = v != 0
	}
	return out
}
