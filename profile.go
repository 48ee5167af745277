package maxsim

import (
	"sync/atomic"
	"time"
)

// Profile adds up the wall time of the passes of the nodes that name it in their [Config]. It is safe for use by several
// machines at once; the zero value is ready.
type Profile struct {
	forwardTime, backwardTime   atomic.Int64
	forwardCalls, backwardCalls atomic.Int64
}

// Forward returns how many forward passes ran and how long they took together.
func (p *Profile) Forward() (calls int, total time.Duration) {
	return int(p.forwardCalls.Load()), time.Duration(p.forwardTime.Load())
}

// Backward returns how many backward passes ran (one for each side that has a gradient) and how long they took together.
func (p *Profile) Backward() (calls int, total time.Duration) {
	return int(p.backwardCalls.Load()), time.Duration(p.backwardTime.Load())
}

// Reset starts from zero.
func (p *Profile) Reset() {
	for _, n := range []*atomic.Int64{&p.forwardTime, &p.backwardTime, &p.forwardCalls, &p.backwardCalls} {
		n.Store(0)
	}
}

// forward starts the clock of a forward pass and returns what stops it. A nil Profile costs nothing.
func (p *Profile) forward() func() {
	if p == nil {
		return func() {}
	}
	return stopwatch(&p.forwardCalls, &p.forwardTime)
}

func (p *Profile) backward() func() {
	if p == nil {
		return func() {}
	}
	return stopwatch(&p.backwardCalls, &p.backwardTime)
}

func stopwatch(calls, total *atomic.Int64) func() {
	start := time.Now()
	return func() {
		calls.Add(1)
		total.Add(int64(time.Since(start)))
	}
}
