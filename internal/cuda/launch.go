package cuda

import (
	"fmt"
	"strings"
	"unsafe"
)

// call is one launch of a kernel without its parameters.
type call struct {
	kernel      string
	grid, block dim3
	shared      uint32 // dynamic shared memory of a block, in bytes
	late        bool   // its blocks must not take places while the launch before them in the queue is under way
}

func (c call) String() string {
	return fmt.Sprintf("kernel %s, grid (%d,%d,%d), block (%d,%d,%d)", c.kernel,
		c.grid.x, c.grid.y, c.grid.z, c.block.x, c.block.y, c.block.z)
}

// launch queues c with parameters p behind everything in the work queue. A grid without blocks has nothing to do.
func launch[P any](d *Device, c call, p *P) error { return launchIn(d, d.work, c, p) }

// launchIn is launch for another queue.
func launchIn[P any](d *Device, q queue, c call, p *P) error {
	if c.grid.x == 0 || c.grid.y == 0 || c.grid.z == 0 {
		return nil
	}
	err := d.trace.around(d, q, c.kernel, func() error {
		return q.launch(c, unsafe.Pointer(p))
	})
	if err != nil {
		return fmt.Errorf("%v: %w", c, err)
	}
	d.launched = append(d.launched, c)
	return nil
}

// finish waits until everything queued by this call is done. A kernel that fails on the device is noticed only here,
// so the error names all that were under way.
func (d *Device) finish() error {
	err := d.out.sync()
	if err == nil {
		err = d.work.sync()
	}
	under := d.launched
	d.launched = d.launched[:0]
	if err == nil {
		return d.trace.collect()
	}
	if len(under) == 0 {
		return err
	}
	names := make([]string, len(under))
	for k, c := range under {
		names[k] = c.String()
	}
	return fmt.Errorf("%w, in one of: %s", err, strings.Join(names, "; "))
}

// drain waits until nothing is queued any more, whatever comes of it: it is called when an error is known already and
// memory is about to be given back.
func (d *Device) drain() {
	for _, q := range []queue{d.in, d.beside, d.work, d.out} {
		_ = q.sync()
	}
	d.launched = d.launched[:0]
	if d.trace != nil { // what it has seen of the call is of no use
		d.trace.discard()
	}
}
