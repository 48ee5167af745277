//go:build linux

package tile

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// guarded is memory between two pages that fault: whoever reads or writes one byte beyond either end, crashes.
type guarded[E any] struct{ all []E }

// newGuarded returns memory for at least n elements.
func newGuarded[E any](t *testing.T, n int) guarded[E] {
	t.Helper()
	var e E
	page := syscall.Getpagesize()
	size := (max(n, 1)*int(unsafe.Sizeof(e)) + page - 1) / page * page
	mem, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	for _, guard := range [][]byte{mem[:page], mem[page+size:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return guarded[E]{unsafe.Slice((*E)(unsafe.Pointer(&mem[page])), size/int(unsafe.Sizeof(e)))}
}

// hold copies s to the end of the memory, or to its start.
func (g guarded[E]) hold(s []E, end bool) []E {
	at := 0
	if end {
		at = len(g.all) - len(s)
	}
	held := g.all[at : at+len(s)]
	copy(held, s)
	return held
}

func TestMaxStaysInside(t *testing.T) {
	forEachPath(t, testMaxStaysInside[float32], testMaxStaysInside[float64])
}

func testMaxStaysInside[T layout.Float](t *testing.T, k *Kernels[T]) {
	r := rand.New(rand.NewPCG(11, 12))
	const most = 37 * 333
	gq, gd, gm, gi := newGuarded[T](t, most), newGuarded[T](t, most), newGuarded[T](t, 64), newGuarded[int32](t, 64)
	shapes(k, func(lanes, n, dim int) {
		qp, doc := normal[T](r, lanes*dim), normal[T](r, n*dim)
		for _, end := range []bool{false, true} {
			mx, ix := gm.hold(make([]T, lanes), end), gi.hold(make([]int32, lanes), end)
			k.Max(gq.hold(qp, end), gd.hold(doc, end), n, dim, mx, ix, 0)
		}
	})
}

func TestGatherStaysInside(t *testing.T) {
	forEachPath(t, testGatherStaysInside[float32], testGatherStaysInside[float64])
}

func testGatherStaysInside[T layout.Float](t *testing.T, k *Kernels[T]) {
	r := rand.New(rand.NewPCG(13, 14))
	const rows, longest = 6, 300
	gb, gd, gw, gr := newGuarded[T](t, rows*longest), newGuarded[T](t, longest), newGuarded[T](t, rows), newGuarded[int32](t, rows)
	for dim := range longest {
		base := normal[T](r, rows*dim)
		for _, list := range [][]int32{nil, {rows - 1}, {0}, {rows - 1, 0, 1, 2, 3, rows - 1}} {
			for _, end := range []bool{false, true} {
				w := gw.hold(normal[T](r, len(list)), end)
				k.Gather(gd.hold(make([]T, dim), end), gb.hold(base, end), gr.hold(list, end), w)
			}
		}
	}
}

func TestPackStaysInside(t *testing.T) {
	forEachPath(t, testPackStaysInside[float32], testPackStaysInside[float64])
}

func testPackStaysInside[T layout.Float](t *testing.T, k *Kernels[T]) {
	r := rand.New(rand.NewPCG(17, 18))
	const most, longest = 18, 40
	gp, gq, gr := newGuarded[T](t, most*longest), newGuarded[T](t, most*longest), newGuarded[int32](t, most)
	for dim := range longest {
		for n := range most {
			rows := make([]int32, n)
			for l := range rows {
				rows[l] = int32(n - 1 - l)
			}
			for _, end := range []bool{false, true} {
				k.Pack(gp.hold(make([]T, n*dim), end), n, gq.hold(normal[T](r, n*dim), end), gr.hold(rows, end), dim)
			}
		}
	}
}
