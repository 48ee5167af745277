package cuda

import "unsafe"

// mostParts is the number of parts that a shipment may have: the queries' and the documents' of a pass.
const mostParts = 2 * mostPortions

// shipment is an upload of several parts of host memory, in order, that goes on while the caller works with those which
// have arrived. Registered memory is copied directly, other memory through the ring: goroutines fill it as soon as the
// shipment starts, and the caller queues the card's copies whenever it asks for a part. Behind the last copy of a part is
// its mark, so that nobody waits for later parts, which may be queued by then.
type shipment struct {
	device *Device
	ring   *ring
	parts  []part
	now    int   // part that is being queued
	failed error // of bring, which does not try again what it did by half

	// What is staged, in pieces that take a slot each:
	pieces [][]byte
	filled claims
	first  int64 // place of the first piece
	sent   int   // pieces before it have been queued
}

// part is a range of host memory on its way.
type part struct {
	src    []byte
	dst    address
	end    int  // of its pieces; 0: it is copied directly
	closed bool // it may not be queued yet
	gate   mark // passed when dst is free; nil: it is
}

func newShipment(d *Device) *shipment { return &shipment{device: d, ring: d.staging.ring} }

// add appends a part, whose number is the count of those before it.
func (h *shipment) add(src []byte) {
	p := part{src: src, closed: true}
	if len(src) > 0 && !h.device.host.contains(unsafe.Pointer(&src[0]), int64(len(src))) {
		size := h.ring.slot
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
	if h.first, err = h.ring.reserve(n); err != nil {
		return err
	}
	h.filled.expect(n)
	for range h.ring.helpers(n) {
		go h.work()
	}
	return nil
}

// open says where part k goes on the device. If what is there now is still read, gate is passed when it no longer is.
func (h *shipment) open(k int, dst address, gate mark) {
	p := &h.parts[k]
	p.dst, p.gate, p.closed = dst, gate, false
}

// arrived makes what is queued on the work queue from now on see part k, which is open, and all parts before it, and wait
// for no other. Once it has failed it fails.
func (h *shipment) arrived(k int) error {
	if h.failed == nil {
		h.failed = h.bring(k)
	}
	return h.failed
}

func (h *shipment) bring(k int) error {
	d, ring := h.device, h.ring
	for p := (patience{}); h.now <= k; {
		moved, err := h.send(leastCopy)
		if err == nil && !moved && h.fillNext() {
			p = patience{}
			continue
		}
		if err == nil {
			err = ring.land(false)
		}
		if err == nil && !moved && len(ring.flights) == 0 { // a small copy is better than none
			moved, err = h.send(1)
		}
		switch {
		case err != nil:
			return err
		case moved:
			p = patience{}
		case p.out():
			if err := ring.wait(&p); err != nil {
				return err
			}
		}
	}
	for range copiesAhead {
		if moved, err := h.send(leastCopy); err != nil {
			return err
		} else if !moved {
			break
		}
	}
	return d.work.wait(d.arrived[k])
}

// copiesAhead is how many copies of later parts are queued when one has arrived, so that the bus does not rest while the
// caller queues kernels.
const copiesAhead = 2

// send queues the next copy, if there is a place for it and it is of at least so many bytes or as long as it can be.
func (h *shipment) send(least int) (moved bool, err error) {
	if h.now == len(h.parts) || h.parts[h.now].closed {
		return false, nil
	}
	d, p := h.device, &h.parts[h.now]
	from, end := p.src, 0
	if p.end > 0 {
		var bytes int
		if end, bytes = h.ready(p, least); bytes == 0 {
			return false, nil
		}
		from = h.ring.at(h.first + int64(h.sent))[:bytes]
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
		if err := h.ring.depart(d.in, h.first+int64(end)); err != nil {
			return false, err
		}
		p.dst += address(len(from))
		h.sent = end
	}
	if end == p.end {
		if err := d.in.record(d.arrived[h.now]); err != nil {
			return false, err
		}
		h.now++
	}
	return true, nil
}

// ready returns the end of the pieces of p that one copy takes now, and their bytes: none if it could be of least bytes
// later and is not now.
func (h *shipment) ready(p *part, least int) (end, bytes int) {
	end = h.sent
	for end < p.end && bytes < mostCopy && h.filled.done[end].Load() {
		bytes += len(h.pieces[end])
		end++
		if h.ring.wraps(h.first + int64(end)) {
			return end, bytes
		}
	}
	if bytes < least && end < p.end {
		return h.sent, 0
	}
	return end, bytes
}

// fillNext fills the next piece, if there is one and room for it. A piece is begun only then: the caller can send none
// before it, however long the goroutine that has it may be kept from running.
func (h *shipment) fillNext() bool {
	return h.filled.take(
		func(n int64) bool { return h.ring.vacant(h.first + n) },
		func(n int64) { h.ring.store(h.ring.at(h.first+n), h.pieces[n]) })
}

// work fills one piece after the other until there are none, or the shipment ends early.
func (h *shipment) work() { h.ring.help(h.fillNext, h.filled.over) }

// end stops the reading of parts that have not been asked for. Nothing reads host memory by processor after it.
func (h *shipment) end() {
	h.filled.end()
	h.ring.idle.wake()
}
