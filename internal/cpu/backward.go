package cpu

import (
	"errors"
	"sync"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/tile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/csr"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Backward implements layout.Engine:
//
//	dq[i,t,:] = Σ_k ds[i,k] · d[j,u,:]    u = tape[i,k,t], k ascending
//	dd[j,u,:] = Σ   ds[i,k] · q[i,t,:]    over the query tokens that chose u, query rows ascending
//
// It returns an error, with dq and dd in no particular state, if the tape names a token that its document has not.
func (e *Engine[T]) Backward(b *layout.Batch, q, d []T, tape layout.Tape, ds, dq, dd []T) error {
	args := []argument{{"q", len(q), b.Q.Rows, b.Dim}, {"d", len(d), b.D.Rows, b.Dim}}
	if dq != nil {
		args = append(args, argument{"dq", len(dq), b.Q.Rows, b.Dim})
	}
	if dd != nil {
		args = append(args, argument{"dd", len(dd), b.D.Rows, b.Dim})
	}
	g, err := e.newBackward(b, tape, ds, args...)
	if err != nil {
		return err
	}
	defer g.release()
	if dq != nil {
		g.queries(d, dq)
	}
	if dd != nil {
		g.documents(q, dd)
	}
	return g.err
}

// BackwardDocRows returns ∇d as its touched rows only: rows ascend, grads is [len(rows), b.Dim], and every other row of
// ∇d is 0. A row is touched if a query token chose it. The gradients have the bits that Backward gives them. With
// one query and many documents, this is a small part of the dense gradient, whose writing dominates Backward there.
func (e *Engine[T]) BackwardDocRows(b *layout.Batch, q []T, tape layout.Tape, ds []T) (rows []int, grads []T, err error) {
	g, err := e.newBackward(b, tape, ds, argument{"q", len(q), b.Q.Rows, b.Dim})
	if err != nil {
		return nil, nil, err
	}
	defer g.release()
	rows, grads = g.documentRows(q)
	return rows, grads, g.err
}

// backward is one backward pass, and the memory that the next one uses again.
type backward[T layout.Float] struct {
	b       *layout.Batch
	kernels *tile.Kernels[T]
	tape    []int32
	ds      []T
	queryOf []int32 // [query rows] the query of a row

	mu  sync.Mutex
	err error // the first that a unit of work met
}

// gather is the memory of one worker: a list of rows and their weights.
type gather[T layout.Float] struct {
	rows    []int32
	weights []T
	counts  []int
	inverse csr.Matrix
}

func (e *Engine[T]) newBackward(b *layout.Batch, tape layout.Tape, ds []T, args ...argument) (*backward[T], error) {
	if err := e.check(b, append(args, argument{"ds", len(ds), b.Q.Len(), b.Cols()})...); err != nil {
		return nil, err
	}
	if tape == nil {
		return nil, errors.New("backward needs the argmax tape of a forward pass that recorded it")
	}
	argmax, err := tape.Argmax()
	if err != nil {
		return nil, err
	}
	if err := csr.CheckLength(b, argmax); err != nil {
		return nil, err
	}
	g := take[backward[T]](&poolsOf[T]().backward)
	g.b, g.kernels, g.tape, g.ds, g.err = b, e.kernels, argmax, ds, nil
	return g, nil
}

// release gives the memory of g to later calls.
func (g *backward[T]) release() {
	g.b, g.tape, g.ds = nil, nil, nil
	poolsOf[T]().backward.Put(g)
}

// fail keeps the first error of the workers.
func (g *backward[T]) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
	}
}
