//go:build maxsim_cuda && cgo && linux

package cuda

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// What BenchmarkStaging tries, every value of one with every value of the others.
var (
	tryWorkers  = flag.String("staging.workers", "4,8,12,15", "goroutines that fill the ring")
	trySlots    = flag.String("staging.slot", "128", "KiB of a slot")
	tryStores   = flag.String("staging.stores", "uncached", "how slots are filled: uncached or cached, as Go copies")
	tryRings    = flag.String("staging.ring", "8", "MiB of the ring")
	tryPortions = flag.String("staging.portion", "8", "MiB of documents that are worth a copy and a computation of their own")
)

// ringTried is a point of the sweep.
type ringTried struct {
	workers, slot, ring int
	stores              string
}

func (c ringTried) String() string {
	return fmt.Sprintf("workers=%d/slot=%dKiB/ring=%dMiB/stores=%s", c.workers, c.slot>>10, c.ring>>20, c.stores)
}

func ringsTried(b *testing.B) (list []ringTried) {
	for _, ring := range listOf(b, *tryRings) {
		for _, slot := range listOf(b, *trySlots) {
			for _, workers := range listOf(b, *tryWorkers) {
				for _, stores := range strings.Split(*tryStores, ",") {
					list = append(list, ringTried{workers, slot << 10, ring << 20, stores})
				}
			}
		}
	}
	return list
}

func listOf(b *testing.B, s string) (list []int) {
	for _, field := range strings.Split(s, ",") {
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, n)
	}
	return list
}

// use makes the device's next transfers go through such a ring.
func (c ringTried) use(b *testing.B, d *Device) {
	setRing(b, d, c.slot, c.ring/c.slot)
	r := d.staging.ring
	r.workers = c.workers
	switch c.stores {
	case "uncached":
		r.store = d.drv.copyUncached
	case "cached":
		r.store = func(dst, src []byte) { copy(dst, src) }
	default:
		b.Fatalf("-staging.stores %q", c.stores)
	}
	if err := d.exclusively(r.prepare); err != nil { // which takes far longer than a transfer
		b.Fatal(err)
	}
}

// BenchmarkStaging takes a step of T1t with inputs in ordinary memory apart:
//
//	bus     copies of one size from registered memory, one behind the other
//	ring    processors fill the ring with documents; no driver
//	upload  both: documents from ordinary memory to the device
//	step    the whole step in BF16; {forward,dq,dd}-wall-ms: its three calls
//
// Documents are T1t's, which caches can hold, and F2a's, which none does. ns/op is the median of the iterations, max-ms the
// slowest; faults: pages that the kernel was asked for, in an operation.
func BenchmarkStaging(b *testing.B) {
	d := openFirst(b)
	for _, s := range shapes {
		if s.name != "T1t" && s.name != "F2a" {
			continue
		}
		docs := make([]float32, s.bd*s.td*benchDim)
		for k := range docs {
			docs[k] = 1
		}
		if s.name == "T1t" {
			b.Run("bus", func(b *testing.B) { measureBus(b, d, len(docs)*4) })
		}
		for _, c := range ringsTried(b) {
			b.Run(fmt.Sprintf("ring/docs=%s/%v", s.name, c), func(b *testing.B) { c.use(b, d); measureRing(b, d, bytesOf(docs)) })
		}
		for _, c := range ringsTried(b) {
			b.Run(fmt.Sprintf("upload/docs=%s/%v", s.name, c), func(b *testing.B) { c.use(b, d); measureUpload(b, d, bytesOf(docs)) })
		}
	}
	defer func(bytes int64) { d.portionBytes = bytes }(d.portionBytes)
	for _, portion := range listOf(b, *tryPortions) {
		d.portionBytes = int64(portion) << 20
		w := shapes[0].workload(d, true, true)
		b.Run(fmt.Sprintf("step/memory=registered/portion=%dMiB", portion), func(b *testing.B) { w.measureWalls(b, d) })
		w = shapes[0].workload(d, false, true)
		for _, c := range ringsTried(b) {
			b.Run(fmt.Sprintf("step/memory=pageable/portion=%dMiB/%v", portion, c), func(b *testing.B) { c.use(b, d); w.measureWalls(b, d) })
		}
	}
}

