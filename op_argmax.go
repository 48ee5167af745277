package maxsim

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/machine"
)

// argmaxOp shows the tape to the user: (q, d, …, tape) → int32 in the shape that Argmax documents.
type argmaxOp struct {
	undifferentiable
	spec
}

func (o *argmaxOp) Arity() int    { return o.inputs() + 1 }
func (o *argmaxOp) Type() hm.Type { return o.funcType(tapeType(), o.argmaxType()) }

func (o *argmaxOp) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	shapes, err := o.shapesOf(in)
	if err != nil {
		return nil, err
	}
	return o.argmaxShape(shapes), nil
}

func (o *argmaxOp) Do(in ...gorgonia.Value) (_ gorgonia.Value, err error) {
	defer machine.Guard(&err, ErrInternal)
	t, err := o.tapeOf(in, true)
	if err != nil {
		return nil, err
	}
	return o.userArgmax(t)
}

// userArgmax returns the argmax of a tape in the shape that Argmax documents, as a fresh tensor.
func (s spec) userArgmax(t *tape) (*tensor.Dense, error) {
	argmax, err := t.recorded.Argmax()
	if err != nil {
		return nil, deviceError(err)
	}
	out := make([]int32, len(argmax))
	if s.form == packed {
		byRow(&t.batch, argmax, out)
	} else {
		copy(out, argmax)
	}
	return denseOf(t.userShape, out), nil
}

// byRow turns the tape's blocks [cols, tokens of query i] into rows [rows, cols]; rows beyond the offsets get -1.
func byRow(b *layout.Batch, argmax, out []int32) {
	for x := range out {
		out[x] = -1
	}
	cols := b.Cols()
	for i := range b.Q.Len() {
		for k := range cols {
			at := b.TapeAt(i, k)
			for t := range b.Q.Tokens(i) {
				out[(b.Q.Cu[i]+t)*cols+k] = argmax[at+t]
			}
		}
	}
}

func (o *argmaxOp) WriteHash(h hash.Hash) { o.writeHash(h, "argmax") }
func (o *argmaxOp) Hashcode() uint32      { return hashcode(o) }
func (o *argmaxOp) String() string        { return fmt.Sprintf("%v.argmax", o.spec) }

var _ gorgonia.SDOp = (*argmaxOp)(nil)
