package colbert

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// checkNode returns an error unless n is a value of a graph. Gorgonia panics when it is asked for the shape or dtype of
// a node that is none.
func checkNode(op, name string, n *gorgonia.Node) error {
	switch {
	case n == nil:
		return fmt.Errorf("%w: %s: %s is nil", ErrValue, op, name)
	case n.Type() == nil:
		return fmt.Errorf("%w: %s: %s is a statement, as gorgonia.Read returns it, expected a tensor or a scalar", ErrValue, op, name)
	case n.Graph() == nil:
		return fmt.Errorf("%w: %s: %s is in no graph, as gorgonia.NewConstant leaves it; gorgonia.NodeFromAny puts a value into one", ErrValue, op, name)
	}
	return nil
}

// floatNode returns an error unless n is a value of dtype float32 or float64.
func floatNode(op, name string, n *gorgonia.Node) error {
	if err := checkNode(op, name, n); err != nil {
		return err
	}
	if dt := n.Dtype(); dt != tensor.Float32 && dt != tensor.Float64 {
		return fmt.Errorf("%w: %s: %s is %v, expected float32 or float64", ErrDtype, op, name, dt)
	}
	return nil
}

// maskNode returns an error unless n can be a mask: bool or numbers.
func maskNode(op, name string, n *gorgonia.Node) error {
	if err := checkNode(op, name, n); err != nil {
		return err
	}
	if _, err := flags(tensor.New(tensor.Of(n.Dtype()), tensor.WithShape(1))); err != nil {
		return fmt.Errorf("%w: %s: %s is %v, expected bool, an integer or a float", ErrDtype, op, name, n.Dtype())
	}
	return nil
}
