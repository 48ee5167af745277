package colbert

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// parallel calls f for consecutive ranges of [0, n), each grain long but the last, on all cores. The ranges do not
// depend on the number of cores; a panic in f reaches the caller.
func parallel(n, grain int, f func(lo, hi int)) {
	chunks := (n + grain - 1) / grain
	workers := min(runtime.GOMAXPROCS(0), chunks)
	if workers <= 1 {
		for lo := 0; lo < n; lo += grain {
			f(lo, min(lo+grain, n))
		}
		return
	}
	var (
		next   atomic.Int64
		failed atomic.Value
		wg     sync.WaitGroup
	)
	for range workers {
		wg.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					failed.CompareAndSwap(nil, &r)
				}
			}()
			for {
				lo := (int(next.Add(1)) - 1) * grain
				if lo >= n {
					return
				}
				f(lo, min(lo+grain, n))
			}
		})
	}
	wg.Wait()
	if r, ok := failed.Load().(*any); ok {
		panic(*r)
	}
}

// grain is how many rows of the given width make a range worth a goroutine.
func grain(width int) int { return max(1, 1<<14/max(width, 1)) }
