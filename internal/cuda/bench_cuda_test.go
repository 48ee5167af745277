//go:build maxsim_cuda && cgo && linux

package cuda

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// The benchmarks measure engine calls from host memory to host memory, as ops make them, and take them apart:
//
//	ns/op         median of the call's wall time
//	kernels-ms    the call's kernels on the device, median of calls that begin with a cold L2 cache
//	copies-ms     the bytes of the call's inputs and results, copied one after the other from and to registered memory
//	x-floor       ns/op over kernels-ms + copies-ms
//	device-MiB    peak of the device memory in use, inputs and results included
//
// memory=registered: inputs and results in memory from Alloc. memory=pageable: inputs in ordinary Go memory, results in
// memory from Alloc, as the ops of this module have them.

// shape is a workload of the tables in the documentation.
type shape struct {
	name         string
	bq, tq       int
	bd, td       int
	group        int
	forwardAlone bool
	heavy        bool // gigabytes of host memory
}

var shapes = []shape{
	{name: "T1t", bq: 128, tq: 32, bd: 128, td: 300},
	{name: "T1v", bq: 64, tq: 1024, bd: 64, td: 1024},
	{name: "T1L", bq: 512, tq: 32, bd: 512, td: 300},
	{name: "T2", bq: 64, tq: 32, bd: 1024, td: 300, group: 16},
	{name: "F2a", bq: 1, tq: 32, bd: 1000, td: 300, forwardAlone: true},
	{name: "F2c", bq: 1, tq: 128, bd: 1000, td: 1024, forwardAlone: true, heavy: true},
	{name: "F2d", bq: 1, tq: 1024, bd: 1000, td: 1024, forwardAlone: true, heavy: true},
	{name: "F2b", bq: 1, tq: 32, bd: 10000, td: 300, forwardAlone: true, heavy: true},
}

const benchDim = 128

func (s shape) String() string {
	docs := fmt.Sprint(s.bd)
	if s.group > 0 {
		docs = fmt.Sprintf("%dx%d", s.bq, s.group)
	}
	return fmt.Sprintf("shape=%s/Bq=%d/Tq=%d/Bd=%s/Td=%d/dim=%d", s.name, s.bq, s.tq, docs, s.td, benchDim)
}

// workload is a shape with memory.
type workload struct {
	b                        layout.Batch
	q, d, scores, ds, dq, dd []float32
	backward                 bool
	walls                    [3]time.Duration // of the last step's calls: forward, dq, dd
}

func (s shape) workload(d *Device, registered, backward bool) *workload {
	input := func(n int) []float32 {
		var x []float32
		if registered {
			x = Alloc[float32](d, n)
		} else {
			x = make([]float32, n)
		}
		state := uint32(n) | 1
		for k := range x { // cheap, and no zeros
			state = state*1664525 + 1013904223
			x[k] = float32(int32(state)) * 0x1p-34 // |x| < 1/8, about a unit row
		}
		return x
	}
	w := &workload{b: layout.Batch{Q: layout.Dense(s.bq, s.tq), D: layout.Dense(s.bd, s.td), Dim: benchDim, Group: s.group}, backward: backward}
	w.q, w.d = input(s.bq*s.tq*benchDim), input(s.bd*s.td*benchDim)
	w.scores = Alloc[float32](d, s.bq*w.b.Cols())
	if backward {
		w.ds = input(len(w.scores))
	}
	return w
}

// step is one engine call or a whole training step, with fresh results as the ops take them.
func (w *workload) step(d *Device, e *Engine[float32]) error {
	start := time.Now()
	lap := func(n int) {
		now := time.Now()
		w.walls[n] = now.Sub(start)
		start = now
	}
	tape, err := e.Forward(&w.b, w.q, w.d, w.scores, w.backward)
	lap(0)
	if err != nil || !w.backward {
		return err
	}
	tape.(*Tape).Expect(2)
	w.dq, w.dd = nil, nil
	dq := Alloc[float32](d, len(w.q))
	err = e.Backward(&w.b, w.q, w.d, tape, w.ds, dq, nil)
	lap(1)
	if err != nil {
		return err
	}
	dd := Alloc[float32](d, len(w.d))
	err = e.Backward(&w.b, w.q, w.d, tape, w.ds, nil, dd)
	lap(2)
	w.dq, w.dd = dq, dd
	return err
}

func BenchmarkForward(b *testing.B) { benchmark(b, false) }
func BenchmarkFull(b *testing.B)    { benchmark(b, true) }

