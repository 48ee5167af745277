package cuda

import (
	"errors"
	"fmt"
	"sync"
)

// errCardFull is wrapped by a driver's alloc when the card has no room.
var errCardFull = errors.New("the card has no room")

// ErrOutOfMemory is wrapped by the error of a call whose device memory does not fit. The call has given back what it
// took, and the Device stays usable.
var ErrOutOfMemory = errors.New("out of device memory")

// block is a piece of device memory of the pool.
type block struct {
	at    address
	bytes int64 // its class, at least what was asked for
}

// pool keeps device memory for reuse, because the driver's own allocation takes up to a millisecond. The blocks it
// holds, in use or idle, never exceed the limit. A block may be put back as soon as nothing queued uses it.
type pool struct {
	drv driver

	mu    sync.Mutex
	limit int64 // 0: the card's memory
	held  int64 // bytes taken from the driver
	used  int64 // bytes of those in use
	peak  int64 // largest used since resetPeak
	idle  map[int64][]address
	// all holds the class of every block, so that close finds those in use.
	all    map[address]int64
	closed bool
}

func newPool(drv driver) *pool {
	return &pool{drv: drv, idle: map[int64][]address{}, all: map[address]int64{}}
}

// classOf rounds a size up to one of eight steps between powers of two, so that blocks of about the same size are
// interchangeable and at most an eighth is wasted.
func classOf(bytes int64) int64 {
	const least = 512 // the driver's own alignment, times two
	if bytes <= least {
		return least
	}
	step := int64(least)
	for step*16 <= bytes {
		step *= 2
	}
	return (bytes + step - 1) / step * step
}

// get returns a block of at least the given bytes. It tries, in this order: an idle block of the same class, the
// driver, the driver after giving it all idle blocks, and all of that again after a garbage collection.
func (p *pool) get(bytes int64) (block, error) {
	b := block{bytes: classOf(bytes)}
	ok, err := p.take(&b)
	if !ok && err == nil {
		reclaim(func() bool { ok, err = p.take(&b); return ok || err != nil })
	}
	if !ok && err == nil {
		err = p.full(bytes)
	}
	return b, err
}

// take is one round of get: ok is false when there is no room.
func (p *pool) take(b *block) (ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if list := p.idle[b.bytes]; len(list) > 0 {
		b.at = list[len(list)-1]
		p.idle[b.bytes] = list[:len(list)-1]
	} else if b.at, ok, err = p.grow(b.bytes); !ok {
		return false, err
	}
	p.used += b.bytes
	p.peak = max(p.peak, p.used)
	return true, nil
}

// grow asks the driver for a block, first as things are, then with every idle block given up.
func (p *pool) grow(bytes int64) (a address, ok bool, err error) {
	for range 2 {
		if p.limit == 0 || p.held+bytes <= p.limit {
			a, err = p.drv.alloc(bytes)
			if err == nil {
				p.held += bytes
				p.all[a] = bytes
				return a, true, nil
			}
			if !errors.Is(err, errCardFull) {
				return 0, false, err
			}
		}
		if err = p.trim(); err != nil {
			return 0, false, err
		}
	}
	return 0, false, nil
}

// trim gives all idle blocks back to the driver. The caller holds mu.
func (p *pool) trim() error {
	var failed error
	for bytes, list := range p.idle {
		for _, a := range list {
			failed = errors.Join(failed, p.drv.free(a))
			p.held -= bytes
			delete(p.all, a)
		}
		delete(p.idle, bytes)
	}
	return failed
}

// put makes a block idle.
func (p *pool) put(b block) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.used -= b.bytes
	p.idle[b.bytes] = append(p.idle[b.bytes], b.at)
}

// setLimit bounds the bytes held from now on; 0 leaves the card as the only bound.
func (p *pool) setLimit(bytes int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = bytes
	if bytes != 0 && p.held > bytes {
		return p.trim()
	}
	return nil
}

// close gives everything back to the driver, blocks in use too.
func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var failed error
	for a := range p.all {
		failed = errors.Join(failed, p.drv.free(a))
	}
	p.all, p.idle, p.held, p.used = nil, nil, 0, 0
	return failed
}

// report fills in what the pool knows.
func (p *pool) report() MemoryReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	return MemoryReport{Used: p.used, Peak: p.peak, Held: p.held, Limit: p.limit}
}

// resetPeak starts a new measurement of the peak.
func (p *pool) resetPeak() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.peak = p.used
}

// full is the error of a request that found no room.
func (p *pool) full(bytes int64) error {
	free, err := p.drv.memory()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	bound := "no limit set"
	if p.limit > 0 {
		bound = fmt.Sprintf("limit %d", p.limit)
	}
	return fmt.Errorf("%w: asked for %d bytes with %d in use, %s, %d free on the card",
		ErrOutOfMemory, bytes, p.used, bound, free)
}

// scope is the device memory of one engine call: it all goes back together unless it is handed on.
type scope struct {
	pool   *pool
	blocks []block
}

// alloc returns device memory that lives as long as the scope. Nothing is asked of the pool for zero bytes.
func (s *scope) alloc(bytes int64) (address, error) {
	if bytes == 0 {
		return 0, nil
	}
	b, err := s.pool.get(bytes)
	if err != nil {
		return 0, err
	}
	s.blocks = append(s.blocks, b)
	return b.at, nil
}

// adopt takes over all that other holds.
func (s *scope) adopt(other *scope) {
	s.blocks = append(s.blocks, other.blocks...)
	other.blocks = nil
}

// close puts every block back. Nothing queued may use them any more.
func (s *scope) close() {
	for _, b := range s.blocks {
		s.pool.put(b)
	}
	s.blocks = nil
}
