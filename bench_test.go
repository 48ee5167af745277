package maxsim

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/peak"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/tile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// The benchmarks of the CPU engine:
//
//	BenchmarkForward/provider=cpu-avx512/Bq=32/Tq=32/Bd=32/Td=300/dim=128     scores and argmax, engine on slices
//	BenchmarkBackward/…                                                       ∇q and ∇d from the argmax
//	BenchmarkFull/…                                                           a step: Gorgonia graph, TapeMachine
//
// float32; the names that end in Float64 are float64. provider=composed is the graph of Gorgonia's built-in ops with
// gonum's BLAS, float32 only: forward alone, and the whole step.
//
// GFLOP/s is the rate of one core: operations per second of processor time, of all cores together. Forward and Full
// count the 2·bq·bd·tq·td·dim of the similarities, Backward the 4·bq·bd·tq·dim of the gradients. %peak is that rate by
// what a loop of nothing but multiply-adds does in the same process, right before and after. ns/op is wall time. For
// the numbers of one core, pin to it: taskset -c 1 go test -bench . -cpu 1

// benchShape is an all-pairs problem.
type benchShape struct {
	bq, tq, bd, td, dim int
	slow                bool // also for the slow providers: portable kernels and composed graphs
}

func (s benchShape) String() string {
	return fmt.Sprintf("Bq=%d/Tq=%d/Bd=%d/Td=%d/dim=%d", s.bq, s.tq, s.bd, s.td, s.dim)
}

// flop returns the operations of all similarities.
func (s benchShape) flop() float64 {
	return 2 * float64(s.bq*s.tq) * float64(s.bd*s.td) * float64(s.dim)
}

// gradientFlop returns the operations of both gradients.
func (s benchShape) gradientFlop() float64 {
	return 4 * float64(s.bq*s.tq) * float64(s.bd) * float64(s.dim)
}

var benchShapes = []benchShape{
	{bq: 32, tq: 32, bd: 32, td: 300, dim: 128, slow: true},
	{bq: 128, tq: 32, bd: 128, td: 300, dim: 128},
	{bq: 1, tq: 32, bd: 1000, td: 300, dim: 128, slow: true},
	{bq: 32, tq: 32, bd: 32, td: 20, dim: 128, slow: true},
	{bq: 32, tq: 32, bd: 32, td: 300, dim: 32},
	{bq: 8, tq: 32, bd: 8, td: 300, dim: 768},
	{bq: 100, tq: 7, bd: 32, td: 60, dim: 128},
	{bq: 1, tq: 16, bd: 100, td: 300, dim: 128},
	{bq: 1, tq: 20, bd: 100, td: 300, dim: 128},
	{bq: 4, tq: 1024, bd: 4, td: 1024, dim: 128}, // pages of images: ColPali
}

func BenchmarkForward(b *testing.B) {
	benchForward[float32](b)
	eachComposed(b, benchComposedForward)
}

func BenchmarkFull(b *testing.B) {
	benchFull[float32](b)
	eachComposed(b, func(b *testing.B, s benchShape) { benchStep[float32](b, s, tile.Available()[0], false) })
}

func BenchmarkBackward(b *testing.B)        { benchBackward[float32](b) }
func BenchmarkForwardFloat64(b *testing.B)  { benchForward[float64](b) }
func BenchmarkBackwardFloat64(b *testing.B) { benchBackward[float64](b) }
func BenchmarkFullFloat64(b *testing.B)     { benchFull[float64](b) }

// engineCall are the inputs and outputs of an engine's call.
type engineCall[T layout.Float] struct {
	engine                   *cpu.Engine[T]
	batch                    layout.Batch
	q, d, scores, ds, dq, dd []T
}

// eachEngine runs f for every shape and every CPU path.
func eachEngine[T layout.Float](b *testing.B, f func(b *testing.B, s benchShape, c *engineCall[T])) {
	for _, s := range benchShapes {
		c := newEngineCall[T](s)
		for _, path := range tile.Available() {
			if path == tile.Generic && !s.slow {
				continue
			}
			b.Run(fmt.Sprintf("provider=cpu-%s/%v", path, s), func(b *testing.B) {
				var err error
				if c.engine, err = cpu.With[T](path); err != nil {
					b.Fatal(err)
				}
				f(b, s, c)
			})
		}
	}
}

func newEngineCall[T layout.Float](s benchShape) *engineCall[T] {
	r := rand.New(rand.NewPCG(1, 2))
	normal := func(n int) []T { return randomTokens[T](r, n).Data().([]T) }
	c := &engineCall[T]{batch: layout.Batch{Q: layout.Dense(s.bq, s.tq), D: layout.Dense(s.bd, s.td), Dim: s.dim}}
	c.q, c.d = normal(s.bq*s.tq*s.dim), normal(s.bd*s.td*s.dim)
	c.scores, c.ds = make([]T, s.bq*s.bd), normal(s.bq*s.bd)
	c.dq, c.dd = make([]T, len(c.q)), make([]T, len(c.d))
	return c
}

func benchForward[T layout.Float](b *testing.B) {
	eachEngine(b, func(b *testing.B, s benchShape, c *engineCall[T]) {
		measure[T](b, s.flop(), c.engine.Path(), func() error {
			_, err := c.engine.Forward(&c.batch, c.q, c.d, c.scores, true)
			return err
		})
	})
}

