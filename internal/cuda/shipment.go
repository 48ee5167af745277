package cuda

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// shipment is an upload of several parts of host memory, in order, that goes on while the caller works with those which
// have arrived. Registered memory is copied directly, other memory by the stager's workers.
type shipment struct {
	device *Device
	parts  []*part
	pieces []piece // of the parts that are staged
	next   atomic.Int64
	quit   chan struct{}
	all    sync.WaitGroup

	mu     sync.Mutex
	failed error
}

// part is a range of host memory on its way.
type part struct {
	dst    address
	src    []byte
	direct bool
	gate   chan struct{} // closed when it may be queued; nil: at once
	queued chan struct{} // closed when all of it has been queued
	left   atomic.Int64  // staged pieces that have not
}

// piece is what one buffer of the stager takes of a part.
type piece struct {
	of     *part
	lo, hi int
}

func newShipment(d *Device) *shipment { return &shipment{device: d, quit: make(chan struct{})} }

// add appends a part and returns its number. A gated one waits for open.
func (h *shipment) add(dst address, src []byte, gated bool) int {
	p := &part{dst: dst, src: src, queued: make(chan struct{})}
	p.direct = len(src) == 0 || h.device.host.contains(unsafe.Pointer(&src[0]), int64(len(src)))
	if gated {
		p.gate = make(chan struct{})
	}
	if !p.direct {
		size := h.device.staging.piece
		for lo := 0; lo < len(src); lo += size {
			h.pieces = append(h.pieces, piece{p, lo, min(lo+size, len(src))})
			p.left.Add(1)
		}
	}
	h.parts = append(h.parts, p)
	return len(h.parts) - 1
}

// start sends the workers off. After it nothing else may use the stager until end.
func (h *shipment) start() error {
	if len(h.pieces) == 0 {
		return nil
	}
	s := h.device.staging
	if err := s.prepare(); err != nil {
		return err
	}
	for w := range min(len(s.workers), len(h.pieces)) {
		h.all.Add(1)
		go func() {
			defer h.all.Done()
			h.work(&s.workers[w])
		}()
	}
	return nil
}

// work sends one piece after the other until there are none, or the shipment ends early.
func (h *shipment) work(w *stageWorker) {
	for {
		n := h.next.Add(1) - 1
		if n >= int64(len(h.pieces)) {
			return
		}
		p := h.pieces[n]
		if p.of.gate != nil {
			select {
			case <-p.of.gate:
			case <-h.quit:
				return
			}
		}
		if err := w.next().send(h.device.in, p.of.dst+address(p.lo), p.of.src[p.lo:p.hi]); err != nil {
			h.fail(err)
		}
		if p.of.left.Add(-1) == 0 {
			close(p.of.queued)
		}
	}
}

func (h *shipment) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed == nil {
		h.failed = err
	}
}

// open lets a gated part go.
func (h *shipment) open(k int) { close(h.parts[k].gate) }

// arrived returns when part k has been queued, with all parts before it: what is queued afterwards, behind the in queue,
// sees it on the device. Parts are asked for in order.
func (h *shipment) arrived(k int) error {
	p := h.parts[k]
	if p.direct {
		if len(p.src) == 0 {
			return nil
		}
		return h.device.in.upload(p.dst, unsafe.Pointer(&p.src[0]), int64(len(p.src)))
	}
	<-p.queued
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failed
}

// end stops the workers, early if not everything has been asked for, and waits for them.
func (h *shipment) end() {
	close(h.quit)
	h.next.Add(int64(len(h.pieces)))
	h.all.Wait()
}
