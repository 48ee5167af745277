package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

func TestStagingRoundTrip(t *testing.T) {
	const bytesOfRing = defaultSlot * defaultSlots
	for _, n := range []int{0, 1, 4096, defaultSlot - 1, defaultSlot, defaultSlot + 1, smallBytes + 1, bytesOfRing, 3*bytesOfRing + 12345} {
		t.Run(fmt.Sprintf("bytes=%d", n), func(t *testing.T) {
			d, f := openFake(t, 1<<26)
			roundTrip(t, d, f, n)
		})
	}
}

// TestStagingRingOfAnySize sends what is many times the ring, with as many goroutines as slots, more, and none.
func TestStagingRingOfAnySize(t *testing.T) {
	for _, c := range []struct {
		slot, slots, workers, procs int
	}{{1000, 1, 4, 4}, {1000, 2, 2, 4}, {4096, 7, 16, 8}, {4096, 7, 0, 2}, {512, 16, 4, 1}, {defaultSlot, 3, 2, 2}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(c.procs))
			d, f := openFake(t, 1<<26)
			r := d.staging.ring
			r.slot, r.slots, r.workers = c.slot, int64(c.slots), c.workers
			for _, n := range []int{1, c.slot, 3*c.slot + 1, 1 << 20, 1<<20 + 77} {
				roundTrip(t, d, f, n)
			}
		})
	}
}

// roundTrip uploads n bytes of noise in two ways, and downloads them.
func roundTrip(t *testing.T, d *Device, f *fake, n int) {
	t.Helper()
	src := noise(n)
	want := bytes.Clone(src)
	memory := &scope{pool: d.pool}
	defer memory.close()
	a, err := memory.alloc(int64(n))
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct {
		name string
		send func(dst address, src []byte) error
	}{
		{"upload", func(dst address, src []byte) error { return upload(d, dst, src) }},
		{"shipment", func(dst address, src []byte) error { return shipHalves(d, dst, src) }},
	} {
		if n > 0 {
			m, _ := f.device(a, int64(n))
			clear(m)
		}
		if err := way.send(a, src); err != nil {
			t.Fatal(err)
		}
		clear(src) // it has been taken
		dst := make([]byte, n)
		if err := download(d, dst, a); err != nil {
			t.Fatal(err)
		}
		if m, _ := f.device(a, int64(n)); n > 0 && !bytes.Equal(m, want) {
			t.Errorf("%s of %d bytes: what is on the device differs from what was sent", way.name, n)
		}
		if !bytes.Equal(dst, want) {
			t.Errorf("%s of %d bytes: what came back differs from what was sent", way.name, n)
		}
		copy(src, want)
	}
}

// shipHalves ships src in three parts, of which the second is empty and the third opens late.
func shipHalves(d *Device, dst address, src []byte) error {
	h := newShipment(d)
	defer h.end()
	half := len(src) / 2
	h.add(src[:half])
	h.add(nil)
	h.add(src[half:])
	if err := h.start(); err != nil {
		return err
	}
	h.open(0, dst, nil)
	h.open(1, 0, nil)
	err := errors.Join(h.arrived(0), h.arrived(1), d.work.record(d.packed[0]))
	h.open(2, dst+address(half), d.packed[0])
	return errors.Join(err, h.arrived(2))
}

// TestShipmentThatEndsEarly leaves places of the ring that nothing was sent from; later transfers find their own.
func TestShipmentThatEndsEarly(t *testing.T) {
	d, f := openFake(t, 1<<26)
	d.staging.ring.slot, d.staging.ring.slots = 1000, 8
	for n := range 20 {
		h := newShipment(d)
		h.add(noise(2500))
		h.add(noise(100_000))
		if err := h.start(); err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 {
			memory := &scope{pool: d.pool}
			a, err := memory.alloc(2500)
			if err != nil {
				t.Fatal(err)
			}
			h.open(0, a, nil)
			if err := h.arrived(0); err != nil {
				t.Fatal(err)
			}
			memory.close()
		}
		h.end()
		roundTrip(t, d, f, 20_000+n)
	}
}

