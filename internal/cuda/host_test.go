package cuda

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
	"unsafe"
)

// eventually waits for a finalizer's or cleanup's effect, for as long as a busy machine may keep it waiting.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		runtime.GC()
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("never saw %s", what)
}

func TestHostBufferComesBackWhenItsLastViewIsGone(t *testing.T) {
	d, f := openFake(t, 1<<20)
	const n = 100_000
	buffer := Alloc[float32](d, n)
	first := uintptr(unsafe.Pointer(&buffer[0])) // a number, which keeps nothing alive
	view := buffer[n-1:]
	view[0] = 42
	buffer = nil
	for range 3 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if again := Alloc[float32](d, n); uintptr(unsafe.Pointer(&again[0])) == first {
		t.Fatal("buffer was handed out while a view into it was alive")
	}
	if view[0] != 42 {
		t.Error("view lost its value")
	}
	eventually(t, "both buffers idle", func() bool {
		d.host.mu.Lock()
		defer d.host.mu.Unlock()
		idle := 0
		for _, list := range d.host.idle {
			idle += len(list)
		}
		return idle == 2
	})
	if len(f.registered) != 2 {
		t.Errorf("%d registrations, expected that both stay registered", len(f.registered))
	}
	a, b := Alloc[float32](d, n), Alloc[float32](d, n)
	if p, q := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0])); p != first && q != first {
		t.Error("the first buffer was not used again")
	}
}

func TestHostPoolKnowsItsMemory(t *testing.T) {
	d, _ := openFake(t, 1<<20)
	a, b := Alloc[float64](d, 20_000), Alloc[float64](d, 30_000)
	foreign := make([]float64, 20_000)
	for _, c := range []struct {
		name string
		of   []float64
		want bool
	}{
		{"whole", a, true}, {"start", b[:1], true}, {"end", b[29_999:], true}, {"foreign", foreign, false},
		{"small", Alloc[float64](d, 100), false},
	} {
		if got := d.host.contains(unsafe.Pointer(&c.of[0]), int64(len(c.of))*8); got != c.want {
			t.Errorf("%s: registered %t, want %t", c.name, got, c.want)
		}
	}
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
}

func TestHostLimitBoundsRegistrationWithoutGC(t *testing.T) {
	d, f := openFake(t, 1<<20)
	if err := d.SetHostLimit(1 << 20); err != nil {
		t.Fatal(err)
	}
	for range 200 { // 200 steps of 256 KiB that nobody keeps
		s := Alloc[float32](d, 1<<16)
		s[0] = 1
	}
	if held := d.host.registered(); held > 1<<20 {
		t.Errorf("%d bytes registered, limit %d", held, 1<<20)
	}
	if len(f.registered) == 0 {
		t.Error("nothing is registered")
	}
	if big := Alloc[float32](d, 1<<20); len(big) != 1<<20 {
		t.Errorf("a buffer beyond the limit has %d elements", len(big))
	}
}

func TestHostBufferOutlivesItsDevice(t *testing.T) {
	d, f := openFake(t, 1<<20)
	buffer := Alloc[float32](d, 1<<16)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if len(f.registered) != 0 {
		t.Errorf("%d registrations after Close", len(f.registered))
	}
	buffer[1<<16-1] = 7
	if after := Alloc[float32](d, 1<<16); len(after) != 1<<16 {
		t.Error("no memory from a closed device")
	}
}

// TestHostPoolAsksForCollections takes far more than the pool should grow to, with the collector off.
func TestHostPoolAsksForCollections(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	d, _ := openFake(t, 1<<20)
	collecting := func() bool {
		d.host.mu.Lock()
		defer d.host.mu.Unlock()
		return d.host.next == 0
	}
	const steps, bytes = 400, 8 << 20
	for range steps {
		Alloc[float32](d, bytes/4)[0] = 1
		for collecting() {
			time.Sleep(time.Millisecond) // a step's work, which takes longer than a collection
		}
	}
	if held := d.host.registered(); held > steps*bytes/2 {
		t.Errorf("%d MiB registered for %d MiB that nobody kept", held>>20, steps*bytes>>20)
	}
}
