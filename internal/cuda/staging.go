package cuda

import (
	"errors"
	"runtime"
	"sync"
	"unsafe"
)

// Host memory that the driver does not know cannot be copied by the card while the program runs on. The stager takes
// it through page-locked buffers: several workers, each with a few buffers in turn, copy one piece by processor while
// the card copies the pieces before it.
const (
	defaultPiece   = 1 << 20 // bytes: large enough for the bus's full rate, small enough to start the card early
	defaultWorkers = 8       // a core copies 5 to 12 GB/s, the bus 25 to 55
	defaultDepth   = 2       // buffers of a worker
)

// stager owns the buffers. One call at a time uses it.
type stager struct {
	drv     driver
	piece   int // bytes of a buffer
	most    int // workers, if there are as many processors
	depth   int // buffers of a worker
	workers []stageWorker
}

// stageWorker is what one goroutine of a copy owns: buffers that take turns.
type stageWorker struct {
	slots []stageSlot
	turn  int
}

// stageSlot is a page-locked buffer.
type stageSlot struct {
	memory []byte
	passed mark   // after the last copy that used the buffer
	busy   bool   // that copy has not been waited for
	to     []byte // where its content goes then; nil for uploads
}

func newStager(drv driver) *stager {
	return &stager{drv: drv, piece: defaultPiece, most: defaultWorkers, depth: defaultDepth}
}

// prepare makes the buffers, once.
func (s *stager) prepare() error {
	if s.workers != nil {
		return nil
	}
	s.workers = make([]stageWorker, min(s.most, runtime.GOMAXPROCS(0)))
	for w := range s.workers {
		s.workers[w].slots = make([]stageSlot, s.depth)
		for v := range s.workers[w].slots {
			slot := &s.workers[w].slots[v]
			memory, err := s.drv.pin(int64(s.piece))
			if err == nil {
				slot.memory = unsafe.Slice((*byte)(memory), s.piece)
				slot.passed, err = s.drv.newMark()
			}
			if err != nil {
				return errors.Join(err, s.close())
			}
		}
	}
	return nil
}

// upload queues a copy of a small src to the device. When it returns src may change; what is queued on q later sees the
// copy. Large ones go by shipment.
func (s *stager) upload(q queue, dst address, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	if err := s.prepare(); err != nil {
		return err
	}
	w := &s.workers[0]
	for lo := 0; lo < len(src); lo += s.piece {
		if err := w.next().send(q, dst+address(lo), src[lo:min(lo+s.piece, len(src))]); err != nil {
			return err
		}
	}
	return nil
}

// download copies from the device into dst after everything queued on q, and returns when dst is complete.
func (s *stager) download(q queue, dst []byte, src address) error {
	if len(dst) == 0 {
		return nil
	}
	if err := s.prepare(); err != nil {
		return err
	}
	workers := min(len(s.workers), (len(dst)+s.piece-1)/s.piece)
	return together(workers, func(w int) error {
		worker := &s.workers[w]
		var failed error
		for lo := w * s.piece; lo < len(dst) && failed == nil; lo += workers * s.piece {
			failed = worker.next().fetch(q, dst[lo:min(lo+s.piece, len(dst))], src+address(lo))
		}
		return errors.Join(failed, worker.finish())
	})
}

// together runs work(0) … work(n-1) beside each other and returns when all are done.
func together(n int, work func(w int) error) error {
	failed := make([]error, n)
	var others sync.WaitGroup
	for w := 1; w < n; w++ {
		others.Add(1)
		go func() {
			defer others.Done()
			failed[w] = work(w)
		}()
	}
	failed[0] = work(0)
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
				failed = errors.Join(failed, s.drv.unpin(unsafe.Pointer(&slot.memory[0])))
			}
		}
	}
	s.workers = nil
	return failed
}

// next returns the buffer whose turn it is.
func (w *stageWorker) next() *stageSlot {
	w.turn = (w.turn + 1) % len(w.slots)
	return &w.slots[w.turn]
}

// finish lands all buffers, the oldest first.
func (w *stageWorker) finish() error {
	var failed error
	for range w.slots {
		failed = errors.Join(failed, w.next().land())
	}
	return failed
}

// send queues an upload of src, which is copied before it returns.
func (v *stageSlot) send(q queue, dst address, src []byte) error {
	if err := v.land(); err != nil {
		return err
	}
	copy(v.memory, src)
	if err := q.upload(dst, unsafe.Pointer(&v.memory[0]), int64(len(src))); err != nil {
		return err
	}
	v.busy = true
	return q.record(v.passed)
}

// fetch queues a download whose content reaches dst when the buffer lands.
func (v *stageSlot) fetch(q queue, dst []byte, src address) error {
	if err := v.land(); err != nil {
		return err
	}
	if err := q.download(unsafe.Pointer(&v.memory[0]), src, int64(len(dst))); err != nil {
		return err
	}
	v.busy, v.to = true, dst
	return q.record(v.passed)
}

// land waits for the copy that uses the buffer and brings what was downloaded to its place. The buffer is free then.
func (v *stageSlot) land() error {
	if !v.busy {
		return nil
	}
	to := v.to
	v.busy, v.to = false, nil
	if err := v.passed.sync(); err != nil {
		return err
	}
	copy(to, v.memory)
	return nil
}
