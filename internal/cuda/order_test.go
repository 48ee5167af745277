package cuda

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// These tests look at what the device does after what, from the books of the fake: work that waits for more than it needs
// gives right results, later.

// matching returns the operations whose name begins so, in the order in which they were queued.
func (f *fake) matching(prefix string) (list []operation) {
	for _, o := range f.operations {
		if strings.HasPrefix(o.what, prefix) {
			list = append(list, o)
		}
	}
	return list
}

// TestWorkWaitsForLaterParts: what computed on a part of a shipment used to wait for all parts that were on their way by
// then, and the product of the first documents did not begin before the last had been uploaded.
func TestWorkWaitsForLaterParts(t *testing.T) {
	const parts, bytesOfPart = 5, 64 << 10
	for _, c := range []struct{ registered, inTurns bool }{{true, false}, {true, true}, {false, false}, {false, true}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			d, f := openFake(t, 1<<26)
			d.staging.ring.slot, d.staging.ring.workers = bytesOfPart/4, 0
			src := noise(parts * bytesOfPart)
			if c.registered {
				src = bytesOf(Alloc[float32](d, len(src)/4))
			}
			memory := &scope{pool: d.pool}
			defer memory.close()
			to, err := memory.alloc(int64(len(src)))
			if err != nil {
				t.Fatal(err)
			}
			h := newShipment(d)
			defer h.end()
			for k := range parts {
				h.add(src[k*bytesOfPart:][:bytesOfPart])
			}
			if err := h.start(); err != nil {
				t.Fatal(err)
			}
			for h.fillNext() { // as if goroutines had done it
			}
			for k := range parts {
				if !c.inTurns || k < turns {
					h.open(k, to+address(k*bytesOfPart), nil)
				}
			}
			for k := range parts {
				err := errors.Join(h.arrived(k), launch(d, call{kernel: fmt.Sprint("work ", k), grid: dim3{1, 1, 1}}, new(int)))
				if n := k + turns; c.inTurns && n < parts {
					err = errors.Join(err, d.work.record(d.packed[k%turns]))
					h.open(n, to+address(n*bytesOfPart), d.packed[k%turns])
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			work := f.matching("work")
			for _, u := range f.matching("upload") {
				part := int(u.at-to) / bytesOfPart
				for k, w := range work {
					if w.follows(u) != (part <= k) {
						t.Errorf("work on part %d waits for part %d: %t", k, part, w.follows(u))
					}
					if c.inTurns && part >= turns && u.follows(w) != (k <= part-turns) {
						t.Errorf("part %d waits for the work on part %d, in whose place it goes or not: %t", part, k, u.follows(w))
					}
				}
			}
		})
	}
}

// TestProductWaitsForLaterDocuments is the same of a whole forward pass: every product waits for the queries, and for the
// documents up to its own.
func TestProductWaitsForLaterDocuments(t *testing.T) {
	b := layout.Batch{Q: layout.Dense(2, 8), D: layout.Dense(64, 16), Dim: 64}
	for _, precision := range []Precision{Float32, BF16} {
		for _, registered := range []bool{true, false} {
			t.Run(fmt.Sprintf("precision=%v/registered=%t", precision, registered), func(t *testing.T) {
				dev, f := openFake(t, 1<<26)
				dev.portionBytes = 32 << 10
				dev.staging.ring.slot = 8 << 10
				q, d := make([]float32, 2*8*64), make([]float32, 64*16*64)
				if registered {
					d = Alloc[float32](dev, len(d))
				}
				e := NewEngine[float32](dev, precision)
				if _, err := e.Forward(&b, q, d, make([]float32, 2*64), false); err != nil {
					t.Fatal(err)
				}
				uploads, rest := f.matching("upload"), int64(len(d)*4)
				products := f.matching("maxsim_forward_" + storageOf[float32](precision, b.Dim).product)
				if len(products) != mostPortions {
					t.Fatalf("%d products, expected %d", len(products), mostPortions)
				}
				for n := len(products) - 1; n >= 0; n-- {
					missing := int64(0)
					for _, u := range uploads {
						if !products[n].follows(u) {
							missing += u.bytes
						}
					}
					if want := rest / mostPortions * int64(mostPortions-1-n); missing != want {
						t.Errorf("product %d does not wait for %d bytes, expected the %d of later documents", n, missing, want)
					}
				}
			})
		}
	}
}

