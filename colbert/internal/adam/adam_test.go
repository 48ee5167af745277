package adam

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/tile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

func rates[T layout.Float]() *Rates[T] {
	return &Rates[T]{Clip: 0.3, Beta1: 0.9, Beta2: 0.99, Rest1: 0.1, Rest2: 0.01, Keep: 0.999, Step: 0.02, Root: 1.5, Epsilon: 1e-4}
}

// state returns weights, moments and gradients of n elements.
func state[T layout.Float](n int) (w, m, v, g []T) {
	rng := rand.New(rand.NewPCG(1, 1))
	x := make([]T, 4*n)
	for i := range x {
		x[i] = T(rng.NormFloat64())
	}
	for i := range n {
		x[2*n+i] = T(math.Abs(float64(x[2*n+i]))) // second moments
	}
	return x[:n:n], x[n : 2*n : 2*n], x[2*n : 3*n : 3*n], x[3*n:]
}

// TestKernelsAreThere: a loop that is not selected would leave the other tests nothing to compare.
func TestKernelsAreThere(t *testing.T) {
	t.Run("float32", testKernelsAreThere[float32])
	t.Run("float64", testKernelsAreThere[float64])
}

func testKernelsAreThere[T layout.Float](t *testing.T) {
	var names []string
	for _, k := range kernels[T]() {
		names = append(names, k.name)
	}
	for _, want := range tile.Available() {
		if want != tile.Generic && !slices.Contains(names, want) {
			t.Errorf("MaxSim has kernels for %s, Adam for %q only", want, names)
		}
	}
}

func TestSameBits(t *testing.T) {
	t.Run("float32", testSameBits[float32])
	t.Run("float64", testSameBits[float64])
}

// testSameBits holds the assembly, and its seam with the rest in Go, against the loop in Go.
func testSameBits[T layout.Float](t *testing.T) {
	for n := range 70 {
		w, m, v, g := state[T](n)
		update(rates[T](), w, m, v, g)
		want := slices.Concat(w, m, v, g)
		w, m, v, g = state[T](n)
		Update(rates[T](), w, m, v, g)
		if !slices.Equal(slices.Concat(w, m, v, g), want) {
			t.Errorf("Update of %d elements has other bits than the loop", n)
		}
		for _, k := range kernels[T]() {
			if n == 0 || n%k.lanes != 0 {
				continue
			}
			w, m, v, g := state[T](n)
			k.loop(&rates[T]().Clip, &w[0], &m[0], &v[0], &g[0], n)
			if !slices.Equal(slices.Concat(w, m, v, g), want) {
				t.Errorf("%s: %d elements have other bits than by the loop", k.name, n)
			}
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	b.Run("float32", benchUpdate[float32])
	b.Run("float64", benchUpdate[float64])
}

func benchUpdate[T layout.Float](b *testing.B) {
	const n = 1 << 12
	w, m, v, g := state[T](n)
	run := func(name string, f func()) {
		b.Run("kernel="+name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/n, "ns/element")
		})
	}
	for _, k := range kernels[T]() {
		run(k.name, func() { k.loop(&rates[T]().Clip, &w[0], &m[0], &v[0], &g[0], n) })
	}
	run("go", func() { update(rates[T](), w, m, v, g) })
	if math.IsNaN(float64(w[0])) {
		b.Fatal(fmt.Sprint("weights: ", w[0]))
	}
}
