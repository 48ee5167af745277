// Package peak measures what the processor's multiply-add units can do at most, so that benchmarks can say how much of
// it a kernel reaches.
package peak

import (
	"time"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

var start = time.Now()

// Rate returns the floating-point operations per second of processor time of one core that does nothing but
// multiply-adds on vectors of the named kernels (package tile), or 0 where there is no such loop. It is the best of
// several windows, 20 milliseconds in all: processors start such a loop slowly.
func Rate[T layout.Float](kernels string) float64 {
	run, flop := loop(kernels, any(T(0)) == any(float64(0)))
	if run == nil {
		return 0
	}
	const n = 20000
	var best float64
	for end := CPUTime() + 20*time.Millisecond; CPUTime() < end; {
		const times = 16
		begin := CPUTime()
		for range times {
			run(n)
		}
		best = max(best, times*n*float64(flop)/(CPUTime()-begin).Seconds())
	}
	return best
}
