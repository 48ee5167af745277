package cuda

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// ErrClosed is wrapped by the error of every call on a Device after Close.
var ErrClosed = errors.New("device is closed")

// Properties describe a GPU and its driver.
type Properties struct {
	Ordinal         int
	Name            string
	Major, Minor    int   // compute capability
	Memory          int64 // bytes on the card
	Multiprocessors int
	SharedPerBlock  int // bytes that a block may ask for
	Driver          int // newest CUDA version that the driver supports, 12040 for 12.4
}

func (p Properties) String() string {
	return fmt.Sprintf("cuda:%d %s, compute capability %d.%d, %d multiprocessors, %d MiB, driver for CUDA %d.%d",
		p.Ordinal, p.Name, p.Major, p.Minor, p.Multiprocessors, p.Memory>>20, p.Driver/1000, p.Driver%1000/10)
}

// MemoryReport is what a Device holds, in bytes.
type MemoryReport struct {
	Used, Peak, Held, Limit int64 // device memory in use, its largest value, taken from the card, bound (0: none)
	Free                    int64 // free on the card, all programs counted
	Registered              int64 // Go memory registered with the driver
}

// Device owns the resources of one GPU: a context, queues, memory pools, kernels. It is safe for use by many
// goroutines; several Devices, of the same GPU too, may be open at once.
type Device struct {
	drv        driver
	properties Properties
	pool       *pool
	host       *hostPool

	// one guards what follows: one engine call at a time runs on the device.
	one      sync.Mutex
	closed   bool
	in       queue  // copies to the device
	work     queue  // kernels
	beside   queue  // kernels that run beside those of work
	out      queue  // copies from the device
	point    mark   // orders one queue after another
	arrived  []mark // of the parts of a shipment
	ready    []mark // of results, one for each part that is copied on its own
	packed   []mark // of rows that take turns
	staging  *stager
	launched []call // since the last finish
	stamp    uint32 // of the last call that packed rows of the split
	trace    *trace // nil: kernels are not timed

	portionBytes int64 // the least part of an input or result that is copied on its own
}

// newDevice takes over drv and closes it on an error.
func newDevice(drv driver) (*Device, error) {
	d := &Device{drv: drv, properties: drv.properties(), pool: newPool(drv), host: newHostPool(drv), staging: newStager(drv),
		arrived: make([]mark, mostParts), ready: make([]mark, 1+mostPortions), packed: make([]mark, turns),
		portionBytes: defaultPortionBytes}
	var err error
	for _, q := range []*queue{&d.in, &d.work, &d.beside, &d.out} {
		if *q, err = drv.newQueue(); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	for _, list := range [][]mark{d.arrived, d.ready, d.packed} {
		for n := range list {
			if list[n], err = drv.newMark(); err != nil {
				return nil, errors.Join(err, d.Close())
			}
		}
	}
	if d.point, err = drv.newMark(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Close gives everything back: device memory, tapes on the device included, queues, the context. Buffers from [Alloc]
// stay valid Go memory. A second Close does nothing.
func (d *Device) Close() error {
	d.one.Lock()
	defer d.one.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	failed := errors.Join(d.host.close(), d.staging.close(), d.pool.close(), d.trace.close())
	for _, m := range slices.Concat(d.arrived, d.ready, d.packed, []mark{d.point}) {
		if m != nil {
			failed = errors.Join(failed, m.close())
		}
	}
	for _, q := range []queue{d.in, d.work, d.beside, d.out} {
		if q != nil {
			failed = errors.Join(failed, q.close())
		}
	}
	return errors.Join(failed, d.drv.close())
}

// Properties describes the GPU.
func (d *Device) Properties() Properties { return d.properties }

func (d *Device) String() string { return fmt.Sprintf("cuda:%d", d.properties.Ordinal) }

// SetMemoryLimit bounds the device memory held from now on, in bytes ≥ 0; 0 leaves the card as the only bound. It waits
// for a call under way, and gives idle memory back if the bound is lower than what is held.
func (d *Device) SetMemoryLimit(bytes int64) error {
	return d.exclusively(func() error { return d.pool.setLimit(bytes) })
}

// SetHostLimit bounds the Go memory that [Alloc] keeps registered, in bytes; beyond it, it returns ordinary memory.
func (d *Device) SetHostLimit(bytes int64) error {
	return d.exclusively(func() error { return d.host.setLimit(bytes) })
}

// Memory reports what the Device holds, and what is free on the card.
func (d *Device) Memory() (MemoryReport, error) {
	var m MemoryReport
	err := d.exclusively(func() (err error) {
		m = d.pool.report()
		m.Registered = d.host.registered()
		m.Free, err = d.drv.memory()
		return err
	})
	return m, err
}

// ResetPeak makes the memory in use now the largest that [Device.Memory] reports.
func (d *Device) ResetPeak() { d.pool.resetPeak() }

// Alloc returns n elements of unspecified content. On a Device, large buffers are registered with the driver, so that
// engine calls copy to and from them directly; they return to the Device when the last slice into them is gone. On a
// nil or closed Device, and for small buffers, it is make.
func Alloc[T layout.Float](d *Device, n int) []T {
	if d == nil {
		return make([]T, n)
	}
	return alloc[T](d.host, n)
}

// exclusively runs f alone on the device.
func (d *Device) exclusively(f func() error) error {
	d.one.Lock()
	defer d.one.Unlock()
	if d.closed {
		return fmt.Errorf("%v: %w", d, ErrClosed)
	}
	if err := f(); err != nil {
		return fmt.Errorf("%v: %w", d, err)
	}
	return nil
}

// after makes everything queued on second from now on wait for everything queued on first until now.
func (d *Device) after(second, first queue) error {
	if err := first.record(d.point); err != nil {
		return err
	}
	return second.wait(d.point)
}

// upload queues a copy of src on the in queue: directly from registered memory, which must not change until the call
// ends, else through staging.
func upload[T any](d *Device, dst address, src []T) error {
	b := bytesOf(src)
	if len(b) > 0 && d.host.contains(unsafe.Pointer(&b[0]), int64(len(b))) {
		return d.in.upload(dst, unsafe.Pointer(&b[0]), int64(len(b)))
	}
	return d.staging.upload(d.in, dst, b)
}

// download queues a copy into dst on the out queue; dst is complete when that queue is synchronized.
func download[T any](d *Device, dst []T, src address) error {
	b := bytesOf(dst)
	if len(b) > 0 && d.host.contains(unsafe.Pointer(&b[0]), int64(len(b))) {
		return d.out.download(unsafe.Pointer(&b[0]), src, int64(len(b)))
	}
	return d.staging.download(d.out, b, src)
}

// bytesOf returns the memory of s, whose element type has no pointers.
func bytesOf[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}
