package maxsim

import (
	"fmt"
	"hash"
	"slices"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/machine"
)

// gradOp is the gradient of the scores for one side, from the tape: (q, d, …, tape, upstream) → dq or dd.
//
//	dq[i,t,:] = Σ_k ds[i,k] · d[j, argmax[i,k,t], :]              a gather, documents in ascending order
//	dd[j,u,:] = Σ_{(i,t) : argmax[i,k,t] = u} ds[i,k] · q[i,t,:]   through the inverse grid (csr.go), one owner per row
//
// with j the document in column k of query i. Every term has its place in a fixed order, so the bits do not depend on
// the number of threads. Upstream gradients are float32 or float64 like the tokens.
type gradOp struct {
	onceDifferentiable
	spec
	side int // 0: dq, 1: dd
}

func (o *gradOp) Arity() int { return o.inputs() + 2 }

func (o *gradOp) Type() hm.Type { return o.funcType(tapeType(), o.scoresType(), o.tokensType()) }

func (o *gradOp) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	shapes, err := o.shapesOf(in)
	if err != nil {
		return nil, err
	}
	if err := checkUpstream(shapes[len(shapes)-1], o.scoresShape(shapes)); err != nil {
		return nil, err
	}
	return shapes[o.side].Clone(), nil
}

func (o *gradOp) Do(in ...gorgonia.Value) (_ gorgonia.Value, err error) {
	defer machine.Guard(&err, ErrInternal)
	return byDtype(in, o.run32, o.run64)
}

func (o *gradOp) run32(in []gorgonia.Value) (gorgonia.Value, error) { return backward[float32](o, in) }
func (o *gradOp) run64(in []gorgonia.Value) (gorgonia.Value, error) { return backward[float64](o, in) }

func (o *gradOp) WriteHash(h hash.Hash) { o.writeHash(h, o.role()) }
func (o *gradOp) Hashcode() uint32      { return hashcode(o) }
func (o *gradOp) String() string        { return o.spec.String() + "." + o.role() }
func (o *gradOp) role() string          { return [...]string{"dq", "dd"}[o.side] }

// backward runs the engine for one side and returns its gradient in the shape of the tokens.
func backward[T layout.Float](o *gradOp, in []gorgonia.Value) (*tensor.Dense, error) {
	r, err := bindBackward[T](o.spec, in)
	if err != nil {
		return nil, err
	}
	defer o.cfg.Profile.backward()()
	grad := alloc[T](o.cfg, r.shapes[o.side].TotalSize())
	if o.side == 0 {
		err = r.engine.Backward(&r.batch, r.q, r.d, r.tape, r.ds, grad, nil)
	} else {
		err = r.engine.Backward(&r.batch, r.q, r.d, r.tape, r.ds, nil, grad)
	}
	if err != nil {
		return nil, deviceError(err)
	}
	return denseOf(r.shapes[o.side], grad), nil
}

// backwardRun is what a backward pass works on.
type backwardRun[T layout.Float] struct {
	problem[T]
	engine layout.Engine[T]
	tape   layout.Tape
	ds     []T // the upstream gradient of the sums, whatever the scores are
}

// bindBackward turns the values (q, d, …, tape, upstream) into a backward run.
func bindBackward[T layout.Float](s spec, in []gorgonia.Value) (r backwardRun[T], err error) {
	n := s.inputs()
	if len(in) != n+2 {
		return r, fmt.Errorf("%w: got %d values, expected %d inputs, a tape and the upstream gradient", ErrShape, len(in), n)
	}
	t, err := s.tapeOf(in[:n+1], true)
	if err != nil {
		return r, err
	}
	r.tape = t.recorded
	if r.problem, err = bindBatch[T](s, in, t.batch); err != nil {
		return r, err
	}
	upstream := in[n+1]
	if err := checkUpstream(upstream.Shape(), s.scoresShape(r.shapes)); err != nil {
		return r, err
	}
	if r.ds, err = rowMajor[T](upstream, "upstream gradient"); err != nil {
		return r, err
	}
	if s.cfg.Mean {
		r.ds = slices.Clone(r.ds)
		divideByValid(&r.batch, r.ds)
	}
	r.engine, err = engineOf[T](s.cfg)
	return r, err
}

var _ gorgonia.SDOp = (*gradOp)(nil)
