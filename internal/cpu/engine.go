// Package cpu is the CPU engine: MaxSim and its gradients on slices, parallel over cores.
//
// Forward packs the valid query rows once into panels (package tile) and streams every document through them; what it
// keeps of a document is one running maximum and one index for each query token. Backward gathers: ∇q from the tape, ∇d
// from its inverse (package csr). There is no buffer proportional to tokens × tokens, no atomic operation on a float,
// and every output element has one owner that adds in a fixed order, so that results have the same bits for any number
// of threads; those of a pair are the same alone and in any batch.
//
// Where a similarity is NaN, the score is NaN and the argmax is the document's first valid token.
package cpu

import (
	"fmt"
	"math"
	"os"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/tile"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// PathVariable is the environment variable that names the kernels of New, in place of the fastest ones.
const PathVariable = "MAXSIM_CPU"

// Engine computes MaxSim with one set of kernels. Make it with New or With.
type Engine[T layout.Float] struct {
	kernels *tile.Kernels[T]
	err     error // why there are no kernels
}

var (
	_ layout.Engine[float32] = (*Engine[float32])(nil)
	_ layout.Engine[float64] = (*Engine[float64])(nil)
)

// New returns the engine with the fastest kernels of this machine, or those that the environment variable MAXSIM_CPU
// names. If it names none that can run, every call of the engine returns an error that says so.
func New[T layout.Float]() *Engine[T] {
	e, err := With[T](os.Getenv(PathVariable))
	if err != nil {
		return &Engine[T]{err: fmt.Errorf("%w (environment variable %s)", err, PathVariable)}
	}
	return e
}

// With returns the engine with the kernels of the given name, as tile.Select knows them.
func With[T layout.Float](name string) (*Engine[T], error) {
	kernels, err := tile.Select[T](name)
	if err != nil {
		return nil, err
	}
	return &Engine[T]{kernels: kernels}, nil
}

// Path returns the name of the engine's kernels, "" if it has none.
func (e *Engine[T]) Path() string {
	if e.kernels == nil {
		return ""
	}
	return e.kernels.Name
}

// check returns an error unless every argument has the length that b asks for.
func (e *Engine[T]) check(b *layout.Batch, args ...argument) error {
	if e.err != nil {
		return e.err
	}
	for _, a := range args {
		if a.len != a.rows*a.cols {
			return fmt.Errorf("%s has %d elements, expected %d × %d", a.name, a.len, a.rows, a.cols)
		}
	}
	if max(b.Q.Rows, b.D.Rows) > math.MaxInt32 {
		return fmt.Errorf("%d query rows and %d document rows, expected at most %d", b.Q.Rows, b.D.Rows, math.MaxInt32)
	}
	return nil
}

// argument is the length of a slice beside what it should be.
type argument struct {
	name            string
	len, rows, cols int
}