// TestTransferThatWaits: goroutines whose patience is out rest until the ring has room, or the transfer is over. They used to
// sleep for a millisecond, however soon there was room, and left all the copying to the caller.
func TestTransferThatWaits(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	d, f := openFake(t, 1<<26)
	r := d.staging.ring
	r.slot, r.slots, r.workers = 1000, 4, 3
	memory := &scope{pool: d.pool}
	defer memory.close()
	a, err := memory.alloc(50_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, early := range []bool{true, false} {
		src := noise(50_000)
		h := newShipment(d)
		h.add(src)
		if err := h.start(); err != nil {
			t.Fatal(err)
		}
		for start := time.Now(); r.idle.count.Load() < 3; time.Sleep(time.Millisecond) { // the part is closed
			if time.Since(start) > time.Minute {
				t.Fatalf("%d of 3 goroutines rest", r.idle.count.Load())
			}
		}
		if !early {
			h.open(0, a, nil)
			if err := h.arrived(0); err != nil {
				t.Fatal(err)
			}
			if m, _ := f.device(a, 50_000); !bytes.Equal(m, src) {
				t.Error("what is on the device differs from what was sent")
			}
		}
		h.end()
	}
	f.late = 500 * time.Microsecond // every copy tries everybody's patience
	roundTrip(t, d, f, 50_000)
}

// TestTransferWaitsForOneGoroutine that is kept from running while it has the oldest piece.
func TestTransferWaitsForOneGoroutine(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	d, f := openFake(t, 1<<26)
	memory := &scope{pool: d.pool}
	defer memory.close()
	a, err := memory.alloc(50_000)
	if err != nil {
		t.Fatal(err)
	}
	src := noise(50_000)
	r := d.staging.ring
	r.slot, r.workers = 1000, 1
	r.store = func(dst, piece []byte) {
		if &piece[0] == &src[0] {
			time.Sleep(10 * time.Millisecond)
		}
		copy(dst, piece)
	}
	h := newShipment(d)
	defer h.end()
	h.add(src)
	if err := h.start(); err != nil {
		t.Fatal(err)
	}
	until(func() bool { return h.filled.next.Load() > 0 })
	h.open(0, a, nil)
	if err := h.arrived(0); err != nil {
		t.Fatal(err)
	}
	if m, _ := f.device(a, 50_000); !bytes.Equal(m, src) {
		t.Error("what is on the device differs from what was sent")
	}
}

func noise(n int) []byte {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	x := make([]byte, n)
	for k := range x {
		x[k] = byte(rng.Uint32())
	}
	return x
}

// TestStagingThatFails lets every driver call of an upload and a download fail in turn, with all that follow or alone.
// Nothing hangs, not even who asks for the next part of an upload that has failed, and the next transfers are whole.
func TestStagingThatFails(t *testing.T) {
	for _, c := range []struct {
		procs int
		once  bool
	}{{1, false}, {4, false}, {1, true}, {4, true}} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(c.procs))
		failures := 0
		for calls := 0; ; calls++ {
			d, f := openFake(t, 1<<26)
			d.staging.ring.slot, d.staging.ring.slots = 2048, 4
			memory := &scope{pool: d.pool}
			a, err := memory.alloc(50_000)
			if err != nil {
				t.Fatal(err)
			}
			src, dst := noise(50_000), make([]byte, 50_000)
			f.countdown, f.once = calls, c.once
			err = errors.Join(shipHalves(d, a, src), download(d, dst, a))
			over := f.countdown > 0
			f.countdown = -1
			if err != nil && !errors.Is(err, errFake) {
				t.Fatal(err)
			}
			if err != nil {
				failures++
			}
			d.drain()
			roundTrip(t, d, f, 20_000)
			memory.close()
			if over { // nothing was left to fail
				break
			}
		}
		if failures < 20 {
			t.Errorf("only %d calls failed", failures)
		}
	}
}
