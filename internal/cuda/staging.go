package cuda

import (
	"errors"
	"runtime"
	"sync"
	"unsafe"
)

// Host memory that the driver does not know cannot be copied by the card while the program runs on. The stager takes
// it through page-locked buffers: several workers, each with two buffers in turn, copy one piece by processor while
// the card copies the pieces before it.
const (
	stagePiece   = 1 << 20 // large enough for the bus's full rate, small enough to start the card early
	stageWorkers = 6       // a core copies 5 to 12 GB/s, the bus 25 to 55
)

// stager copies between foreign host memory and the device. One call at a time uses it.
type stager struct {
	drv     driver
	workers []stageWorker
}

// stageWorker is what one goroutine of a copy owns: two buffers that take turns.
type stageWorker struct {
	slots [2]stageSlot
	turn  int
}

// stageSlot is a page-locked buffer of stagePiece bytes.
type stageSlot struct {
	memory unsafe.Pointer
	passed mark   // after the last copy that used the buffer
	busy   bool   // that copy has not been waited for
	to     []byte // where its content goes then; nil for uploads
}

func newStager(drv driver) *stager { return &stager{drv: drv} }

// prepare makes the buffers, once.
func (s *stager) prepare() error {
	if s.workers != nil {
		return nil
	}
	s.workers = make([]stageWorker, min(stageWorkers, runtime.GOMAXPROCS(0)))
	for w := range s.workers {
		for v := range s.workers[w].slots {
			slot := &s.workers[w].slots[v]
			var err error
			if slot.memory, err = s.drv.pin(stagePiece); err == nil {
				slot.passed, err = s.drv.newMark()
			}
			if err != nil {
				return errors.Join(err, s.close())
			}
		}
	}
	return nil
}

// upload queues a copy of src to the device. When it returns src may change; what is queued on q later sees the copy.
func (s *stager) upload(q queue, dst address, src []byte) error {
	return s.each(len(src), false, func(v *stageSlot, lo, hi int) error {
		if err := v.land(); err != nil {
			return err
		}
		copy(v.bytes(), src[lo:hi])
		if err := q.upload(dst+address(lo), v.memory, int64(hi-lo)); err != nil {
			return err
		}
		return v.depart(q, nil)
	})
}

// download copies from the device into dst after everything queued on q, and returns when dst is complete.
func (s *stager) download(q queue, dst []byte, src address) error {
	return s.each(len(dst), true, func(v *stageSlot, lo, hi int) error {
		if err := v.land(); err != nil {
			return err
		}
		if err := q.download(v.memory, src+address(lo), int64(hi-lo)); err != nil {
			return err
		}
		return v.depart(q, dst[lo:hi])
	})
}

// each cuts n bytes into pieces [lo, hi) and deals them to the workers, which run beside each other; with finish, a
// worker ends when its last copies have landed.
func (s *stager) each(n int, finish bool, piece func(v *stageSlot, lo, hi int) error) error {
	if n == 0 {
		return nil
	}
	if err := s.prepare(); err != nil {
		return err
	}
	workers := min(len(s.workers), (n+stagePiece-1)/stagePiece)
	failed := make([]error, workers)
	work := func(w int) {
		for lo := w * stagePiece; lo < n && failed[w] == nil; lo += workers * stagePiece {
			failed[w] = piece(s.workers[w].next(), lo, min(lo+stagePiece, n))
		}
		if finish || failed[w] != nil {
			failed[w] = errors.Join(failed[w], s.workers[w].finish())
		}
	}
	var others sync.WaitGroup
	for w := 1; w < workers; w++ {
		others.Add(1)
		go func() {
			defer others.Done()
			work(w)
		}()
	}
	work(0)
	others.Wait()
	return errors.Join(failed...)
}

// close releases the buffers. Nothing queued may use them.
func (s *stager) close() error {
	var failed error
	for w := range s.workers {
		for v := range s.workers[w].slots {
			slot := &s.workers[w].slots[v]
			if slot.passed != nil {
				failed = errors.Join(failed, slot.passed.close())
			}
			if slot.memory != nil {
				failed = errors.Join(failed, s.drv.unpin(slot.memory))
			}
		}
	}
	s.workers = nil
	return failed
}

// next returns the buffer whose turn it is.
func (w *stageWorker) next() *stageSlot {
	w.turn ^= 1
	return &w.slots[w.turn]
}

// finish lands both buffers, the older one first.
func (w *stageWorker) finish() error { return errors.Join(w.next().land(), w.next().land()) }

func (v *stageSlot) bytes() []byte { return unsafe.Slice((*byte)(v.memory), stagePiece) }

// depart notes that a copy which uses the buffer has been queued.
func (v *stageSlot) depart(q queue, to []byte) error {
	v.busy, v.to = true, to
	return q.record(v.passed)
}

// land waits for that copy and brings what was downloaded to its place. The buffer is free then.
func (v *stageSlot) land() error {
	if !v.busy {
		return nil
	}
	to := v.to
	v.busy, v.to = false, nil
	if err := v.passed.sync(); err != nil {
		return err
	}
	copy(to, v.bytes())
	return nil
}
