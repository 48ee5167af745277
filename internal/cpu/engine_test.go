package cpu

import (
	"os"
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/tile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/enginetest"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// TestEnvironmentPath fails where the environment variable MAXSIM_CPU names kernels that New did not select, so that a
// run of the tests for one path cannot pass on another.
func TestEnvironmentPath(t *testing.T) {
	want := os.Getenv(PathVariable)
	if want == "" {
		want = tile.Available()[0]
	}
	if e := New[float32](); e.Path() != want {
		t.Errorf("float32 kernels are %q, expected %q: %v", e.Path(), want, e.err)
	}
	if e := New[float64](); e.Path() != want {
		t.Errorf("float64 kernels are %q, expected %q: %v", e.Path(), want, e.err)
	}
}

// TestUnknownPath asks for kernels that do not exist: every call says so, nothing falls back.
func TestUnknownPath(t *testing.T) {
	t.Setenv(PathVariable, "avx1024")
	e := New[float32]()
	b := &layout.Batch{Q: layout.Dense(1, 1), D: layout.Dense(1, 1), Dim: 1}
	const want = `unknown CPU kernels "avx1024", expected avx512, avx2 or generic (environment variable MAXSIM_CPU)`
	if _, err := e.Forward(b, make([]float32, 1), make([]float32, 1), make([]float32, 1), true); err == nil || err.Error() != want {
		t.Errorf("forward: error %v, expected %s", err, want)
	}
	err := e.Backward(b, make([]float32, 1), make([]float32, 1), layout.HostTape{0}, make([]float32, 1), nil, nil)
	if err == nil || err.Error() != want {
		t.Errorf("backward: error %v, expected %s", err, want)
	}
}

func TestConformance(t *testing.T) {
	for _, path := range tile.Available() {
		t.Run(path+"/float32", func(t *testing.T) { enginetest.Run(t, mustWith[float32](t, path), enginetest.Options{}) })
		t.Run(path+"/float64", func(t *testing.T) { enginetest.Run(t, mustWith[float64](t, path), enginetest.Options{}) })
	}
}

func FuzzEngine32(f *testing.F) { enginetest.Fuzz(f, New[float32]()) }

func FuzzEngine64(f *testing.F) { enginetest.Fuzz(f, New[float64]()) }

func mustWith[T layout.Float](t *testing.T, path string) *Engine[T] {
	t.Helper()
	e, err := With[T](path)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
