//go:build maxsim_cuda && cgo && linux

package cuda

import (
	"errors"
	"fmt"

	"gorgonia.org/cu"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cudrv"
)

// Built reports whether this program contains the CUDA engine.
const Built = true

// leastMajor is the compute capability from which on the kernels run: 8.0, mma.sync with bf16 and cp.async.
const leastMajor = 8

// Open takes the GPU with the given ordinal: its primary context, the kernels for its architecture, queues. The error
// says what is missing: the driver, a GPU, that GPU, its compute capability, a driver that reads the images.
func Open(ordinal int) (*Device, error) {
	if err := cudrv.InitError(); err != nil {
		return nil, err
	}
	n, err := cu.NumDevices()
	if err != nil {
		return nil, cudrv.Explain(err)
	}
	if ordinal < 0 || ordinal >= n {
		return nil, fmt.Errorf("no GPU cuda:%d, the driver shows %d (is it hidden by CUDA_VISIBLE_DEVICES?)", ordinal, n)
	}
	device, err := cu.GetDevice(ordinal)
	if err != nil {
		return nil, cudrv.Explain(err)
	}
	properties, err := describe(ordinal, device)
	if err != nil {
		return nil, err
	}
	if properties.Major < leastMajor {
		return nil, fmt.Errorf("%v: the kernels need compute capability %d.0 or later", properties, leastMajor)
	}
	drv, err := newLibcuda(device, properties)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", properties, err)
	}
	return newDevice(drv)
}

// describe asks the driver about a GPU.
func describe(ordinal int, device cu.Device) (Properties, error) {
	p := Properties{Ordinal: ordinal, Driver: cudrv.DriverVersion()}
	name, err := device.Name()
	memory, err2 := device.TotalMem()
	failed := errors.Join(err, err2)
	p.Name, p.Memory = name, memory
	for attribute, to := range map[cu.DeviceAttribute]*int{
		cu.ComputeCapabilityMajor: &p.Major,
		cu.ComputeCapabilityMinor: &p.Minor,
		cu.MultiprocessorCount:    &p.Multiprocessors,
		cudrv.SharedPerBlock:      &p.SharedPerBlock,
	} {
		if *to, err = device.Attribute(attribute); err != nil {
			failed = errors.Join(failed, cudrv.Explain(err))
		}
	}
	return p, failed
}
