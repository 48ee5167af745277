package cuda

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// patience bounds the polling for what the card or another goroutine brings about, which takes microseconds as a rule, less
// than to wake a thread.
//
// What follows must not be a short sleep. The runtime's poller counts in milliseconds, so a sleep of 50 us takes 1.1 ms: the
// card copies all that is in the ring in a seventh of that, and any delay of 100 us would become one of a millisecond.
type patience struct {
	polls int
	since time.Time
}

// out counts a poll in vain, and reports at some of them whether 100 us have passed since the first.
func (p *patience) out() bool {
	if p.polls++; p.polls%16 != 0 {
		return false
	}
	now := time.Now()
	if p.since.IsZero() {
		p.since = now
	}
	return now.Sub(p.since) > 100*time.Microsecond
}

// yield lets other goroutines run, and when that has not helped for longer than a sleep takes, other threads.
func (p *patience) yield() {
	if time.Since(p.since) < 2*time.Millisecond {
		runtime.Gosched()
	} else {
		time.Sleep(time.Millisecond)
	}
}

// until waits until done, which other goroutines are about to bring about.
func until(done func() bool) {
	for p := (patience{}); !done(); {
		if p.out() {
			p.yield()
		}
	}
}

// waiters are goroutines that have nothing to do until another wakes them.
type waiters struct {
	cond  *sync.Cond
	count atomic.Int32
}

func newWaiters() *waiters { return &waiters{cond: sync.NewCond(new(sync.Mutex))} }

// wait returns when done, which is made true before a wake.
func (w *waiters) wait(done func() bool) {
	w.cond.L.Lock()
	defer w.cond.L.Unlock()
	w.count.Add(1) // before done is asked: either wake sees it, or done sees what was before wake
	defer w.count.Add(-1)
	for !done() {
		w.cond.Wait()
	}
}

// wake lets those who wait ask again. It costs next to nothing when nobody does.
func (w *waiters) wake() {
	if w.count.Load() > 0 {
		w.cond.L.Lock()
		defer w.cond.L.Unlock()
		w.cond.Broadcast()
	}
}
