package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Resident is the document side of a batch, kept on the device from call to call: uploaded and packed once. It is for
// documents that do not change, a frozen collection or the frozen tower of a pair, and it is the caller who says so:
// nothing looks whether the memory it came from has changed.
type Resident struct {
	side
	device  *Device
	storage storage
	dim     int
	flagged bool // a row needs the repair of the split product
	memory  *scope
	gone    bool // guarded by the device's one
}

// Keep brings the documents d [s.Rows, dim] to the device. Release gives the memory back; so does the garbage
// collector, some time after the last reference is gone.
func (e *Engine[T]) Keep(s *layout.Seqs, dim int, d []T) (*Resident, error) {
	if len(d) != s.Rows*dim {
		return nil, fmt.Errorf("d has %d elements, expected %d", len(d), s.Rows*dim)
	}
	compacted, err := compact(s, 1)
	if err != nil {
		return nil, fmt.Errorf("documents: %w", err)
	}
	r := &Resident{device: e.device, storage: storageOf[T](e.precision, dim), dim: dim}
	err = e.device.exclusively(func() error { return keep(r, compacted, d) })
	keepAlive(d)
	if err != nil {
		return nil, err
	}
	runtime.AddCleanup(r, (*scope).close, r.memory)
	return r, nil
}

func keep[T layout.Float](r *Resident, compacted *rows, d []T) (err error) {
	dev := r.device
	r.memory = &scope{pool: dev.pool}
	call := r.memory
	if r.storage.ofPacked { // nobody reads the user's rows again
		call = &scope{pool: dev.pool}
	}
	defer func() {
		if err != nil {
			dev.drain()
			r.memory.close()
		}
		if call != r.memory {
			call.close()
		}
	}()
	l := &loader[T]{device: dev, storage: r.storage, dim: int64(r.dim), keep: r.memory, call: call}
	r.side.rows = compacted
	if compacted.total == 0 {
		return nil
	}
	if err := l.newFlag(); err != nil {
		return err
	}
	if r.side, err = l.arrange(compacted); err != nil {
		return err
	}
	if err := l.place(&r.side, d, true); err != nil {
		return err
	}
	var flagged [1]uint32
	if l.flagged != 0 {
		if err := dev.after(dev.out, dev.work); err != nil {
			return err
		}
		if err := download(dev, flagged[:], l.flagged); err != nil {
			return err
		}
	}
	if err := dev.finish(); err != nil {
		return err
	}
	r.flagged = l.flagged != 0 && flagged[0] == uint32(l.stamp)
	if r.storage.ofPacked {
		r.side.raw = 0
	}
	return nil
}

// Release gives the device memory back now. Calls that need the documents afterwards return an error.
func (r *Resident) Release() {
	r.device.one.Lock()
	defer r.device.one.Unlock()
	r.gone = true
	r.memory.close()
	runtime.KeepAlive(r) // its cleanup gives the same memory back
}

var errResidentGone = errors.New("resident documents were released")

// With returns an engine whose documents are r: it uploads none, and ignores the document rows of its calls, which may
// be nil. The batches it is given must have the sequences and masks that r was made with.
func (e *Engine[T]) With(r *Resident) (*Engine[T], error) {
	if r.device != e.device {
		return nil, errors.New("documents are resident on another device")
	}
	return &Engine[T]{device: e.device, precision: e.precision, documents: r}, nil
}

// there reports whether r has not been released. There may be no r: then every call brings documents of its own.
func (r *Resident) there() error {
	if r != nil && r.gone {
		return errResidentGone
	}
	return nil
}

// fits reports whether r, if there is one, stands for the documents of p in the form that product reads.
func (r *Resident) fits(p *problem, product string) error {
	if err := r.there(); r == nil || err != nil {
		return err
	}
	if r.dim != p.b.Dim || r.storage.product != product {
		return fmt.Errorf("resident documents have dim %d, %s products; the batch has dim %d, %s products",
			r.dim, r.storage.product, p.b.Dim, product)
	}
	if !slices.Equal(r.rows.cu, p.d.cu) || !slices.Equal(r.rows.from, p.d.from) {
		return fmt.Errorf("resident documents have %d sequences, %d valid tokens; the batch has %d, %d, or its masks differ",
			len(r.rows.cu)-1, r.rows.valid, p.bd, p.d.valid)
	}
	return nil
}
