package maxsim

import (
	"fmt"
	"hash"
	"slices"
	"sync/atomic"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/machine"
)

// A MaxSim node is two graph nodes:
//
//	tape   = run(q, d, …)          the one fused pass; the argmax, with the scores riding on the value
//	scores = out(q, d, …, tape)    the scores; the gradients hang here, because they need the tape
//
// What a run produces travels along graph edges only, so order, liveness, clones and sub-programs are Gorgonia's
// business. The ops hold constants, and one flag that is set while a graph is built: whether anybody needs the argmax.

// tapeOp runs the forward pass: (q, d, …) → tape.
type tapeOp struct {
	undifferentiable
	spec
	record    atomic.Bool  // store the argmax
	consumers atomic.Int32 // nodes that read it; 0: not known
}

func (o *tapeOp) Arity() int    { return o.inputs() }
func (o *tapeOp) Type() hm.Type { return o.funcType(tapeType()) }

func (o *tapeOp) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	shapes, err := o.shapesOf(in)
	if err != nil {
		return nil, err
	}
	return o.tapeShape(shapes), nil
}

func (o *tapeOp) Do(in ...gorgonia.Value) (_ gorgonia.Value, err error) {
	defer machine.Guard(&err, ErrInternal)
	return byDtype(in, o.run32, o.run64)
}

func (o *tapeOp) run32(in []gorgonia.Value) (gorgonia.Value, error) {
	return forward[float32](o, in)
}

func (o *tapeOp) run64(in []gorgonia.Value) (gorgonia.Value, error) {
	return forward[float64](o, in)
}

func (o *tapeOp) WriteHash(h hash.Hash) { o.writeHash(h, "tape") }
func (o *tapeOp) Hashcode() uint32      { return hashcode(o) }
func (o *tapeOp) String() string        { return o.spec.String() + ".tape" }

// forward runs the engine on the values of the inputs and returns the tape with the scores on it.
func forward[T layout.Float](o *tapeOp, in []gorgonia.Value) (*tape, error) {
	p, err := bind[T](o.spec, in)
	if err != nil {
		return nil, err
	}
	engine, err := engineOf[T](o.cfg)
	if err != nil {
		return nil, err
	}
	defer o.cfg.Profile.forward()()
	shape := o.scoresShape(p.shapes)
	scores := alloc[T](o.cfg, shape.TotalSize())
	recorded, err := engine.Forward(&p.batch, p.q, p.d, scores, o.record.Load())
	if err != nil {
		return nil, deviceError(err)
	}
	if n := o.consumers.Load(); n > 0 {
		if t, ok := recorded.(interface{ Expect(consumers int) }); ok {
			t.Expect(int(n)) // after so many, device memory is given back before the garbage collector finds it
		}
	}
	if o.cfg.Mean {
		divideByValid(&p.batch, scores)
	}
	return newTape(o.spec, &p.batch, p.shapes, recorded, denseOf(shape, scores)), nil
}

// divideByValid divides row i of scores by the number of valid tokens of query i, by 1 where there is none.
func divideByValid[T layout.Float](b *layout.Batch, scores []T) {
	cols := b.Cols()
	for i := range b.Q.Len() {
		n := T(max(1, b.Q.Valid(i)))
		for k := range cols {
			scores[i*cols+k] /= n
		}
	}
}

// scoresOp takes the scores off the tape: (q, d, …, tape) → scores.
type scoresOp struct {
	protocol
	spec
}

func (o *scoresOp) Arity() int    { return o.inputs() + 1 }
func (o *scoresOp) Type() hm.Type { return o.funcType(tapeType(), o.scoresType()) }

func (o *scoresOp) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	shapes, err := o.shapesOf(in)
	if err != nil {
		return nil, err
	}
	return o.scoresShape(shapes), nil
}

func (o *scoresOp) Do(in ...gorgonia.Value) (_ gorgonia.Value, err error) {
	defer machine.Guard(&err, ErrInternal)
	t, err := o.tapeOf(in, false)
	if err != nil {
		return nil, err
	}
	return t.scores.Clone().(*tensor.Dense), nil // a copy: the VM may let the next op write into what it gets
}

func (o *scoresOp) WriteHash(h hash.Hash) { o.writeHash(h, "scores") }
func (o *scoresOp) Hashcode() uint32      { return hashcode(o) }
func (o *scoresOp) String() string        { return o.spec.String() }

// DiffWRT reports q and d, each unless it is frozen.
func (o *scoresOp) DiffWRT(inputs int) []bool {
	wrt := make([]bool, inputs)
	wrt[0], wrt[1] = !o.cfg.FrozenQueries, !o.cfg.FrozenDocs
	return wrt
}

// SymDiff returns the gradient nodes of the sides that are not frozen and has the tape record the argmax for them.
func (o *scoresOp) SymDiff(in gorgonia.Nodes, scores, upstream *gorgonia.Node) (gorgonia.Nodes, error) {
	if err := checkUpstreamNode(upstream, scores); err != nil {
		return nil, err
	}
	tape, err := recordArgmax(in)
	if err != nil {
		return nil, err
	}
	grads := make(gorgonia.Nodes, len(in))
	for side, wanted := range o.DiffWRT(len(in))[:2] {
		if !wanted {
			continue
		}
		tape.consumers.Add(1)
		grads[side], err = apply(&gradOp{spec: o.spec, side: side}, append(slices.Clone(in), upstream)...)
		if err != nil {
			return nil, err
		}
	}
	return grads, nil
}

// DoDiff adds the gradients to those of the inputs, for the LispMachine.
func (o *scoresOp) DoDiff(_ gorgonia.ExecutionContext, in gorgonia.Nodes, out *gorgonia.Node) (err error) {
	defer machine.Guard(&err, ErrInternal)
	if _, err := recordArgmax(in); err != nil { // that machine asks for gradients only now: record from the next run on
		return err
	}
	values := make([]gorgonia.Value, len(in))
	for k, n := range in {
		values[k] = n.Value()
	}
	upstream, err := out.Grad()
	if err != nil {
		return err
	}
	for side, wanted := range o.DiffWRT(len(in))[:2] {
		if !wanted {
			continue
		}
		grad, err := (&gradOp{spec: o.spec, side: side}).Do(append(slices.Clone(values), upstream)...)
		if err != nil {
			return err
		}
		if err := addTo(in[side], grad.(*tensor.Dense)); err != nil {
			return err
		}
	}
	return nil
}

// addTo adds grad to the gradient that the LispMachine keeps for n. Where n is what Reshape returned, the one kept from an
// earlier step is that of Reshape's operand, too, and has its shape.
func addTo(n *gorgonia.Node, grad *tensor.Dense) error {
	acc, err := n.Grad()
	if err != nil {
		return err
	}
	dense, ok := acc.(*tensor.Dense)
	if !ok {
		return fmt.Errorf("%w: gradient of %v is a %T, expected a dense tensor", ErrDtype, n, acc)
	}
	if !dense.Shape().Eq(grad.Shape()) {
		if err := grad.Reshape(dense.Shape()...); err != nil {
			return fmt.Errorf("%w: gradient of %v is %v, expected %v: %v", ErrShape, n, dense.Shape(), grad.Shape(), err)
		}
	}
	_, err = tensor.Add(dense, grad, tensor.UseUnsafe())
	return err
}

var (
	_ gorgonia.SDOp = (*tapeOp)(nil)
	_ gorgonia.SDOp = (*scoresOp)(nil)
	_ gorgonia.ADOp = (*scoresOp)(nil)
)