// backwardOnly leaves the operations of a backward pass in f, and returns its gradients; registered: dd's memory is, alone:
// dq is not wanted.
func backwardOnly(t *testing.T, b *layout.Batch, dev *Device, f *fake, registered, alone bool) (dq, dd []float32) {
	t.Helper()
	q, d := make([]float32, b.Q.Rows*b.Dim), make([]float32, b.D.Rows*b.Dim)
	scores := make([]float32, b.Q.Len()*b.D.Len())
	if dd = make([]float32, len(d)); registered {
		dd = Alloc[float32](dev, len(d))
	}
	if !alone {
		dq = make([]float32, len(q))
	}
	e := NewEngine[float32](dev, BF16)
	tape, err := e.Forward(b, q, d, scores, true)
	if err != nil {
		t.Fatal(err)
	}
	f.operations = nil
	if err := e.Backward(b, q, d, tape, scores, dq, dd); err != nil {
		t.Fatal(err)
	}
	return dq, dd
}

// TestDownloadWaitsForLaterGradients: a part of dd leaves when it is made.
func TestDownloadWaitsForLaterGradients(t *testing.T) {
	b := layout.Batch{Q: layout.Dense(2, 8), D: layout.Dense(64, 16), Dim: 64}
	for _, registered := range []bool{true, false} {
		t.Run(fmt.Sprintf("registered=%t", registered), func(t *testing.T) {
			dev, f := openFake(t, 1<<26)
			dev.portionBytes = 32 << 10
			dev.staging.ring.slot = 8 << 10
			dq, dd := backwardOnly(t, &b, dev, f, registered, false)
			gradients := append(f.matching("maxsim_grad_q"), f.matching("maxsim_grad_d")...)
			if len(gradients) != 1+mostPortions {
				t.Fatalf("%d results, expected %d", len(gradients), 1+mostPortions)
			}
			downloads, whole := f.matching("download"), int64(0)
			for _, o := range downloads {
				made := 0 // results that must be there: dq, then portion after portion
				if at := whole - int64(len(dq)*4); at >= 0 {
					made = 1 + int(at/(32<<10))
				}
				whole += o.bytes
				for n, g := range gradients {
					if o.follows(g) != (n <= made) {
						t.Errorf("the download of result %d waits for result %d: %t", made, n, o.follows(g))
					}
				}
			}
			if whole != int64(len(dq)+len(dd))*4 {
				t.Errorf("%d bytes were downloaded", whole)
			}
		})
	}
}

// TestGradientOverwrittenBeforeItHasLeft: portions of dd take turns in memory for two. What writes a portion waits for the
// copies of the one before the last, which are of the same memory, and for no other: one portion is computed while another
// leaves.
func TestGradientOverwrittenBeforeItHasLeft(t *testing.T) {
	const dim, portion = 64, 32 << 10
	b := layout.Batch{Q: layout.Dense(2, 8), D: layout.Dense(64, 16), Dim: dim}
	for _, c := range []struct{ registered, masked, alone bool }{
		{false, false, false}, {true, false, false}, {false, true, false}, {true, true, false}, {true, true, true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			b := b
			if c.masked {
				b.D = b.D.Masked(func(row int) bool { return row%3 != 1 })
			}
			dev, f := openFake(t, 1<<26)
			dev.portionBytes = portion
			dev.staging.ring.slot = 8 << 10
			dq, _ := backwardOnly(t, &b, dev, f, c.registered, c.alone)
			leave := make([][]operation, mostPortions) // copies of every portion
			whole := -len(dq) * 4
			for _, o := range f.matching("download") {
				if whole >= 0 {
					n := whole / portion
					leave[n] = append(leave[n], o)
				}
				whole += int(o.bytes)
			}
			writes := f.matching("maxsim_grad_d")
			writers := 1
			if c.masked {
				writes, writers = append(writes, f.matching("fill")...), 2
			}
			if len(writes) != writers*mostPortions {
				t.Fatalf("%d operations that write dd, expected %d", len(writes), writers*mostPortions)
			}
			for k, w := range writes {
				n := k % mostPortions // kernels, then fills
				for m, copies := range leave {
					there, here := leave[m][0].at, leave[n][0].at
					if shared := there < here+portion && here < there+portion; shared != (m%turns == n%turns) {
						t.Errorf("portions %d and %d share memory: %t", m, n, shared)
					}
					for _, o := range copies {
						if w.follows(o) != (m <= n-turns) {
							t.Errorf("%s of portion %d waits for the copy of portion %d: %t", w.what, n, m, w.follows(o))
						}
					}
				}
				if at := leave[n][0].at; w.what == "fill" && (w.at != at || w.bytes != portion || !writes[n].follows(w)) {
					t.Errorf("portion %d is cleared at %#x, %d bytes, before its kernel: %t; expected %#x, %d",
						n, w.at, w.bytes, writes[n].follows(w), at, portion)
				}
			}
		})
	}
}
