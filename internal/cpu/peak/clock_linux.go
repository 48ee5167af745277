package peak

import (
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime returns the processor time that the process has used on all cores. Unlike the wall clock it does not count
// what other processes take, and unlike getrusage it does not wait for the next tick.
func CPUTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return time.Since(start)
	}
	return time.Duration(t.Nano())
}