func measureBus(b *testing.B, d *Device, bytes int) {
	memory := &scope{pool: d.pool}
	defer memory.close()
	to, err := memory.alloc(int64(bytes))
	if err != nil {
		b.Fatal(err)
	}
	from := bytesOf(Alloc[float32](d, bytes/4))
	for size := 128 << 10; size <= 4<<20; size *= 2 {
		b.Run(fmt.Sprintf("copy=%dKiB", size>>10), func(b *testing.B) {
			timed(b, bytes, func() error {
				return d.exclusively(func() error {
					for lo := 0; lo < bytes; lo += size {
						if err := d.in.upload(to+address(lo), unsafe.Pointer(&from[lo]), int64(min(size, bytes-lo))); err != nil {
							return err
						}
					}
					return d.in.sync()
				})
			})
		})
	}
}

// measureRing times a shipment whose copies by the card take no time.
func measureRing(b *testing.B, d *Device, src []byte) {
	measureShipment(b, d, src, func(h *shipment) error {
		for h.sent < len(h.pieces) {
			if h.filled.done[h.sent].Load() {
				h.sent++
				d.staging.ring.giveBack(h.first + int64(h.sent))
			} else if !h.fillNext() {
				runtime.Gosched()
			}
		}
		return nil
	})
}

func measureUpload(b *testing.B, d *Device, src []byte) {
	memory := &scope{pool: d.pool}
	defer memory.close()
	to, err := memory.alloc(int64(len(src)))
	if err != nil {
		b.Fatal(err)
	}
	measureShipment(b, d, src, func(h *shipment) error {
		h.open(0, to, nil)
		if err := h.arrived(0); err != nil {
			return err
		}
		return d.in.sync()
	})
}

// measureShipment times a shipment of src that receive brings to its end.
func measureShipment(b *testing.B, d *Device, src []byte, receive func(*shipment) error) {
	timed(b, len(src), func() error {
		return d.exclusively(func() error {
			h := newShipment(d)
			defer h.end()
			h.add(src)
			if err := h.start(); err != nil {
				return err
			}
			return receive(h)
		})
	})
}

// timed reports the median of what f takes to copy bytes.
func timed(b *testing.B, bytes int, f func() error) {
	whole := timedLoop(b, f)
	b.ReportMetric(float64(bytes)/median(whole)/1e6, "GB/s")
}

// timedLoop reports the median and the slowest of f's calls and their page faults, and returns their milliseconds.
func timedLoop(b *testing.B, f func() error) (ms []float64) {
	if err := f(); err != nil { // memory is touched for the first time
		b.Fatal(err)
	}
	faults := pageFaults(b)
	for b.Loop() {
		start := time.Now()
		if err := f(); err != nil {
			b.Fatal(err)
		}
		ms = append(ms, time.Since(start).Seconds()*1e3)
	}
	b.ReportMetric(median(ms)*1e6, "ns/op")
	b.ReportMetric(slices.Max(ms), "max-ms")
	b.ReportMetric(float64(pageFaults(b)-faults)/float64(len(ms)), "faults/op")
	return ms
}

// measureWalls times whole steps and the three calls that each consists of.
func (w *workload) measureWalls(b *testing.B, d *Device) {
	e := NewEngine[float32](d, BF16)
	for range 3 {
		if err := w.step(d, e); err != nil {
			b.Fatal(err)
		}
	}
	var walls [3][]float64
	timedLoop(b, func() error {
		err := w.step(d, e)
		for n := range walls {
			walls[n] = append(walls[n], w.walls[n].Seconds()*1e3)
		}
		return err
	})
	for n, call := range []string{"forward", "dq", "dd"} {
		b.ReportMetric(median(walls[n]), call+"-wall-ms")
	}
}

func pageFaults(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Minflt
}
