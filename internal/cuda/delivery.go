package cuda

import (
	"errors"
	"unsafe"
)

// download copies from the device into dst after everything queued on q, and returns when dst is complete.
func (s *stager) download(q queue, dst []byte, src address) error {
	if len(dst) == 0 {
		return nil
	}
	r := s.ring
	n := (len(dst) + r.slot - 1) / r.slot
	first, err := r.reserve(n)
	for err == nil && len(r.flights) > 0 { // of an upload, in another queue
		err = r.land(true)
	}
	if err != nil {
		return err
	}
	t := &delivery{ring: r, dst: dst, first: first}
	t.emptied.expect(n)
	for range r.helpers(n) {
		go t.work()
	}
	err = t.fetch(q, src)
	for err == nil && !t.emptied.over() { // all is in the ring: nobody would wake whoever rested now
		t.emptyNext()
	}
	t.emptied.end()
	r.idle.wake()
	return err
}

// delivery is a download under way.
type delivery struct {
	ring    *ring
	dst     []byte
	first   int64 // its first place
	emptied claims
}

// fetch queues copies as the ring has room, and returns when all have arrived in it.
func (t *delivery) fetch(q queue, src address) error {
	r, n, sent, freed := t.ring, len(t.emptied.done), 0, 0
	for {
		for freed < sent && t.emptied.done[freed].Load() {
			freed++
		}
		end := sent
		for end < n && end-freed < int(r.slots) && (end-sent)*r.slot < mostCopy && (end == sent || !r.wraps(t.first+int64(end))) {
			end++
		}
		switch {
		case end > sent:
			lo, hi := sent*r.slot, min(end*r.slot, len(t.dst))
			if err := q.download(unsafe.Pointer(&r.at(t.first + int64(sent))[0]), src+address(lo), int64(hi-lo)); err != nil {
				return errors.Join(err, q.sync())
			}
			if err := r.depart(q, t.first+int64(end)); err != nil {
				return errors.Join(err, q.sync())
			}
			sent = end
		case len(r.flights) > 0:
			if err := r.land(true); err != nil {
				return err
			}
		case sent == n:
			return nil
		default: // all that is in the ring has arrived
			if !t.emptyNext() {
				until(t.emptied.done[freed].Load)
			}
		}
	}
}

// work empties one piece after the other until there are none, or the download fails.
func (t *delivery) work() { t.ring.help(t.emptyNext, t.emptied.over) }

// emptyNext brings the next piece to its place, if there is one that has arrived.
func (t *delivery) emptyNext() bool {
	r := t.ring
	return t.emptied.take(
		func(k int64) bool { return t.first+k < r.landed.Load() },
		func(k int64) {
			lo := int(k) * r.slot
			copy(t.dst[lo:min(lo+r.slot, len(t.dst))], r.at(t.first+k))
		})
}
