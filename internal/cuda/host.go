package cuda

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

const (
	// leastRegistered is the smallest buffer worth registering: below it a copy through staging costs as much.
	leastRegistered = 64 << 10
	// goPage is the granule of large Go allocations: they start at a multiple of it, so that buffers whose size is
	// a multiple of it never share a page that is locked.
	goPage = 8 << 10
	// defaultHostLimit bounds the Go memory that one device registers unless the user says otherwise.
	defaultHostLimit = 4 << 30
	// leastCollected is how much the buffers in use grow, at least, before they ask for a garbage collection.
	leastCollected = 256 << 20
)

// hostPool hands out Go memory that is registered with the driver, so that copies to and from it are direct.
//
// A buffer in use is known to the pool by its number only, not by a pointer: when the last slice into it is gone a
// finalizer on its first byte brings it back, still registered. It is unregistered before the pool lets go of it, and
// all buffers are when the pool closes, whoever holds them.
//
// Handing out a buffer that is there already is no allocation in the eyes of the garbage collector, so it would not run
// for it. The pool asks for a collection, beside the program, whenever the bytes in use have doubled since they were
// fewest after the last.
type hostPool struct {
	drv driver

	mu      sync.Mutex
	limit   int64
	held    int64             // bytes registered, in use or idle
	inUse   int64             // bytes registered that have not come back
	next    int64             // bytes in use that ask for a collection; 0: one is under way
	refused int64             // bytes of ordinary memory given since collecting brought nothing
	idle    map[int64][]*byte // by size
	ranges  []hostRange       // all registered buffers, ascending
	closed  bool
}

// hostRange is a registered buffer [lo, hi).
type hostRange struct{ lo, hi uintptr }

func newHostPool(drv driver) *hostPool {
	return &hostPool{drv: drv, limit: defaultHostLimit, next: leastCollected, idle: map[int64][]*byte{}}
}

// alloc returns a slice of n elements of unspecified content. Small buffers, and those for which the limit or the
// driver leaves no room, are ordinary Go memory: everything works with them, copies take longer.
func alloc[T layout.Float](p *hostPool, n int) []T {
	bytes := int64(n) * int64(unsafe.Sizeof(T(0)))
	if bytes < leastRegistered {
		return make([]T, n)
	}
	size := (classOf(bytes) + goPage - 1) / goPage * goPage
	first := p.take(size)
	if first == nil && p.worthCollecting(size) {
		reclaim(func() bool { first = p.take(size); return first != nil || !p.full(size) })
	}
	if first == nil {
		first = p.grow(size)
	}
	if first == nil {
		p.refuse(size)
		return make([]T, n)
	}
	p.use(size)
	runtime.SetFinalizer(first, func(b *byte) { p.put(b, size) })
	return unsafe.Slice((*T)(unsafe.Pointer(first)), n)
}

// use counts a buffer that is handed out, and asks for a collection when it is time.
func (p *hostPool) use(size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inUse += size
	if p.next == 0 || p.inUse < p.next {
		return
	}
	p.next = 0
	go func() {
		reclaim(func() bool { return true })
		p.mu.Lock()
		defer p.mu.Unlock()
		p.next = max(2*p.inUse, leastCollected)
	}()
}

// take returns an idle buffer of exactly the given size, or nil.
func (p *hostPool) take(size int64) *byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[size]
	if len(list) == 0 {
		return nil
	}
	first := list[len(list)-1]
	list[len(list)-1] = nil
	p.idle[size] = list[:len(list)-1]
	return first
}

// full reports whether a new buffer of the given size would exceed the limit.
func (p *hostPool) full(size int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held+size > p.limit
}

// worthCollecting reports whether a garbage collection may bring a buffer of the given size: something is in use, and none
// was tried in vain lately. A pool whose buffers are all alive must not collect for every buffer that it cannot give.
func (p *hostPool) worthCollecting(size int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held+size > p.limit && size <= p.limit && p.inUse > 0 && p.refused == 0
}

// refuse counts a buffer that is ordinary memory: after as much of it as the pool may hold, collecting is tried again.
func (p *hostPool) refuse(size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused += size; p.refused >= p.limit {
		p.refused = 0
	}
}

// grow registers a new buffer, giving up idle ones of other sizes if the limit asks for it, or returns nil.
func (p *hostPool) grow(size int64) *byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || size > p.limit {
		return nil
	}
	if p.held+size > p.limit {
		p.trim()
	}
	if p.held+size > p.limit {
		return nil
	}
	buffer := make([]byte, size)
	first := &buffer[0]
	if p.drv.register(unsafe.Pointer(first), size) != nil {
		return nil
	}
	lo := uintptr(unsafe.Pointer(first))
	at, _ := slices.BinarySearchFunc(p.ranges, lo, compareLow)
	p.ranges = slices.Insert(p.ranges, at, hostRange{lo, lo + uintptr(size)})
	p.held += size
	return first
}

// put takes back a buffer that nobody can reach any more.
func (p *hostPool) put(first *byte, size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inUse -= size
	p.refused = 0
	if p.next > 0 {
		p.next = min(p.next, max(2*p.inUse, leastCollected))
	}
	if !p.closed { // a closed pool has unregistered it already
		p.idle[size] = append(p.idle[size], first)
	}
}

// trim unregisters all idle buffers and leaves them to the garbage collector. The caller holds mu.
func (p *hostPool) trim() error {
	var failed error
	for size, list := range p.idle {
		for _, first := range list {
			lo := uintptr(unsafe.Pointer(first))
			failed = errors.Join(failed, p.drv.unregister(lo))
			if at, ok := slices.BinarySearchFunc(p.ranges, lo, compareLow); ok {
				p.ranges = slices.Delete(p.ranges, at, at+1)
			}
			p.held -= size
		}
		delete(p.idle, size)
	}
	return failed
}

// contains reports whether [first, first+bytes) lies in one registered buffer.
func (p *hostPool) contains(first unsafe.Pointer, bytes int64) bool {
	lo := uintptr(first)
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := slices.BinarySearchFunc(p.ranges, lo, compareLow)
	if !ok {
		at--
	}
	return at >= 0 && lo+uintptr(bytes) <= p.ranges[at].hi
}

func compareLow(r hostRange, lo uintptr) int {
	switch {
	case r.lo < lo:
		return -1
	case r.lo > lo:
		return 1
	}
	return 0
}

// setLimit bounds the bytes registered from now on.
func (p *hostPool) setLimit(bytes int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit, p.refused = bytes, 0
	if p.held > bytes {
		return p.trim()
	}
	return nil
}

// registered returns the bytes registered.
func (p *hostPool) registered() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// close unregisters every buffer, idle or in use; those in use stay valid Go memory.
func (p *hostPool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	failed := p.trim()
	for _, r := range p.ranges {
		failed = errors.Join(failed, p.drv.unregister(r.lo))
	}
	p.ranges, p.held = nil, 0
	return failed
}
