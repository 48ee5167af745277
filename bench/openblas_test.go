// Package bench compares with OpenBLAS. It is a module of its own so that users of maxsim need neither cgo nor OpenBLAS.
package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/flash-maxsim/gorgonia-maxsim/bench/openblas"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/peak"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/tile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// arrangements of products: how many queries and documents one product takes.
var arrangements = []struct {
	name          string
	queries, docs int
}{
	{"pair", 1, 1},
	{"doc", math.MaxInt, 1}, // all queries against one document: the best that OpenBLAS does here
	{"32docs", 1, 32},       // the algorithm of maxsim-cpu 0.1.0 (Rust, Apache-2.0), with an argmax
	{"all", math.MaxInt, math.MaxInt},
}

type shape struct{ bq, tq, bd, td, dim int }

var shapes = []shape{
	{32, 32, 32, 300, 128},
	{1, 32, 1000, 300, 128},
	{32, 32, 32, 20, 128},
	{32, 32, 32, 300, 32},
	{8, 32, 8, 300, 768},
	{100, 7, 32, 60, 128},
	{1, 1024, 4, 1024, 128},
}

func newProblem(s shape) *openblas.Problem {
	r := rand.New(rand.NewPCG(1, 2))
	normal := func(n int) []float32 {
		x := make([]float32, n)
		for at := range x {
			x[at] = float32(r.NormFloat64())
		}
		return x
	}
	return &openblas.Problem{Bq: s.bq, Tq: s.tq, Bd: s.bd, Td: s.td, Dim: s.dim,
		Q: normal(s.bq * s.tq * s.dim), D: normal(s.bd * s.td * s.dim),
		Scores: make([]float32, s.bq*s.bd), Argmax: make([]int32, s.bq*s.bd*s.tq)}
}

// fused returns the engine's forward pass on the same problem.
func fused(tb testing.TB, path string, p *openblas.Problem, scores []float32) func() []int32 {
	e, err := cpu.With[float32](path)
	if err != nil {
		tb.Fatal(err)
	}
	b := &layout.Batch{Q: layout.Dense(p.Bq, p.Tq), D: layout.Dense(p.Bd, p.Td), Dim: p.Dim}
	return func() []int32 {
		tape, err := e.Forward(b, p.Q, p.D, scores, true)
		if err != nil {
			tb.Fatal(err)
		}
		argmax, err := tape.Argmax()
		if err != nil {
			tb.Fatal(err)
		}
		return argmax
	}
}

// TestArrangementsAgree: every contender does the whole work, and the same.
func TestArrangementsAgree(t *testing.T) {
	for _, s := range []shape{{3, 5, 70, 12, 16}, {32, 32, 32, 20, 128}} {
		p := newProblem(s)
		want := make([]float32, len(p.Scores))
		argmax := fused(t, "", p, want)()
		for _, a := range arrangements {
			clear(p.Scores)
			clear(p.Argmax)
			p.Forward(a.queries, a.docs)
			for at, x := range p.Scores {
				if diff := math.Abs(float64(x - want[at])); diff > 1e-4*float64(s.tq) {
					t.Fatalf("%s: score %d is %v, expected %v", a.name, at, x, want[at])
				}
			}
			if !slices.Equal(p.Argmax, argmax) {
				t.Errorf("%s: argmax differs", a.name)
			}
		}
	}
}

// BenchmarkOpenBLAS runs all contenders in turn, in one process, and reports medians of processor time: for every
// arrangement, GFLOP/s and how many times as fast the fused kernels are (x-doc: than products of one document).
func BenchmarkOpenBLAS(b *testing.B) {
	b.Log(openblas.Config())
	for _, s := range shapes {
		for _, path := range tile.Available()[:len(tile.Available())-1] {
			b.Run(fmt.Sprintf("provider=cpu-%s/Bq=%d/Tq=%d/Bd=%d/Td=%d/dim=%d", path, s.bq, s.tq, s.bd, s.td, s.dim),
				func(b *testing.B) { compare(b, s, path) })
		}
	}
}

func compare(b *testing.B, s shape, path string) {
	p := newProblem(s)
	ours := fused(b, path, p, make([]float32, len(p.Scores)))
	runs := []func(){func() { ours() }}
	for _, a := range arrangements {
		runs = append(runs, func() { p.Forward(a.queries, a.docs) })
	}
	times, peaks := make([][]float64, len(runs)), []float64{}
	for b.Loop() {
		for c, run := range runs {
			times[c] = append(times[c], timeOf(run))
		}
		peaks = append(peaks, peak.Rate[float32](path))
	}
	flop := 2 * float64(s.bq*s.tq) * float64(s.bd*s.td) * float64(s.dim)
	fusedTime := median(times[0])
	b.ReportMetric(flop/fusedTime/1e9, "GFLOP/s")
	b.ReportMetric(100*flop/fusedTime/median(peaks), "%peak")
	for at, a := range arrangements {
		other := median(times[at+1])
		b.ReportMetric(flop/other/1e9, "GFLOP/s-"+a.name)
		b.ReportMetric(other/fusedTime, "x-"+a.name)
	}
}

// timeOf returns the processor seconds of one call, over at least 30 ms of them.
func timeOf(run func()) float64 {
	run()
	n, begin := 0, peak.CPUTime()
	for {
		run()
		n++
		if used := peak.CPUTime() - begin; used > 30*time.Millisecond {
			return used.Seconds() / float64(n)
		}
	}
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}
