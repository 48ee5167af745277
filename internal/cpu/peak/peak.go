// Package peak measures what the processor's multiply-add units can do at most, so that benchmarks can say how much of
// it a kernel reaches.
package peak

import (
	"time"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

var start = time.Now()

// Rate returns the floating-point operations per second of processor time of one core that does nothing but
// multiply-adds on vectors of the named kernels (package tile), or 0 where there is no such loop. It takes a few
// milliseconds.
func Rate[T layout.Float](kernels string) float64 {
	run, flop := loop(kernels, any(T(0)) == any(float64(0)))
	if run == nil {
		return 0
	}
	const n = 20000
	run(n)
	times, begin := 0, CPUTime()
	var used time.Duration
	for used < 10*time.Millisecond {
		run(n)
		times++
		used = CPUTime() - begin
	}
	return float64(times) * n * float64(flop) / used.Seconds()
}
