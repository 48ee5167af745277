// Package peak measures what the processor's multiply-add units can do at most, so that benchmarks can say how much of
// it a kernel reaches.
package peak

import "github.com/flash-maxsim/gorgonia-maxsim/internal/layout"

// Loop returns a loop of nothing but multiply-adds with the vectors of the named kernels (package tile): it runs n > 0
// times and does flop floating-point operations in each. flop is 0 where there is no such loop.
func Loop[T layout.Float](kernels string) (run func(n int), flop int) {
	return loop(kernels, any(T(0)) == any(float64(0)))
}
