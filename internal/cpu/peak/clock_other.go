//go:build !linux

package peak

import "time"

// CPUTime returns the time since the program started: this system has no clock of processor time.
func CPUTime() time.Duration { return time.Since(start) }
