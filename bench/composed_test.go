package bench

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas/gonum"
	"gonum.org/v1/netlib/blas/netlib"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	maxsim "github.com/flash-maxsim/gorgonia-maxsim"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/peak"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/tile"
)

// scoresFunc adds the MaxSim scores of two token tensors to their graph.
type scoresFunc func(q, d *gorgonia.Node, s shape) (*gorgonia.Node, error)

func fusedScores(q, d *gorgonia.Node, _ shape) (*gorgonia.Node, error) {
	return maxsim.InBatch(q, d, maxsim.Config{})
}

// composedScores is the same from built-in ops: Mul → Reshape → Max → Sum.
func composedScores(q, d *gorgonia.Node, s shape) (*gorgonia.Node, error) {
	q, err := gorgonia.Reshape(q, tensor.Shape{s.bq * s.tq, s.dim})
	if err != nil {
		return nil, err
	}
	if d, err = gorgonia.Reshape(d, tensor.Shape{s.bd * s.td, s.dim}); err != nil {
		return nil, err
	}
	if d, err = gorgonia.Transpose(d); err != nil {
		return nil, err
	}
	sims, err := gorgonia.Mul(q, d)
	if err != nil {
		return nil, err
	}
	if sims, err = gorgonia.Reshape(sims, tensor.Shape{s.bq, s.tq, s.bd, s.td}); err != nil {
		return nil, err
	}
	if sims, err = gorgonia.Max(sims, 3); err != nil {
		return nil, err
	}
	return gorgonia.Sum(sims, 1)
}

// newStep builds a training step, forward and backward, and returns how to run it.
func newStep(tb testing.TB, s shape, scores scoresFunc) func() {
	r := rand.New(rand.NewPCG(1, 2))
	g := gorgonia.NewGraph()
	node := func(name string, dims ...int) *gorgonia.Node {
		x := make([]float32, tensor.ProdInts(dims))
		for at := range x {
			x[at] = float32(r.NormFloat64())
		}
		return gorgonia.NodeFromAny(g, tensor.New(tensor.WithShape(dims...), tensor.WithBacking(x)), gorgonia.WithName(name))
	}
	q, d, w := node("q", s.bq, s.tq, s.dim), node("d", s.bd, s.td, s.dim), node("w", s.bq, s.bd)
	sc, err := scores(q, d, s)
	if err != nil {
		tb.Fatal(err)
	}
	loss, err := gorgonia.HadamardProd(sc, w)
	if err != nil {
		tb.Fatal(err)
	}
	if loss, err = gorgonia.Sum(loss); err != nil {
		tb.Fatal(err)
	}
	if _, err = gorgonia.Grad(loss, q, d); err != nil {
		tb.Fatal(err)
	}
	vm := gorgonia.NewTapeMachine(g)
	tb.Cleanup(func() {
		if err := vm.Close(); err != nil {
			tb.Error(err)
		}
	})
	return func() {
		vm.Reset()
		if err := vm.RunAll(); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkStep runs a training step with the fused op and with built-in ops on two BLAS, in turn, in one process. It
// reports medians of processor time: milliseconds of each, and how many times as fast the fused op is.
func BenchmarkStep(b *testing.B) {
	for _, s := range []shape{{32, 32, 32, 300, 128}, {8, 32, 8, 300, 128}} {
		for _, path := range tile.Available()[:len(tile.Available())-1] {
			b.Run(fmt.Sprintf("provider=cpu-%s/Bq=%d/Tq=%d/Bd=%d/Td=%d/dim=%d", path, s.bq, s.tq, s.bd, s.td, s.dim),
				func(b *testing.B) { compareSteps(b, s, path) })
		}
	}
}

func compareSteps(b *testing.B, s shape, path string) {
	b.Setenv(cpu.PathVariable, path)
	fused, composed := newStep(b, s, fusedScores), newStep(b, s, composedScores)
	var times [3][]float64
	var peaks []float64
	for b.Loop() {
		times[0] = append(times[0], timeOf(fused))
		useBLAS(gonum.Implementation{})
		times[1] = append(times[1], timeOf(composed))
		useBLAS(netlib.Implementation{})
		times[2] = append(times[2], timeOf(composed))
		peaks = append(peaks, peak.Rate[float32](path))
	}
	flop := 2 * float64(s.bq*s.tq) * float64(s.bd*s.td) * float64(s.dim)
	step := median(times[0])
	b.ReportMetric(1e3*step, "ms-step")
	b.ReportMetric(100*flop/step/median(peaks), "%peak")
	for at, name := range []string{"composed-gonum", "composed-openblas"} {
		other := median(times[at+1])
		b.ReportMetric(1e3*other, "ms-"+name)
		b.ReportMetric(other/step, "x-"+name)
		b.ReportMetric(other/flop*median(peaks), "x-limit-"+name) // a step that only multiplies and adds, at the peak
	}
}

// useBLAS makes Gorgonia multiply with the given library.
func useBLAS(b tensor.BLAS) {
	tensor.Use(b)
	gorgonia.Use(b)
}
