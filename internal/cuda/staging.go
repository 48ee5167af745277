package cuda

import (
	"errors"
	"unsafe"
)

// stager brings memory that the driver does not know to and from the device: what is small through one of a few buffers,
// large inputs by shipment and results by download through the ring. One call at a time uses it.
type stager struct {
	drv   driver
	small [2]smallBuffer // take turns
	turn  int
	ring  *ring
}

// smallBytes is what a small buffer takes.
const smallBytes = 1 << 20

// smallBuffer is a page-locked buffer for uploads.
type smallBuffer struct {
	memory []byte
	passed mark // after the last copy from it
	busy   bool // that copy has not been waited for
}

func newStager(drv driver) *stager { return &stager{drv: drv, ring: newRing(drv)} }

// upload queues a copy of a small src to the device. When it returns src may change; what is queued on q later sees the
// copy.
func (s *stager) upload(q queue, dst address, src []byte) error {
	for lo := 0; lo < len(src); lo += smallBytes {
		s.turn = (s.turn + 1) % len(s.small)
		if err := s.small[s.turn].send(s.drv, q, dst+address(lo), src[lo:min(lo+smallBytes, len(src))]); err != nil {
			return err
		}
	}
	return nil
}

// send queues an upload of src, which is copied before it returns.
func (v *smallBuffer) send(drv driver, q queue, dst address, src []byte) (err error) {
	if v.passed == nil {
		if v.passed, err = drv.newMark(); err != nil {
			return err
		}
	}
	if v.memory == nil {
		memory, err := drv.pin(smallBytes)
		if err != nil {
			return err
		}
		v.memory = unsafe.Slice((*byte)(memory), smallBytes)
	}
	if v.busy {
		if err := v.passed.sync(); err != nil {
			return err
		}
		v.busy = false
	}
	copy(v.memory, src)
	if err := q.upload(dst, unsafe.Pointer(&v.memory[0]), int64(len(src))); err != nil {
		return err
	}
	v.busy = true
	return q.record(v.passed)
}

// close releases the buffers. Nothing queued may use them.
func (s *stager) close() error {
	failed := s.ring.close()
	for n := range s.small {
		v := &s.small[n]
		if v.passed != nil {
			failed = errors.Join(failed, v.passed.close())
		}
		if v.memory != nil {
			failed = errors.Join(failed, s.drv.unpin(unsafe.Pointer(&v.memory[0])))
		}
	}
	s.small = [2]smallBuffer{}
	return failed
}
