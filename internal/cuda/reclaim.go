package cuda

import (
	"runtime"
	"time"
)

// reclaim forces a garbage collection and waits until the cleanups and finalizers that were due have run, so that
// the memory which dead tapes and dead host buffers hold is back in its pool; then it calls enough, and does it all
// again if that is not satisfied. The garbage collector knows nothing of device memory, so this is done before running
// out of it is reported.
//
// Cleanups run in no order and beside each other, so one round that saw its own cleanup run may have missed others.
func reclaim(enough func() bool) {
	const (
		rounds  = 3                      // a finalizer keeps what it hangs on alive until the next collection
		patient = 200 * time.Millisecond // for a machine with every core busy
	)
	for range rounds {
		due := make(chan struct{})
		sentinel := new([64]byte) // too large to share its block with another object
		runtime.AddCleanup(sentinel, func(c chan struct{}) { close(c) }, due)
		runtime.GC()
		select {
		case <-due:
		case <-time.After(patient):
		}
		if enough() {
			return
		}
	}
}
