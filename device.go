package maxsim

import (
	"fmt"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Device is where MaxSim nodes run, named in [Config]. A nil *Device is the CPU.
type Device struct{ name string }

// String names the device and tells it from every other one.
func (d *Device) String() string {
	if d == nil {
		return "cpu"
	}
	return fmt.Sprintf("%s(%p)", d.name, d)
}

// engineOf returns the engine for the element type T.
func engineOf[T layout.Float](Config) (layout.Engine[T], error) {
	return cpu.New[T](), nil
}
