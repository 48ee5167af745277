//go:build unix

package peak

import (
	"syscall"
	"time"
)

// CPUTime returns the processor time that the process has used on all cores. Unlike the wall clock it does not count
// what other processes take.
func CPUTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return time.Since(start)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
