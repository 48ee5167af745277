package cpu

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/tile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// assembledPaths are the paths that return the same bits: every similarity is one chain of fused multiply-adds.
var assembledPaths = slices.DeleteFunc(tile.Available(), func(path string) bool { return path == tile.Generic })

// TestPathsAgree compares all assembled paths bit for bit, each for several numbers of threads, on random numbers.
func TestPathsAgree(t *testing.T) {
	if len(assembledPaths) == 0 {
		t.Skip("no assembled kernels can run here")
	}
	t.Run("float32", func(t *testing.T) { testSameBits[float32](t, assembledPaths) })
	t.Run("float64", func(t *testing.T) { testSameBits[float64](t, assembledPaths) })
}

// TestThreadsAgree compares the portable path with itself.
func TestThreadsAgree(t *testing.T) {
	t.Run("float32", func(t *testing.T) { testSameBits[float32](t, []string{tile.Generic}) })
	t.Run("float64", func(t *testing.T) { testSameBits[float64](t, []string{tile.Generic}) })
}

func testSameBits[T layout.Float](t *testing.T, paths []string) {
	r := rand.New(rand.NewPCG(21, 22))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for trial := range 60 {
		p := randomProblem[T](r)
		if trial%4 == 0 { // few long documents: cut between threads
			p.b = layout.Batch{Q: layout.Dense(1+trial%3, 50), D: layout.Dense(1, 700+r.IntN(900)), Dim: 9}
			p.q, p.d = make([]T, p.b.Q.Rows*9), make([]T, p.b.D.Rows*9)
			p.ds = make([]T, p.b.Q.Len()*p.b.Cols())
		}
		for _, s := range [][]T{p.q, p.d, p.ds} {
			for at := range s {
				if s[at] == s[at] {
					s[at] = T(r.NormFloat64())
				}
			}
		}
		var first string
		for _, path := range paths {
			e := mustWith[T](t, path)
			for _, threads := range []int{1, 2, 3, 7} {
				runtime.GOMAXPROCS(threads)
				got, err := p.results(e)
				if err != nil {
					t.Fatal(err)
				}
				if first == "" {
					first = got
				}
				if got != first {
					t.Fatalf("trial %d: batch %+v: %s with %d threads differs", trial, p.b, path, threads)
				}
			}
		}
	}
}

// results returns the bits of every output.
func (p *problem[T]) results(e *Engine[T]) (string, error) {
	scores := make([]T, p.b.Q.Len()*p.b.Cols())
	tape, err := e.Forward(&p.b, p.q, p.d, scores, true)
	if err != nil {
		return "", err
	}
	dq, dd := filled[T](len(p.q)), filled[T](len(p.d))
	if err := e.Backward(&p.b, p.q, p.d, tape, p.ds, dq, dd); err != nil {
		return "", err
	}
	argmax, err := tape.Argmax()
	return bytesOf(scores) + bytesOf(argmax) + bytesOf(dq) + bytesOf(dd), err
}

func bytesOf[E any](s []E) string {
	var e E
	return string(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(e))))
}
