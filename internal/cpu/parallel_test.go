package cpu

import (
	"runtime"
	"sync/atomic"
	"testing"
)

func TestParallelRunsEveryUnitOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, threads := range []int{1, 2, 5} {
		runtime.GOMAXPROCS(threads)
		for _, n := range []int{0, 1, 2, 63, 1000, 70000} {
			runs := make([]atomic.Int32, n)
			parallel(n, func(unit int) { runs[unit].Add(1) })
			for unit := range runs {
				if got := runs[unit].Load(); got != 1 {
					t.Fatalf("%d threads, %d units: unit %d ran %d times, expected once", threads, n, unit, got)
				}
			}
		}
	}
}

// TestParallelPanicsInCaller: a panic in a goroutine of its own would end the program, where the op could not turn it
// into an error.
func TestParallelPanicsInCaller(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	for _, bad := range []int{0, 17, 999} {
		func() {
			defer func() {
				if p := recover(); p != bad {
					t.Errorf("recovered %v, expected %d", p, bad)
				}
			}()
			parallel(1000, func(unit int) {
				if unit == bad {
					panic(unit)
				}
			})
		}()
	}
}
