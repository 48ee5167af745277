package maxsim

import (
	"fmt"
	"strings"
)

// brief names the settings that are not the default, as error messages and graphs show them.
func (c Config) brief() string {
	var set []string
	for _, s := range []struct {
		on   bool
		name string
	}{
		{c.Mean, "mean"}, {c.FrozenQueries, "frozen queries"}, {c.FrozenDocs, "frozen docs"},
		{c.Precision != Float32, c.Precision.String()}, {!c.Device.isCPU(), c.Device.Name()},
	} {
		if s.on {
			set = append(set, s.name)
		}
	}
	return strings.Join(set, ", ")
}

// String prints every field but the masks, which are inputs of the graph.
func (c Config) String() string {
	return fmt.Sprintf("mean=%t frozenQueries=%t frozenDocs=%t precision=%v device=%v resident=%v profile=%p",
		c.Mean, c.FrozenQueries, c.FrozenDocs, c.Precision, c.Device, c.ResidentDocs, c.Profile)
}

// check reports fields that contradict each other or the device.
func (c Config) check() error {
	if int(c.Precision) >= len(precisionNames) {
		return fmt.Errorf("%w: %v, expected one of %v", ErrConfig, c.Precision, precisionNames)
	}
	if c.Device.isCPU() && c.Precision != Float32 {
		return fmt.Errorf("%w: precision %v needs a CUDA device, the CPU computes float32", ErrConfig, c.Precision)
	}
	return nil
}
