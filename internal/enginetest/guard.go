package enginetest

import (
	"fmt"
	"math"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// guardWidth is the number of elements before and after a slice that must stay as they are: more than any vector.
const guardWidth = 40

// guarded is a slice in the middle of a larger one, at an odd offset. What is around an input is NaN, so that reading
// it shows; what is around an output must not change.
type guarded[T layout.Float] struct {
	x           []T
	memory, was []T
	lo          int
	input       bool
}

func guardedInput[T layout.Float](x []T, shift int) guarded[T] {
	g := newGuarded[T](len(x), shift, T(math.NaN()))
	copy(g.x, x)
	g.was, g.input = append([]T(nil), g.memory...), true
	return g
}

func guardedOutput[T layout.Float](n, shift int) guarded[T] {
	g := newGuarded(n, shift, poison[T]())
	g.was = append([]T(nil), g.memory...)
	return g
}

func newGuarded[T layout.Float](n, shift int, fill T) guarded[T] {
	lo := guardWidth + shift%16
	g := guarded[T]{memory: make([]T, lo+n+guardWidth), lo: lo}
	for at := range g.memory {
		g.memory[at] = fill
	}
	g.x = g.memory[lo : lo+n : lo+n]
	return g
}

// check reports what changed and must not have.
func (g *guarded[T]) check(name string) error {
	for at, v := range g.memory {
		inside := at >= g.lo && at < g.lo+len(g.x)
		if (g.input || !inside) && !sameBits(v, g.was[at]) {
			return fmt.Errorf("%s[%d] of %d was changed from %v to %v", name, at-g.lo, len(g.x), g.was[at], v)
		}
	}
	return nil
}

// poison is what outputs hold before a call. No problem has it as a result.
func poison[T layout.Float]() T { return T(-8388607.5) }
