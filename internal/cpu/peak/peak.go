// Package peak measures what the processor's multiply-add units can do at most, so that benchmarks can say how much of
// it a kernel reaches.
package peak

import (
	"slices"
	"time"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

var start = time.Now()

// Rate returns the floating-point operations per second of processor time of one core that does nothing but
// multiply-adds on vectors of the named kernels (package tile), or 0 where there is no such loop. It is the median of
// windows of a millisecond or two, the first ones left out: processors start such a loop slowly.
func Rate[T layout.Float](kernels string) float64 {
	run, flop := loop(kernels, any(T(0)) == any(float64(0)))
	if run == nil {
		return 0
	}
	const windows, n = 20, 20000
	window := func(times int) time.Duration {
		begin := CPUTime()
		for range times {
			run(n)
		}
		return CPUTime() - begin
	}
	times := 16
	for window(times) < time.Millisecond { // the clock may tick slowly
		times *= 2
	}
	var seconds []float64
	for range windows {
		seconds = append(seconds, window(times).Seconds())
	}
	late := seconds[windows/2:]
	slices.Sort(late)
	return float64(times) * n * float64(flop) / late[len(late)/2]
}
