package cuda

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"
)

// Host memory that the driver does not know cannot be copied by the card while the program runs on. It goes through a
// ring of page-locked memory: processors copy it slot by slot, and the card copies runs of slots that follow one another.
// So the card starts after one slot, and few of its copies have to be queued.
const (
	defaultSlot  = 128 << 10 // bytes: 10 to 25 us of a core, which copies 5 to 12 GB/s
	defaultSlots = 64

	// defaultWorkers fill the ring beside the caller's goroutine. On a quiet host of an H200 4 to 15 did equally well; where
	// others used the processors, too (bench/results/gpu/staging-h200.txt), a step took 1.42 ms with eight, 1.77 with twelve,
	// 2.35 with fifteen, and documents that no cache holds arrived at 28 GB/s with eight, at 20 with four.
	defaultWorkers = 8

	// leastCopy is worth a copy of the card's that has others under way, or a processor at hand to make it larger: it takes
	// 10 to 20 us, to queue it 5 to 10.
	leastCopy = 512 << 10
	// mostCopy bounds a copy, whose slots are free again when all of it is done.
	mostCopy = 1 << 20
)

// ring is the memory and what the card may still be doing with it. One transfer at a time uses it.
//
// Places are numbered without end, from transfer to transfer; place n is slot n mod slots.
type ring struct {
	drv     driver
	slot    int   // bytes, a multiple of 64
	slots   int64 // how many
	workers int   // goroutines of a transfer, if there are as many processors
	memory  []byte
	store   func(dst, src []byte) // fills a slot

	reserved int64        // places before it have been some transfer's
	landed   atomic.Int64 // places before it are no longer the card's
	idle     *waiters     // goroutines of a transfer that wait for landed to grow
	flights  []flight     // copies that may be under way, the oldest first, all in one queue
	marks    []mark       // that no flight has
}

// flight is a copy of the card's.
type flight struct {
	passed mark
	end    int64 // places before it are no longer the card's when passed is
}

func newRing(drv driver) *ring {
	return &ring{drv: drv, slot: defaultSlot, slots: defaultSlots, workers: defaultWorkers, store: drv.copyUncached,
		idle: newWaiters()}
}

// prepare makes the memory, once.
func (r *ring) prepare() error {
	if r.memory != nil {
		return nil
	}
	bytes := r.slots * int64(r.slot)
	memory, err := r.drv.pin(bytes)
	if err == nil {
		r.memory = unsafe.Slice((*byte)(memory), bytes)
	}
	return err
}

// close releases everything. Nothing queued may use it.
func (r *ring) close() error {
	var failed error
	for _, f := range r.flights {
		r.marks = append(r.marks, f.passed)
	}
	for _, m := range r.marks {
		failed = errors.Join(failed, m.close())
	}
	if r.memory != nil {
		failed = errors.Join(failed, r.drv.unpin(unsafe.Pointer(&r.memory[0])))
	}
	r.flights, r.marks, r.memory = nil, nil, nil
	return failed
}

// reserve returns the first of the places of a transfer of n pieces, which begins now.
func (r *ring) reserve(n int) (int64, error) {
	if err := r.prepare(); err != nil {
		return 0, err
	}
	free := true
	if last := len(r.flights) - 1; last >= 0 { // of earlier transfers, which need not have used all their places
		r.flights[last].end = r.reserved
		var err error
		if free, err = r.flights[last].passed.over(); err != nil {
			return 0, err
		}
	}
	if free {
		for _, f := range r.flights {
			r.marks = append(r.marks, f.passed)
		}
		r.flights = r.flights[:0]
		r.giveBack(r.reserved)
	}
	first := r.reserved
	r.reserved += int64(n)
	return first, nil
}

// helpers is how many goroutines a transfer of n pieces gets beside the caller's.
func (r *ring) helpers(n int) int { return min(r.workers, runtime.GOMAXPROCS(0)-1, n-1) }

// at returns the memory of the places from n on: n's slot and those behind it.
func (r *ring) at(n int64) []byte { return r.memory[n%r.slots*int64(r.slot):] }

// wraps reports whether place n begins the memory anew.
func (r *ring) wraps(n int64) bool { return n%r.slots == 0 }

// vacant reports whether the card is done with the place that had n's slot before.
func (r *ring) vacant(n int64) bool { return n < r.landed.Load()+r.slots }

// giveBack notes that places before end are no longer the card's.
func (r *ring) giveBack(end int64) {
	r.landed.Store(end)
	r.idle.wake()
}

// help tries what brings a transfer forward, again and again, until over.
func (r *ring) help(try func() bool, over func() bool) {
	for p := (patience{}); !over(); {
		landed := r.landed.Load()
		switch {
		case try():
			p = patience{}
		case p.out():
			r.idle.wait(func() bool { return over() || r.landed.Load() > landed })
			p = patience{}
		}
	}
}

// wait is what the caller's goroutine does whose patience is out: it waits for the card or, if that has nothing to do, for
// other goroutines, which may be kept from running.
func (r *ring) wait(p *patience) error {
	if len(r.flights) > 0 {
		return r.land(true)
	}
	p.yield()
	return nil
}

// depart notes the copy that was queued on q last: places before end are the card's until it is over.
func (r *ring) depart(q queue, end int64) error {
	if len(r.marks) == 0 {
		m, err := r.drv.newMark()
		if err != nil {
			return err
		}
		r.marks = append(r.marks, m)
	}
	last := len(r.marks) - 1
	if err := q.record(r.marks[last]); err != nil {
		return err
	}
	r.flights = append(r.flights, flight{r.marks[last], end})
	r.marks = r.marks[:last]
	return nil
}

// land notes the copies that are over; with wait the oldest is, when it returns.
func (r *ring) land(wait bool) error {
	for len(r.flights) > 0 {
		f := r.flights[0]
		over, err := wait, error(nil)
		if wait {
			err = f.passed.sync()
		} else {
			over, err = f.passed.over()
		}
		if err != nil || !over {
			return err
		}
		r.giveBack(f.end)
		r.marks = append(r.marks, f.passed)
		r.flights = slices.Delete(r.flights, 0, 1)
		wait = false
	}
	return nil
}
