package peak

import (
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu/tile"
)

// TestRate asks for a plausible rate of every assembled path: above one operation in a cycle of 500 MHz, below 1 T/s.
func TestRate(t *testing.T) {
	for _, path := range tile.Available() {
		for name, rate := range map[string]float64{"float32": Rate[float32](path), "float64": Rate[float64](path)} {
			if path == tile.Generic {
				if rate != 0 {
					t.Errorf("%s: %s: rate %g, expected none", path, name, rate)
				}
			} else if rate < 5e8 || rate > 1e12 {
				t.Errorf("%s: %s: rate %g is implausible", path, name, rate)
			}
		}
	}
}
