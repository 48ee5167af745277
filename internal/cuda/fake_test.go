package cuda

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
	"unsafe"
)

// fake is a driver that keeps books: memory is real, copies happen, launches are noted and do nothing, and of everything
// put into a queue it notes what the device would do it after. After countdown calls that can fail the next fails, and without
// once all that follow.
type fake struct {
	mu         sync.Mutex
	card       int64 // bytes of device memory
	used       int64
	memoryOf   map[address][]byte
	registered map[uintptr]int64
	pinned     map[unsafe.Pointer][]byte
	open       int // queues and marks
	launches   []call
	operations []operation
	clocks     []clock       // of the queues
	flying     [4]bool       // queues into which something was put since somebody waited for them last
	late       time.Duration // from a mark's recording until the device has passed it
	countdown  int           // -1: nothing fails
	once       bool
	failed     error
	next       address
	closed     bool
}

// operation is what was put into a queue.
type operation struct {
	what   string // upload, download, fill, or the kernel
	at     address
	bytes  int64
	queue  int
	number int // in the queue, from 1
	before clock
}

// clock says how many operations of each queue are over.
type clock [4]int

// follows reports whether the device begins a only when b is over.
func (a operation) follows(b operation) bool { return a.before[b.queue] >= b.number }

var errFake = errors.New("the driver said no")

func newFake(card int64) *fake {
	return &fake{card: card, memoryOf: map[address][]byte{}, registered: map[uintptr]int64{}, pinned: map[unsafe.Pointer][]byte{},
		countdown: -1, next: 1 << 20}
}

// openFake returns a Device over a fake, which must have everything back when the test ends.
func openFake(t testing.TB, card int64) (*Device, *fake) {
	t.Helper()
	f := newFake(card)
	d, err := newDevice(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if len(f.memoryOf) > 0 || len(f.registered) > 0 || len(f.pinned) > 0 || f.open > 0 || !f.closed {
			t.Errorf("left over: %d allocations, %d registrations, %d pinned buffers, %d queues and marks, closed %t",
				len(f.memoryOf), len(f.registered), len(f.pinned), f.open, f.closed)
		}
	})
	return d, f
}

// step is the head of every call that can fail.
func (f *fake) step() error {
	if f.countdown == 0 {
		if f.once {
			f.countdown = -1
		}
		return errFake
	}
	if f.countdown > 0 {
		f.countdown--
	}
	return nil
}

func (f *fake) do(work func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step(); err != nil {
		return err
	}
	return work()
}

func (f *fake) properties() Properties {
	return Properties{Name: "fake", Major: 8, Memory: f.card, Multiprocessors: 4, SharedPerBlock: 166912, Driver: 12040}
}

func (f *fake) memory() (int64, error) { return f.card - f.used, nil }

func (f *fake) alloc(bytes int64) (a address, err error) {
	err = f.do(func() error {
		if f.used+bytes > f.card {
			return fmt.Errorf("%w: %d bytes", errCardFull, bytes)
		}
		f.used += bytes
		a = f.next
		f.next += address(bytes + 1<<20) // a gap, so that an overrun hits nothing
		f.memoryOf[a] = make([]byte, bytes)
		return nil
	})
	return a, err
}

func (f *fake) free(a address) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, ok := f.memoryOf[a]
	if !ok {
		return fmt.Errorf("free of %#x, which is no allocation", a)
	}
	f.used -= int64(len(m))
	delete(f.memoryOf, a)
	return nil
}

func (f *fake) pin(bytes int64) (p unsafe.Pointer, err error) {
	err = f.do(func() error {
		m := make([]byte, bytes)
		p = unsafe.Pointer(&m[0])
		f.pinned[p] = m
		return nil
	})
	return p, err
}

func (f *fake) unpin(p unsafe.Pointer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pinned, p)
	return nil
}

func (f *fake) copyUncached(dst, src []byte) { copy(dst[:len(src)], src) }

func (f *fake) register(p unsafe.Pointer, bytes int64) error {
	return f.do(func() error { f.registered[uintptr(p)] = bytes; return nil })
}

