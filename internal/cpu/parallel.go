package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// unitsPerWorker is how many units of work a worker should find at least, so that none waits long for the last one.
const unitsPerWorker = 4

// workers returns the number of goroutines that work on one call.
func workers() int { return runtime.GOMAXPROCS(0) }

// parallel calls work for every unit in [0, n), on as many goroutines as there are cores. Which goroutine gets which
// unit is not fixed: units must not share what they write. It panics in the caller's goroutine if a unit panicked.
func parallel(n int, work func(unit int)) {
	step := min(max(n/(8*unitsPerWorker*workers()), 1), 64) // so that tiny units do not queue for the counter
	var next atomic.Int64
	spawn(min(workers(), (n+step-1)/step), func() {
		for {
			hi := int(next.Add(int64(step)))
			for unit := hi - step; unit < min(hi, n); unit++ {
				work(unit)
			}
			if hi >= n {
				return
			}
		}
	})
}

// spawn runs f n times at once and returns when all have returned. It passes on the first panic.
func spawn(n int, f func()) {
	var group sync.WaitGroup
	var once sync.Once
	var panicked any
	for range n - 1 {
		group.Add(1)
		go func() {
			defer group.Done()
			defer func() {
				if p := recover(); p != nil {
					once.Do(func() { panicked = p })
				}
			}()
			f()
		}()
	}
	defer func() {
		group.Wait()
		if panicked != nil {
			panic(panicked)
		}
	}()
	if n > 0 {
		f()
	}
}

// grow returns *s with n elements of any value, in the same memory if they fit.
func grow[E any](s *[]E, n int) []E {
	if cap(*s) < n {
		*s = make([]E, n)
	}
	*s = (*s)[:n]
	return *s
}
