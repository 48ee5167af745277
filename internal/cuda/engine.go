package cuda

import (
	"errors"
	"runtime"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Engine computes MaxSim and its gradients on a Device. It implements [layout.Engine].
//
// float64 is computed in float64. float32 is computed as the precision says; gradients are float32 in every precision,
// of the token rows as the products saw them (BF16, FP16) or as they were given (Float32, TF32). Which kernels compute
// a pair depends on the element type, the precision, dim and the GPU alone.
//
// A call returns when its results are in host memory, and keeps none of its slices. An error leaves the Device usable,
// except for a fault in a kernel: CUDA then refuses every later call of the process.
type Engine[T layout.Float] struct {
	device    *Device
	precision Precision
	documents *Resident // nil: each call brings its own
}

// NewEngine returns an engine on d. float64 ignores the precision.
func NewEngine[T layout.Float](d *Device, p Precision) *Engine[T] {
	return &Engine[T]{device: d, precision: p}
}

// Forward implements [layout.Engine]. The tape it returns is a [*Tape].
func (e *Engine[T]) Forward(b *layout.Batch, q, d, scores []T, record bool) (layout.Tape, error) {
	p, err := newProblem(b)
	if err != nil {
		return nil, err
	}
	err = p.sizes(
		sized{"q", true, len(q), int64(b.Q.Rows) * int64(b.Dim)},
		sized{"d", e.documents == nil, len(d), int64(b.D.Rows) * int64(b.Dim)},
		sized{"scores", true, len(scores), p.bq * p.cols})
	if err != nil {
		return nil, err
	}
	var t *Tape
	err = e.device.exclusively(func() error {
		t, err = e.forward(p, q, d, scores, record)
		return err
	})
	keepAlive(q, d, scores) // registered memory that nobody can reach is handed out again
	runtime.KeepAlive(e)    // the cleanup of resident documents gives back memory that was in use until here
	if err != nil || !record {
		return nil, err
	}
	return t, nil
}

// Backward implements [layout.Engine]. A [*Tape] whose device memory was given back, and any other tape, is brought to
// the device again: by computing it, or from host memory.
func (e *Engine[T]) Backward(b *layout.Batch, q, d []T, tape layout.Tape, ds, dq, dd []T) error {
	if tape == nil {
		return errors.New("backward needs the tape of a forward pass that recorded it")
	}
	p, host, err := e.problemOf(b, tape)
	if err != nil {
		return err
	}
	err = p.sizes(
		sized{"q", true, len(q), int64(b.Q.Rows) * int64(b.Dim)},
		sized{"d", e.documents == nil, len(d), int64(b.D.Rows) * int64(b.Dim)},
		sized{"ds", true, len(ds), p.bq * p.cols},
		sized{"dq", dq != nil, len(dq), int64(b.Q.Rows) * int64(b.Dim)},
		sized{"dd", dd != nil, len(dd), int64(b.D.Rows) * int64(b.Dim)})
	if err != nil {
		return err
	}
	gradients := func(t *Tape) error { return backward(t, ds, dq, dd) }
	t, _ := tape.(*Tape)
	err = e.device.exclusively(func() error {
		switch {
		case host != nil:
			return e.fromHost(p, q, d, host, dq != nil, dd != nil, gradients)
		case t.held.gone():
			return e.again(p, q, d, gradients)
		}
		if err := gradients(t); err != nil {
			return err
		}
		t.consumed(dq != nil, dd != nil) // nobody else can be using the tape now
		return nil
	})
	keepAlive(q, d, ds, dq, dd)
	runtime.KeepAlive(tape) // so does that of the tape
	runtime.KeepAlive(e)
	return err
}

// keepAlive keeps slices reachable until it is called.
func keepAlive[T layout.Float](list ...[]T) { runtime.KeepAlive(list) }

// problemOf returns the problem that tape is of, and the tape's content if it is not on this device, or its token rows are
// in the form of another precision or element type.
func (e *Engine[T]) problemOf(b *layout.Batch, tape layout.Tape) (*problem, []int32, error) {
	if t, ok := tape.(*Tape); ok && t.device == e.device && t.storage.product == storageOf[T](e.precision, b.Dim).product {
		return t.problem, nil, t.problem.same(b)
	}
	host, err := tape.Argmax()
	if err != nil {
		return nil, nil, err
	}
	p, err := newProblem(b)
	if err != nil {
		return nil, nil, err
	}
	if host == nil {
		host = []int32{} // of a batch without query rows
	}
	return p, host, nil
}

var (
	_ layout.Engine[float32] = (*Engine[float32])(nil)
	_ layout.Engine[float64] = (*Engine[float64])(nil)
)