func benchBackward[T layout.Float](b *testing.B) {
	eachEngine(b, func(b *testing.B, s benchShape, c *engineCall[T]) {
		tape, err := c.engine.Forward(&c.batch, c.q, c.d, c.scores, true)
		if err != nil {
			b.Fatal(err)
		}
		used := measure[T](b, s.gradientFlop(), c.engine.Path(), func() error {
			return c.engine.Backward(&c.batch, c.q, c.d, tape, c.ds, c.dq, c.dd)
		})
		b.ReportMetric(100*used.Seconds()/forwardTime(b, c).Seconds(), "%forward")
	})
}

// forwardTime returns the processor time of a forward pass, the median of five.
func forwardTime[T layout.Float](b *testing.B, c *engineCall[T]) time.Duration {
	var times []time.Duration
	for range 5 {
		begin := peak.CPUTime()
		if _, err := c.engine.Forward(&c.batch, c.q, c.d, c.scores, true); err != nil {
			b.Fatal(err)
		}
		times = append(times, peak.CPUTime()-begin)
	}
	slices.Sort(times)
	return times[2]
}

func benchFull[T layout.Float](b *testing.B) {
	for _, s := range benchShapes {
		for _, path := range tile.Available() {
			if path == tile.Generic && !s.slow {
				continue
			}
			b.Run(fmt.Sprintf("provider=cpu-%s/%v", path, s), func(b *testing.B) {
				b.Setenv(cpu.PathVariable, path)
				benchStep[T](b, s, path, true)
			})
		}
	}
}

// benchStep measures a training step with the fused op or with built-in ones.
func benchStep[T layout.Float](b *testing.B, s benchShape, path string, fused bool) {
	r := rand.New(rand.NewPCG(1, 2))
	q, d := randomTokens[T](r, s.bq, s.tq, s.dim), randomTokens[T](r, s.bd, s.td, s.dim)
	step, err := newStep(q, d, randomTokens[T](r, s.bq, s.bd), fused)
	if err != nil {
		b.Fatal(err)
	}
	defer step.vm.Close()
	measure[T](b, s.flop(), path, step.run)
}

// eachComposed runs f for the shapes of the slow providers.
func eachComposed(b *testing.B, f func(b *testing.B, s benchShape)) {
	for _, s := range benchShapes {
		if s.slow {
			b.Run(fmt.Sprintf("provider=composed/%v", s), func(b *testing.B) { f(b, s) })
		}
	}
}

// benchComposedForward measures the graph of built-in ops without gradients.
func benchComposedForward(b *testing.B, s benchShape) {
	r := rand.New(rand.NewPCG(1, 2))
	g := gorgonia.NewGraph()
	node := func(name string, rows int) *gorgonia.Node {
		return gorgonia.NodeFromAny(g, tensor.Tensor(randomTokens[float32](r, rows, s.dim)), gorgonia.WithName(name))
	}
	if _, err := composed(node("q", s.bq*s.tq), node("d", s.bd*s.td), s.bq, s.bd); err != nil {
		b.Fatal(err)
	}
	vm := gorgonia.NewTapeMachine(g)
	defer vm.Close()
	measure[float32](b, s.flop(), tile.Available()[0], func() error {
		vm.Reset()
		return vm.RunAll()
	})
}

// BenchmarkThreads runs the forward pass with one and with all cores in turn. speedup is of the shortest wall times:
// other processes can only lengthen one.
func BenchmarkThreads(b *testing.B) {
	cores := runtime.NumCPU()
	for _, s := range []benchShape{
		{bq: 32, tq: 32, bd: 32, td: 300, dim: 128},
		{bq: 1, tq: 32, bd: 1000, td: 300, dim: 128},
		{bq: 1, tq: 1024, bd: 1, td: 1024, dim: 128},
	} {
		c := newEngineCall[float32](s)
		c.engine = cpu.New[float32]()
		b.Run(fmt.Sprintf("provider=cpu-%s/%v/cores=%d", c.engine.Path(), s, cores), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
			wall := func(cores int) time.Duration {
				runtime.GOMAXPROCS(cores)
				begin := time.Now()
				if _, err := c.engine.Forward(&c.batch, c.q, c.d, c.scores, true); err != nil {
					b.Fatal(err)
				}
				return time.Since(begin)
			}
			one, all := wall(1), wall(cores)
			for b.Loop() {
				one, all = min(one, wall(1)), min(all, wall(cores))
			}
			b.ReportMetric(one.Seconds()*1e3, "ms-1core")
			b.ReportMetric(all.Seconds()*1e3, "ms-all")
			b.ReportMetric(one.Seconds()/all.Seconds(), "speedup")
		})
	}
}

// measure times f, which does flop operations, and reports its rate, alone and by the peak of the named kernels. It
// returns the processor time of one call.
func measure[T layout.Float](b *testing.B, flop float64, path string, f func() error) time.Duration {
	if err := f(); err != nil { // warm: buffers of the steady state
		b.Fatal(err)
	}
	before := peak.Rate[T](path)
	b.ReportAllocs()
	begin := peak.CPUTime()
	for b.Loop() {
		if err := f(); err != nil {
			b.Fatal(err)
		}
	}
	used := (peak.CPUTime() - begin) / time.Duration(b.N)
	rate := flop / used.Seconds()
	b.ReportMetric(float64(used.Nanoseconds()), "cpu-ns/op")
	b.ReportMetric(rate/1e9, "GFLOP/s")
	if before > 0 {
		b.ReportMetric(100*rate/((before+peak.Rate[T](path))/2), "%peak")
	}
	return used
}
