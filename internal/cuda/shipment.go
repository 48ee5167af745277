package cuda

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// shipment is an upload of several parts of host memory, in order, that goes on while the caller works with those which
// have arrived. Registered memory is copied directly, other memory through the ring: goroutines fill it as soon as the
// shipment starts, and the caller queues the card's copies whenever it asks for a part.
type shipment struct {
	device *Device
	parts  []part
	now    int // part that is being queued

	// What is staged, in pieces that take a slot each:
	pieces [][]byte
	first  int64         // place of the first piece
	filled []atomic.Bool // pieces that are in the ring
	next   atomic.Int64  // piece that nobody has begun to fill
	sent   int           // pieces before it have been queued
	quit   atomic.Bool
	all    sync.WaitGroup
}

// part is a range of host memory on its way.
type part struct {
	src    []byte
	dst    address
	end    int  // of its pieces; 0: it is copied directly
	closed bool // it may not be queued yet
	gate   mark // passed when dst is free; nil: it is
}

func newShipment(d *Device) *shipment { return &shipment{device: d} }

// add appends a part, whose number is the count of those before it.
func (h *shipment) add(src []byte) {
	p := part{src: src, closed: true}
	if len(src) > 0 && !h.device.host.contains(unsafe.Pointer(&src[0]), int64(len(src))) {
		size := h.device.staging.ring.slot
		for lo := 0; lo < len(src); lo += size {
			h.pieces = append(h.pieces, src[lo:min(lo+size, len(src))])
		}
		p.end = len(h.pieces)
	}
	h.parts = append(h.parts, p)
}

// start begins to read the parts. After it nothing else may use the ring until end.
func (h *shipment) start() (err error) {
	n := len(h.pieces)
	if n == 0 {
		return nil
	}
	ring := h.device.staging.ring
	if h.first, err = ring.reserve(n); err != nil {
		return err
	}
	h.filled = make([]atomic.Bool, n)
	for range ring.helpers(n) {
		h.all.Go(h.work)
	}
	return nil
}

// open says where part k goes on the device. If what is there now is still read, gate is passed when it no longer is.
func (h *shipment) open(k int, dst address, gate mark) {
	p := &h.parts[k]
	p.dst, p.gate, p.closed = dst, gate, false
}

// arrived makes what is queued on the work queue from now on see part k, which is open, and all parts before it.
func (h *shipment) arrived(k int) error {
	d := h.device
	for h.now <= k {
		moved, err := h.send()
		if err != nil {
			return err
		}
		if !moved && h.fillNext() {
			continue
		}
		if err := d.staging.ring.land(false); err != nil {
			return err
		}
		if !moved {
			runtime.Gosched()
		}
	}
	if err := d.in.record(d.point); err != nil {
		return err
	}
	for range copiesAhead {
		if moved, err := h.send(); err != nil {
			return err
		} else if !moved {
			break
		}
	}
	return d.work.wait(d.point)
}

// copiesAhead is how many copies of later parts are queued when one has arrived, so that the bus does not rest while the
// caller queues kernels.
const copiesAhead = 2

// send queues the next copy, if there is something to copy and a place for it.
func (h *shipment) send() (moved bool, err error) {
	if h.now == len(h.parts) || h.parts[h.now].closed {
		return false, nil
	}
	d, p := h.device, &h.parts[h.now]
	from, end := p.src, 0
	if p.end > 0 {
		var bytes int
		if end, bytes = h.ready(p); bytes == 0 {
			return false, nil
		}
		from = d.staging.ring.at(h.first + int64(h.sent))[:bytes]
	}
	if p.gate != nil {
		if err := d.in.wait(p.gate); err != nil {
			return false, err
		}
		p.gate = nil
	}
	if len(from) > 0 {
		if err := d.in.upload(p.dst, unsafe.Pointer(&from[0]), int64(len(from))); err != nil {
			return false, err
		}
	}
	if p.end > 0 {
		if err := d.staging.ring.depart(d.in, h.first+int64(end)); err != nil {
			return false, err
		}
		p.dst += address(len(from))
		h.sent = end
	}
	if end == p.end {
		h.now++
	}
	return true, nil
}

// ready returns the end of the pieces of p that one copy takes now, and their bytes: none if a later copy is better.
func (h *shipment) ready(p *part) (end, bytes int) {
	ring := h.device.staging.ring
	end = h.sent
	for end < p.end && bytes < mostCopy && h.filled[end].Load() {
		bytes += len(h.pieces[end])
		end++
		if ring.wraps(h.first + int64(end)) {
			return end, bytes
		}
	}
	if bytes < leastCopy && end < p.end && len(ring.flights) > 0 {
		return h.sent, 0
	}
	return end, bytes
}

// fillNext fills the piece that is to be sent next, if nobody has begun to.
func (h *shipment) fillNext() bool {
	n := int64(h.sent)
	if !h.device.staging.ring.vacant(h.first+n) || !h.next.CompareAndSwap(n, n+1) {
		return false
	}
	h.fill(n)
	return true
}

// work fills one piece after the other until there are none, or the shipment ends early.
func (h *shipment) work() {
	ring := h.device.staging.ring
	for {
		n := h.next.Add(1) - 1
		if n >= int64(len(h.pieces)) {
			return
		}
		until(func() bool { return ring.vacant(h.first+n) || h.quit.Load() })
		if h.quit.Load() {
			return
		}
		h.fill(n)
	}
}

// fill copies piece n into the ring.
func (h *shipment) fill(n int64) {
	ring := h.device.staging.ring
	ring.store(ring.at(h.first+n), h.pieces[n])
	h.filled[n].Store(true)
}

// end stops the reading of parts that have not been asked for. Nothing reads host memory by processor after it.
func (h *shipment) end() {
	h.quit.Store(true)
	h.all.Wait()
}
