package maxsim

import (
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/machine"
)

// DocGradRows returns the gradient of the documents as its touched rows only, for one query against many documents: at
// most bq·tq rows of a document are chosen, and writing the zeros of all others costs more than the forward pass.
//
//	upstream  like scores                 the derivative of the loss by the scores
//	rows      int32 [n]                   the token rows of d that were chosen, ascending; -1 after the last
//	grads     [n, dim]                    row x is the gradient of token row rows[x]; 0 after the last
//
// n = min(token rows of d, entries of the argmax) is a capacity, because Gorgonia's shapes are static. The rows have the
// bits of the dense gradient; every row that is not named has gradient 0. Set Config.FrozenDocs to spare the dense one.
// CPU only: scores of a GPU are [ErrConfig].
func DocGradRows(scores, upstream *gorgonia.Node) (rows, grads *gorgonia.Node, err error) {
	inputs, err := scoresInputs(scores)
	if err != nil {
		return nil, nil, err
	}
	s := scores.Op().(*scoresOp).spec
	if !s.cfg.Device.isCPU() {
		return nil, nil, fmt.Errorf("%w: DocGradRows runs on the CPU only, the scores are %v", ErrConfig, s)
	}
	if err := checkNode(upstream, "upstream gradient", scores, "scores"); err != nil {
		return nil, nil, err
	}
	if err := checkUpstreamNode(upstream, scores); err != nil {
		return nil, nil, err
	}
	if _, err := recordArgmax(inputs); err != nil {
		return nil, nil, err
	}
	if rows, err = apply(&docRowsOp{spec: s}, inputs...); err != nil {
		return nil, nil, err
	}
	grads, err = apply(&docRowGradsOp{spec: s}, append(inputs, upstream)...)
	return rows, grads, err
}

// docRowCapacity returns the most document rows that a run can touch.
func (s spec) docRowCapacity(shapes []tensor.Shape) int {
	d := shapes[1]
	return min(tensor.ProdInts(d[:d.Dims()-1]), s.argmaxShape(shapes).TotalSize())
}

// docRowsOp lists the chosen document rows: (q, d, …, tape) → int32 [n].
type docRowsOp struct {
	undifferentiable
	spec
}

func (o *docRowsOp) Arity() int    { return o.inputs() + 1 }
func (o *docRowsOp) Type() hm.Type { return o.funcType(tapeType(), tensorType(1, tensor.Int32)) }

func (o *docRowsOp) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	shapes, err := o.shapesOf(in)
	if err != nil {
		return nil, err
	}
	return tensor.Shape{o.docRowCapacity(shapes)}, nil
}

func (o *docRowsOp) Do(in ...gorgonia.Value) (_ gorgonia.Value, err error) {
	defer machine.Guard(&err, ErrInternal)
	t, err := o.tapeOf(in, true)
	if err != nil {
		return nil, err
	}
	shapes, err := o.checkValues(in)
	if err != nil {
		return nil, err
	}
	inverse, err := t.inverse()
	if err != nil {
		return nil, err
	}
	rows := make([]int32, o.docRowCapacity(shapes))
	n := 0
	for r := range t.batch.D.Rows {
		if len(inverse.Row(r)) > 0 {
			rows[n] = int32(r)
			n++
		}
	}
	for x := n; x < len(rows); x++ {
		rows[x] = -1
	}
	return denseOf(tensor.Shape{len(rows)}, rows), nil
}

func (o *docRowsOp) WriteHash(h hash.Hash) { o.writeHash(h, "docrows") }
func (o *docRowsOp) Hashcode() uint32      { return hashcode(o) }
func (o *docRowsOp) String() string        { return o.spec.String() + ".docrows" }

// docRowGradsOp is the gradient of the chosen document rows: (q, d, …, tape, upstream) → [n, dim].
type docRowGradsOp struct {
	onceDifferentiable
	spec
}

func (o *docRowGradsOp) Arity() int { return o.inputs() + 2 }

func (o *docRowGradsOp) Type() hm.Type {
	return o.funcType(tapeType(), o.scoresType(), tensorType(2, elem))
}

func (o *docRowGradsOp) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	shapes, err := o.shapesOf(in)
	if err != nil {
		return nil, err
	}
	if err := checkUpstream(shapes[len(shapes)-1], o.scoresShape(shapes)); err != nil {
		return nil, err
	}
	return tensor.Shape{o.docRowCapacity(shapes), shapes[1][shapes[1].Dims()-1]}, nil
}

func (o *docRowGradsOp) Do(in ...gorgonia.Value) (_ gorgonia.Value, err error) {
	defer machine.Guard(&err, ErrInternal)
	return byDtype(in, o.run32, o.run64)
}

func (o *docRowGradsOp) run32(in []gorgonia.Value) (gorgonia.Value, error) {
	return docRowGrads[float32](o.spec, in)
}

func (o *docRowGradsOp) run64(in []gorgonia.Value) (gorgonia.Value, error) {
	return docRowGrads[float64](o.spec, in)
}

// docRowGrads runs the CPU engine and returns the gradients of the touched rows, zeros up to the capacity behind them.
func docRowGrads[T layout.Float](s spec, in []gorgonia.Value) (gorgonia.Value, error) {
	r, err := bindBackward[T](s, in)
	if err != nil {
		return nil, err
	}
	defer s.cfg.Profile.backward()()
	_, touched, err := cpu.New[T]().BackwardDocRows(&r.batch, r.q, r.tape, r.ds)
	if err != nil {
		return nil, deviceError(err)
	}
	grads := make([]T, s.docRowCapacity(r.shapes)*r.batch.Dim)
	copy(grads, touched)
	return denseOf(tensor.Shape{len(grads) / r.batch.Dim, r.batch.Dim}, grads), nil
}

func (o *docRowGradsOp) WriteHash(h hash.Hash) { o.writeHash(h, "docrowgrads") }
func (o *docRowGradsOp) Hashcode() uint32      { return hashcode(o) }
func (o *docRowGradsOp) String() string        { return o.spec.String() + ".docrowgrads" }

var (
	_ gorgonia.SDOp = (*docRowsOp)(nil)
	_ gorgonia.SDOp = (*docRowGradsOp)(nil)
)
