package colbert

import (
	"fmt"
	"hash"
	"hash/fnv"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// op is a kernel as a node of a graph.
type op[T layout.Float] struct{ kernel[T] }

func (o *op[T]) Arity() int { return len(o.operands()) }

func (o *op[T]) Type() hm.Type { return signature[T](o.operands(), o.rank()) }

func (o *op[T]) InferShape(in ...gorgonia.DimSizer) (_ tensor.Shape, err error) {
	defer recoverInto(o.name(), &err)
	shapes, err := gorgonia.DimSizersToShapes(in)
	if err != nil {
		return nil, err
	}
	return o.output(shapes)
}

func (o *op[T]) Do(in ...gorgonia.Value) (gorgonia.Value, error) { return evaluate(o.kernel, in) }

func (o *op[T]) ReturnsPtr() bool     { return false }
func (o *op[T]) CallsExtern() bool    { return false }
func (o *op[T]) OverwritesInput() int { return -1 }

func (o *op[T]) WriteHash(h hash.Hash) { fmt.Fprintf(h, "%T%+v", o.kernel, o.kernel) }
func (o *op[T]) Hashcode() uint32      { return hashcode(o.WriteHash) }
func (o *op[T]) String() string        { return o.name() }

func (o *op[T]) DiffWRT(int) []bool {
	wrt := make([]bool, o.Arity())
	for i, in := range o.operands() {
		wrt[i] = in.diff
	}
	return wrt
}

func (o *op[T]) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	out := make(gorgonia.Nodes, len(in))
	for i, wrt := range o.DiffWRT(len(in)) {
		if !wrt {
			continue
		}
		children := append(append(gorgonia.Nodes{}, in...), grad)
		var err error
		if out[i], err = gorgonia.ApplyOp(&gradOp[T]{o.kernel, i}, children...); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (o *op[T]) DoDiff(_ gorgonia.ExecutionContext, in gorgonia.Nodes, out *gorgonia.Node) (err error) {
	defer recoverInto(o.name(), &err)
	upstream, err := out.Grad()
	if err != nil {
		return fmt.Errorf("%w: %s: no upstream gradient: %w", ErrValue, o.name(), err)
	}
	values := make([]gorgonia.Value, len(in))
	for i, n := range in {
		values[i] = n.Value()
	}
	for i, wrt := range o.DiffWRT(len(in)) {
		if !wrt {
			continue
		}
		dx, err := differentiate(o.kernel, i, values, upstream)
		if err != nil {
			return err
		}
		sum, err := in[i].Grad()
		if err != nil {
			return fmt.Errorf("%w: %s: input %d has no gradient to add to: %w", ErrValue, o.name(), i, err)
		}
		acc, ok := sum.(*tensor.Dense)
		if !ok {
			return fmt.Errorf("%w: %s: gradient of input %d is a %T, expected a *tensor.Dense", ErrValue, o.name(), i, sum)
		}
		if !acc.Shape().Eq(dx.Shape()) { // what Reshape returned: from the second step on it shares the gradient of Reshape's operand
			if err := dx.Reshape(acc.Shape()...); err != nil {
				return fmt.Errorf("%w: %s: gradient of input %d has shape %v, expected %v", ErrShape, o.name(), i, acc.Shape(), dx.Shape())
			}
		}
		if _, err := tensor.Add(acc, dx, tensor.UseUnsafe()); err != nil {
			return fmt.Errorf("%w: %s: add gradient of input %d: %w", ErrInternal, o.name(), i, err)
		}
	}
	return nil
}

// gradOp is the gradient of a kernel's input k: (inputs of the kernel, upstream gradient) → gradient of input k.
type gradOp[T layout.Float] struct {
	kernel[T]
	k int
}

func (o *gradOp[T]) Arity() int { return len(o.operands()) + 1 }

func (o *gradOp[T]) Type() hm.Type {
	return signature[T](o.operands(), o.operands()[o.k].dims, typeOf(o.rank(), dtypeOf[T]()))
}

func (o *gradOp[T]) InferShape(in ...gorgonia.DimSizer) (_ tensor.Shape, err error) {
	defer recoverInto(o.name(), &err)
	shapes, err := gorgonia.DimSizersToShapes(in)
	if err != nil {
		return nil, err
	}
	return shapes[o.k].Clone(), nil
}

func (o *gradOp[T]) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	if len(in) != o.Arity() {
		return nil, fmt.Errorf("%w: %s has %d inputs, expected %d", ErrShape, o, len(in), o.Arity())
	}
	last := len(in) - 1
	dx, err := differentiate(o.kernel, o.k, in[:last], in[last])
	if err != nil {
		return nil, err // not (*tensor.Dense)(nil) in an interface
	}
	return dx, nil
}

func (o *gradOp[T]) ReturnsPtr() bool     { return false }
func (o *gradOp[T]) CallsExtern() bool    { return false }
func (o *gradOp[T]) OverwritesInput() int { return -1 }

func (o *gradOp[T]) WriteHash(h hash.Hash) { fmt.Fprintf(h, "∇%d of %T%+v", o.k, o.kernel, o.kernel) }
func (o *gradOp[T]) Hashcode() uint32      { return hashcode(o.WriteHash) }
func (o *gradOp[T]) String() string        { return fmt.Sprintf("∇%s.%s", o.name(), o.operands()[o.k].name) }

// DiffWRT claims all inputs so that a second derivative reaches SymDiff and its error.
func (o *gradOp[T]) DiffWRT(n int) []bool {
	wrt := make([]bool, n)
	for i := range wrt {
		wrt[i] = true
	}
	return wrt
}

func (o *gradOp[T]) SymDiff(gorgonia.Nodes, *gorgonia.Node, *gorgonia.Node) (gorgonia.Nodes, error) {
	return nil, fmt.Errorf("%w: %s has no second derivative", ErrValue, o.name())
}

// signature is the type of a function from operands (and more) to a tensor of outDims dimensions. Gorgonia takes the
// result apart, so every call must return a new one.
func signature[T layout.Float](ops []operand, outDims int, more ...hm.Type) hm.Type {
	ts := make([]hm.Type, 0, len(ops)+len(more)+1)
	for _, o := range ops {
		ts = append(ts, typeOf(o.dims, o.dtype))
	}
	ts = append(ts, more...)
	return hm.NewFnType(append(ts, typeOf(outDims, dtypeOf[T]()))...)
}

func typeOf(dims int, dtype tensor.Dtype) hm.Type {
	if dims == 0 {
		return dtype
	}
	return gorgonia.TensorType{Dims: dims, Of: dtype}
}

func hashcode(write func(hash.Hash)) uint32 {
	h := fnv.New32a()
	write(h)
	return h.Sum32()
}

var (
	_ gorgonia.SDOp = (*op[float32])(nil)
	_ gorgonia.ADOp = (*op[float32])(nil)
	_ gorgonia.SDOp = (*gradOp[float32])(nil)
)
