package report

import (
	"bufio"
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Memory is an amount of memory and how it was found out.
type Memory struct {
	Bytes  uint64 `json:"bytes"`
	Source string `json:"source"`
}

// peakMemory returns the largest resident size of the process so far where the system tells (Linux), elsewhere what the
// Go runtime has obtained from the system.
func peakMemory() Memory {
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		if n, ok := parseHighWater(status); ok {
			return Memory{n, "VmHWM of /proc/self/status"}
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Memory{m.Sys, "Sys of runtime.MemStats"}
}

// parseHighWater finds the line "VmHWM:   123456 kB".
func parseHighWater(status []byte) (uint64, bool) {
	lines := bufio.NewScanner(bytes.NewReader(status))
	for lines.Scan() {
		value, ok := strings.CutPrefix(lines.Text(), "VmHWM:")
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
		return n << 10, err == nil
	}
	return 0, false
}
