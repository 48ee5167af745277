package enginetest

import (
	"errors"
	"fmt"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// callChecks try every way of calling an engine: without a tape, without one gradient or both, with a tape from host
// memory, with a tape that is older than the last pass, with one matrix on both sides.
func callChecks[T layout.Float](e Engine[T]) []check {
	var list []check
	for _, c := range []struct {
		name string
		run  func(Engine[T], *problem[T]) error
	}{
		{"forward without record", withoutRecord[T]},
		{"backward without some gradients", partialBackward[T]},
		{"tape in host memory", hostTape[T]},
		{"one matrix on both sides", oneMatrix[T]},
	} {
		list = append(list, check{c.name, func() error {
			for _, p := range floatProblems[T]() {
				if err := c.run(e, p); err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
			}
			return nil
		}})
	}
	return append(list, check{"tapes of several passes", func() error { return olderTapes(e, floatProblems[T]()) }})
}

// withoutRecord demands the same scores, and no tape.
func withoutRecord[T layout.Float](e Engine[T], p *problem[T]) error {
	want, err := solve(e, p)
	if err != nil {
		return err
	}
	c := newCall(p)
	tape, err := e.Forward(p.b, c.q.x, c.d.x, c.scores.x, false)
	if err != nil {
		return err
	}
	if tape != nil {
		return errors.New("a tape was returned")
	}
	if err := c.scores.check("scores"); err != nil {
		return err
	}
	return diffBits("scores", c.scores.x, want.scores)
}

// partialBackward demands that a gradient has the same bits whether or not the other one is wanted.
func partialBackward[T layout.Float](e Engine[T], p *problem[T]) error {
	want, err := solve(e, p)
	if err != nil {
		return err
	}
	for _, wanted := range []struct{ dq, dd bool }{{true, false}, {false, true}, {false, false}} {
		c := newCall(p)
		tape, err := e.Forward(p.b, c.q.x, c.d.x, c.scores.x, true)
		if err != nil {
			return err
		}
		var dq, dd []T
		if wanted.dq {
			dq = c.dq.x
		}
		if wanted.dd {
			dd = c.dd.x
		}
		if err := e.Backward(p.b, c.q.x, c.d.x, tape, c.ds.x, dq, dd); err != nil {
			return fmt.Errorf("wanted %+v: %w", wanted, err)
		}
		if dq != nil {
			err = diffBits("dq", dq, want.dq)
		}
		if dd != nil && err == nil {
			err = diffBits("dd", dd, want.dd)
		}
		if err != nil {
			return fmt.Errorf("wanted %+v: %w", wanted, err)
		}
	}
	return nil
}

// hostTape demands the same gradients from a copy of the tape.
func hostTape[T layout.Float](e Engine[T], p *problem[T]) error {
	want, err := solve(e, p)
	if err != nil {
		return err
	}
	c := newCall(p)
	tape := layout.HostTape(append([]int32(nil), want.argmax...))
	if err := e.Backward(p.b, c.q.x, c.d.x, tape, c.ds.x, c.dq.x, c.dd.x); err != nil {
		return err
	}
	if err := diffBits("dq", c.dq.x, want.dq); err != nil {
		return err
	}
	if err := diffBits("dd", c.dd.x, want.dd); err != nil {
		return err
	}
	return diffArgmax(tape, want.argmax)
}

// olderTapes runs all forward passes, then all backward passes: no tape may live in memory of another.
func olderTapes[T layout.Float](e Engine[T], problems []*problem[T]) error {
	calls, tapes := make([]*call[T], len(problems)), make([]layout.Tape, len(problems))
	for n, p := range problems {
		var err error
		calls[n] = newCall(p)
		if tapes[n], err = e.Forward(p.b, calls[n].q.x, calls[n].d.x, calls[n].scores.x, true); err != nil {
			return err
		}
	}
	for n, p := range problems {
		c := calls[n]
		argmax, err := argmaxOf(p.b, tapes[n])
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if err := e.Backward(p.b, c.q.x, c.d.x, tapes[n], c.ds.x, c.dq.x, c.dd.x); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		want, err := solve(e, p)
		if err == nil {
			err = output[T]{c.scores.x, argmax, c.dq.x, c.dd.x}.diff(want)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// oneMatrix demands that q and d may be the same memory.
func oneMatrix[T layout.Float](e Engine[T], p *problem[T]) error {
	if p.b.D.Rows > 300 {
		return nil // other problems show the same in less time
	}
	b := &layout.Batch{Q: p.b.D, D: p.b.D, Dim: p.b.Dim}
	twice := &problem[T]{name: p.name, b: b, q: p.d, d: p.d, ds: make([]T, b.Q.Len()*b.Cols())}
	for at := range twice.ds {
		twice.ds[at] = T(at%5) - 2
	}
	want, err := solve(e, twice)
	if err != nil {
		return err
	}
	c := newCall(twice)
	tape, err := e.Forward(b, c.d.x, c.d.x, c.scores.x, true)
	if err != nil {
		return err
	}
	argmax, err := argmaxOf(b, tape)
	if err != nil {
		return err
	}
	if err := e.Backward(b, c.d.x, c.d.x, tape, c.ds.x, c.dq.x, c.dd.x); err != nil {
		return err
	}
	return output[T]{c.scores.x, argmax, c.dq.x, c.dd.x}.diff(want)
}
