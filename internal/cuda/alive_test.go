package cuda

import (
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// These tests look at memory that somebody gives back too early: a user, or the garbage collector.

// TestArgmaxOfReleasedDocuments: the argmax is counted with the layout of the documents, which lies in their memory.
func TestArgmaxOfReleasedDocuments(t *testing.T) {
	b, q, d, scores, _, _ := small()
	dev, _ := openFake(t, 1<<26)
	e := NewEngine[float32](dev, BF16)
	r, err := e.Keep(&b.D, b.Dim, d)
	if err != nil {
		t.Fatal(err)
	}
	with, err := e.With(r)
	if err != nil {
		t.Fatal(err)
	}
	tape, err := with.Forward(&b, q, nil, scores, true)
	if err != nil {
		t.Fatal(err)
	}
	r.Release()
	if _, err := tape.Argmax(); !errors.Is(err, errResidentGone) {
		t.Errorf("got %v", err)
	}
}

// TestReleaseBesideTheCollector: documents whose last use is their Release are unreachable while it goes on.
func TestReleaseBesideTheCollector(t *testing.T) {
	dev, _ := openFake(t, 1<<26)
	seqs := layout.Dense(3, 5)
	r, err := NewEngine[float32](dev, BF16).Keep(&seqs, 32, make([]float32, 15*32))
	if err != nil {
		t.Fatal(err)
	}
	dev.pool.mu.Lock() // Release waits here
	released := make(chan struct{})
	go func(r *Resident) { r.Release(); close(released) }(r)
	r = nil
	time.Sleep(10 * time.Millisecond)
	reclaim(func() bool { return false })
	dev.pool.mu.Unlock()
	<-released
	reclaim(func() bool { return false })
	for bytes, list := range dev.pool.idle {
		slices.Sort(list)
		if len(slices.Compact(slices.Clone(list))) != len(list) {
			t.Errorf("a block of %d bytes was given back twice", bytes)
		}
	}
	if left := used(t, dev); left != 0 {
		t.Errorf("%d bytes in use", left)
	}
}

// TestDroppedInputsAreNotHandedOut while the card may still be copying them.
func TestDroppedInputsAreNotHandedOut(t *testing.T) {
	const dim, rows = 64, 512
	b := layout.Batch{Q: layout.Dense(1, 4), D: layout.Dense(rows/8, 8), Dim: dim}
	dev, _ := openFake(t, 1<<26)
	var lent uintptr
	dev.out = &hookedQueue{dev.out, func() {
		reclaim(func() bool { return false })
		if again := Alloc[float32](dev, rows*dim); uintptr(unsafe.Pointer(&again[0])) == lent {
			t.Error("another owner has the documents of a call under way")
		}
	}}
	lend := func() []float32 {
		x := Alloc[float32](dev, rows*dim)
		lent = uintptr(unsafe.Pointer(&x[0]))
		return x
	}
	scores := make([]float32, rows/8)
	if _, err := NewEngine[float32](dev, Float32).Forward(&b, make([]float32, 4*dim), lend(), scores, false); err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(scores)
}

// hookedQueue calls before with every download.
type hookedQueue struct {
	queue
	before func()
}

func (q *hookedQueue) download(dst unsafe.Pointer, src address, bytes int64) error {
	q.before()
	return q.queue.download(dst, src, bytes)
}