func benchmark(b *testing.B, backward bool) {
	d := openFirst(b)
	provider := "provider=cuda-" + strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(d.Properties().Name, "NVIDIA ")), " ", "-")
	if err := d.SetHostLimit(16 << 30); err != nil {
		b.Fatal(err)
	}
	for _, s := range shapes {
		if s.heavy && testing.Short() || s.forwardAlone && backward {
			continue
		}
		for _, registered := range []bool{true, false} {
			memory := "pageable"
			if registered {
				memory = "registered"
			}
			w := s.workload(d, registered, backward)
			for _, precision := range []Precision{Float32, TF32, BF16, FP16} {
				b.Run(fmt.Sprintf("%s/%v/precision=%v/memory=%s", provider, s, precision, memory), func(b *testing.B) {
					w.measure(b, d, NewEngine[float32](d, precision))
				})
			}
		}
	}
}

func (w *workload) measure(b *testing.B, d *Device, e *Engine[float32]) {
	for range 3 {
		if err := w.step(d, e); err != nil {
			b.Fatal(err)
		}
	}
	kernels := w.kernels(b, d, e)
	copies := w.copies(b, d)
	d.ResetPeak()
	var wall []float64
	for b.Loop() {
		start := time.Now()
		if err := w.step(d, e); err != nil {
			b.Fatal(err)
		}
		wall = append(wall, time.Since(start).Seconds())
	}
	ms := median(wall) * 1e3
	b.ReportMetric(ms*1e6, "ns/op")
	total := 0.0
	for _, k := range kernels {
		total += k.ms
		b.ReportMetric(k.ms, k.part+"-ms")
	}
	b.ReportMetric(total, "kernels-ms")
	b.ReportMetric(copies, "copies-ms")
	b.ReportMetric(ms/(total+copies), "x-floor")
	b.ReportMetric(float64(d.pool.report().Peak)/(1<<20), "device-MiB")
}

type share struct {
	part string
	ms   float64
}

// kernels returns the median time of every part of a step on the device, with a cold L2 cache at its start.
func (w *workload) kernels(b *testing.B, d *Device, e *Engine[float32]) []share {
	const calls, l2 = 9, 256 << 20
	scratch := &scope{pool: d.pool}
	defer scratch.close()
	flush, err := scratch.alloc(l2)
	if err != nil {
		b.Fatal(err)
	}
	times := map[string][]float64{}
	var order []string
	for range calls {
		if err := d.exclusively(func() error { return d.work.fill(flush, 1, l2) }); err != nil {
			b.Fatal(err)
		}
		if err := d.Trace(true); err != nil {
			b.Fatal(err)
		}
		if err := w.step(d, e); err != nil {
			b.Fatal(err)
		}
		sum := map[string]float64{}
		for _, k := range d.Traced() {
			name := partOf(k.Kernel)
			if !slices.Contains(order, name) {
				order = append(order, name)
			}
			sum[name] += k.Seconds * 1e3
		}
		for name, ms := range sum {
			times[name] = append(times[name], ms)
		}
	}
	if err := d.Trace(false); err != nil {
		b.Fatal(err)
	}
	var parts []share
	for _, name := range order {
		parts = append(parts, share{name, median(times[name])})
	}
	return parts
}

// partOf returns the part of a step that a kernel belongs to.
func partOf(kernel string) string {
	for _, p := range []string{"pack", "forward", "scores", "csr", "grad_d", "grad_q"} {
		if strings.HasPrefix(kernel, "maxsim_"+p) {
			return p
		}
	}
	return "other"
}

// copies returns the milliseconds that a step's inputs and results take between registered memory and the device.
func (w *workload) copies(b *testing.B, d *Device) float64 {
	in := []int{len(w.q), len(w.d)}
	out := []int{len(w.scores)}
	if w.backward {
		in = append(in, len(w.ds), len(w.ds))
		out = append(out, len(w.q), len(w.d))
	}
	host := Alloc[float32](d, slices.Max(append(in, out...)))
	memory := &scope{pool: d.pool}
	defer memory.close()
	device, err := memory.alloc(int64(len(host)) * 4)
	if err != nil {
		b.Fatal(err)
	}
	var times []float64
	for range 9 {
		start := time.Now()
		err := d.exclusively(func() error {
			for _, n := range in {
				if err := d.in.upload(device, unsafe.Pointer(&host[0]), int64(n)*4); err != nil {
					return err
				}
			}
			if err := d.in.sync(); err != nil {
				return err
			}
			for _, n := range out {
				if err := d.out.download(unsafe.Pointer(&host[0]), device, int64(n)*4); err != nil {
					return err
				}
			}
			return d.out.sync()
		})
		if err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(start).Seconds()*1e3)
	}
	return median(times)
}

func median(x []float64) float64 {
	y := slices.Sorted(slices.Values(x))
	return y[len(y)/2]
}