func (f *fake) unregister(p uintptr) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.registered[p]; !ok {
		return fmt.Errorf("unregister of %#x, which is not registered", p)
	}
	delete(f.registered, p)
	return nil
}

func (f *fake) tensorMap(a address, rowBytes, rows int64, _ int) (m tensorMap, err error) {
	err = f.do(func() error { _, err := f.device(a, rowBytes*rows); return err })
	return m, err
}

func (f *fake) newQueue() (q queue, err error) {
	err = f.do(func() error {
		q = fakeQueue{f, len(f.clocks)}
		f.clocks = append(f.clocks, clock{})
		f.open++
		return nil
	})
	return q, err
}

func (f *fake) newMark() (mark, error) {
	return &fakeMark{fake: f}, f.do(func() error { f.open++; return nil })
}

func (f *fake) close() error { f.closed = true; return nil }

// device returns the memory [a, a+bytes), which must lie in one allocation.
func (f *fake) device(a address, bytes int64) ([]byte, error) {
	for base, m := range f.memoryOf {
		if a >= base && a+address(bytes) <= base+address(len(m)) {
			return m[a-base:][:bytes], nil
		}
	}
	return nil, fmt.Errorf("%d bytes at %#x are not in one allocation", bytes, a)
}

type fakeQueue struct {
	*fake
	number int
}

// put notes an operation.
func (q fakeQueue) put(what string, at address, bytes int64) {
	now := &q.clocks[q.number]
	q.operations = append(q.operations, operation{what, at, bytes, q.number, now[q.number] + 1, *now})
	now[q.number]++
	q.flying[q.number] = true
}

func (q fakeQueue) upload(dst address, src unsafe.Pointer, bytes int64) error {
	return q.do(func() error {
		m, err := q.device(dst, bytes)
		copy(m, unsafe.Slice((*byte)(src), bytes))
		q.put("upload", dst, bytes)
		return err
	})
}

func (q fakeQueue) download(dst unsafe.Pointer, src address, bytes int64) error {
	return q.do(func() error {
		m, err := q.device(src, bytes)
		copy(unsafe.Slice((*byte)(dst), bytes), m)
		q.put("download", src, bytes)
		return err
	})
}

func (q fakeQueue) fill(dst address, value byte, bytes int64) error {
	return q.do(func() error {
		m, err := q.device(dst, bytes)
		for k := range m {
			m[k] = value
		}
		q.put("fill", dst, bytes)
		return err
	})
}

func (q fakeQueue) launch(c call, _ unsafe.Pointer) error {
	return q.do(func() error {
		q.launches = append(q.launches, c)
		q.put(c.kernel, 0, 0)
		return nil
	})
}

func (q fakeQueue) record(m mark) error {
	return q.do(func() error {
		m := m.(*fakeMark)
		m.at, m.passes = q.clocks[q.number], time.Now().Add(q.late)
		return nil
	})
}

func (q fakeQueue) wait(m mark) error {
	return q.do(func() error {
		for n, over := range m.(*fakeMark).at {
			q.clocks[q.number][n] = max(q.clocks[q.number][n], over)
		}
		return nil
	})
}

func (q fakeQueue) sync() error {
	q.mu.Lock()
	q.flying[q.number] = false
	q.mu.Unlock()
	return q.do(func() error { return q.failed })
}

func (q fakeQueue) close() error { return q.closeOne() }

// fakeMark is what was over when it was recorded last.
type fakeMark struct {
	*fake
	at     clock
	passes time.Time
}

func (m *fakeMark) sync() error {
	time.Sleep(time.Until(m.passes))
	return m.do(func() error { return nil })
}

func (m *fakeMark) over() (bool, error) {
	return !time.Now().Before(m.passes), m.do(func() error { return nil })
}

func (m *fakeMark) since(mark) (float64, error) { return 1, nil }
func (m *fakeMark) close() error                { return m.closeOne() }

// closeOne counts a queue or mark less.
func (f *fake) closeOne() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open--
	return nil
}
