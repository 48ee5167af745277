package colbert

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// kernel is one differentiable function of tensors: its settings, its shapes and its arithmetic. What
// Gorgonia wants around it is written once: the checks here, the protocol in op_protocol.go.
//
// A kernel is a small struct of settings; its type name and all its fields make the hash by which Gorgonia merges
// equal nodes. Its methods may not keep or change what they are given, except for writing out.
type kernel[T layout.Float] interface {
	// name is how errors and graph drawings call the op.
	name() string
	// operands describes the inputs, in order.
	operands() []operand
	// rank is the number of dimensions of the result.
	rank() int
	// output checks the shapes of the inputs and returns the shape of the result.
	output(in []tensor.Shape) (tensor.Shape, error)
	// forward computes the result into out, which is zero and as large as output says.
	forward(in []*tensor.Dense, out []T) error
	// backward computes the gradient of input k from the upstream gradient g into out, which is zero.
	backward(k int, in []*tensor.Dense, g, out []T) error
}

// operand is what a kernel asks of one input.
type operand struct {
	name  string
	dims  int
	dtype tensor.Dtype
	diff  bool // has a gradient
}

// apply checks nodes against k and puts the op into their graph.
func apply[T layout.Float](k kernel[T], nodes ...*gorgonia.Node) (*gorgonia.Node, error) {
	shapes, in := make([]tensor.Shape, len(nodes)), k.operands()
	for i, n := range nodes {
		if err := checkNode(k.name(), in[i].name, n); err != nil {
			return nil, err
		}
		if n.Graph() != nodes[0].Graph() {
			return nil, fmt.Errorf("%w: %s: %s and %s are in different graphs", ErrValue, k.name(), in[i].name, in[0].name)
		}
		shapes[i] = n.Shape()
	}
	if _, err := check(k, shapes, func(i int) tensor.Dtype { return nodes[i].Dtype() }); err != nil {
		return nil, err
	}
	n, err := gorgonia.ApplyOp(&op[T]{k}, nodes...)
	if err != nil { // the nodes have been checked: what Gorgonia still objects to is a bug here
		return nil, fmt.Errorf("%w: %s: %w", ErrInternal, k.name(), err)
	}
	return n, nil
}

// check holds the inputs' ranks, dtypes and shapes against k and returns the shape of the result.
func check[T layout.Float](k kernel[T], shapes []tensor.Shape, dtype func(i int) tensor.Dtype) (tensor.Shape, error) {
	want := k.operands()
	if len(shapes) != len(want) {
		return nil, fmt.Errorf("%w: %s has %d inputs, expected %d", ErrShape, k.name(), len(shapes), len(want))
	}
	for i, w := range want {
		if got := dtype(i); got != w.dtype {
			return nil, fmt.Errorf("%w: %s: %s is %v, expected %v", ErrDtype, k.name(), w.name, got, w.dtype)
		}
		if shapes[i].Dims() != w.dims {
			return nil, fmt.Errorf("%w: %s: %s has shape %v, expected %d dimensions", ErrShape, k.name(), w.name, shapes[i], w.dims)
		}
		if slices.Min(shapes[i]) < 1 {
			return nil, fmt.Errorf("%w: %s: %s has shape %v, expected nothing empty", ErrShape, k.name(), w.name, shapes[i])
		}
	}
	return k.output(shapes)
}

// evaluate reads the inputs, checks them, and runs k forward.
func evaluate[T layout.Float](k kernel[T], values []gorgonia.Value) (_ gorgonia.Value, err error) {
	defer recoverInto(k.name(), &err)
	in, shape, err := inputs(k, values)
	if err != nil {
		return nil, err
	}
	out := make([]T, shape.TotalSize())
	if err := k.forward(in, out); err != nil {
		return nil, err
	}
	return value(shape, out), nil
}

// differentiate reads the inputs and the upstream gradient, checks them, and returns the gradient of input i.
func differentiate[T layout.Float](k kernel[T], i int, values []gorgonia.Value, upstream gorgonia.Value) (_ *tensor.Dense, err error) {
	defer recoverInto(k.name(), &err)
	in, shape, err := inputs(k, values)
	if err != nil {
		return nil, err
	}
	g, err := gradient[T](k.name(), shape, upstream)
	if err != nil {
		return nil, err
	}
	dx := make([]T, in[i].Shape().TotalSize())
	if err := k.backward(i, in, g, dx); err != nil {
		return nil, err
	}
	return tensor.New(tensor.WithShape(in[i].Shape().Clone()...), tensor.WithBacking(dx)), nil
}

// inputs returns values as dense row-major tensors that fit k, and the shape of the result.
func inputs[T layout.Float](k kernel[T], values []gorgonia.Value) ([]*tensor.Dense, tensor.Shape, error) {
	in := make([]*tensor.Dense, len(values))
	shapes := make([]tensor.Shape, len(values))
	for i, v := range values {
		if v == nil {
			return nil, nil, fmt.Errorf("%w: %s: input %d has no value", ErrValue, k.name(), i)
		}
		shapes[i] = v.Shape()
	}
	shape, err := check(k, shapes, func(i int) tensor.Dtype { return values[i].Dtype() })
	if err != nil {
		return nil, nil, err
	}
	for i, v := range values {
		if in[i], err = rowMajor(v); err != nil {
			return nil, nil, fmt.Errorf("%w (input %d of %s)", err, i, k.name())
		}
	}
	return in, shape, nil
}

// recoverInto turns a panic into an error: on a goroutine of the VM it would end the process.
func recoverInto(name string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %s: %v", ErrInternal, name, r)
	}
}
