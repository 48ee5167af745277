package maxsim

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cpu"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/cuda"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Device is where MaxSim nodes run, named in [Config]. Nil and the zero Device are the CPU; [OpenCUDA] opens a GPU. A
// Device is safe for use by many graphs, machines and goroutines; several may be open at once.
//
// Gorgonia's values live in host memory, so a node on a GPU copies its inputs there and its results back. The argmax,
// its inverse and the copies of q and d stay on the device from the forward pass to the gradients of the same run.
type Device struct{ cuda *cuda.Device }

func (d *Device) isCPU() bool { return d == nil || d.cuda == nil }

// DeviceVariable is the environment variable that [OpenDevice] reads when it is given no name.
const DeviceVariable = "MAXSIM_DEVICE"

// OpenCUDA opens the NVIDIA GPU of the given ordinal, compute capability 8.0 or later. The program must be built with
// -tags maxsim_cuda; the error says what is missing. Close gives everything back.
func OpenCUDA(ordinal int) (*Device, error) {
	d, err := cuda.Open(ordinal)
	if err != nil {
		return nil, deviceError(err)
	}
	return &Device{d}, nil
}

// OpenDevice opens a device by name: "cpu" (a nil Device), "cuda" (the first GPU) or "cuda:N". The empty name stands for
// the environment variable MAXSIM_DEVICE, and for the CPU if that is empty too.
func OpenDevice(name string) (*Device, error) {
	if name == "" {
		name = os.Getenv(DeviceVariable)
	}
	if name == "" || name == "cpu" {
		return nil, nil
	}
	kind, number, numbered := strings.Cut(name, ":")
	ordinal := 0
	if numbered {
		n, err := strconv.Atoi(number)
		if err != nil {
			kind = ""
		}
		ordinal = n
	}
	if kind != "cuda" || ordinal < 0 {
		return nil, fmt.Errorf("%w: unknown device %q, expected cpu, cuda or cuda:N", ErrConfig, name)
	}
	return OpenCUDA(ordinal)
}

// Close gives back everything that the device holds: memory, queues, its share of the GPU's context. Nodes that name it
// fail from then on. Closing the CPU, or closing twice, does nothing.
func (d *Device) Close() error {
	if d.isCPU() {
		return nil
	}
	return deviceError(d.cuda.Close())
}

// Name returns the name by which [OpenDevice] opens the device: cpu, cuda:0.
func (d *Device) Name() string {
	if d.isCPU() {
		return "cpu"
	}
	return d.cuda.String()
}

// String is the name, and tells the device from every other one.
func (d *Device) String() string {
	if d.isCPU() {
		return "cpu"
	}
	return fmt.Sprintf("%v(%p)", d.cuda, d)
}

// Describe returns what the device is: for a GPU its name, compute capability, memory and driver.
func (d *Device) Describe() string {
	if d.isCPU() {
		return "cpu"
	}
	return d.cuda.Properties().String()
}

// MemoryReport is what a device holds, in bytes.
type MemoryReport struct {
	Used  int64 // device memory in use by running passes and by tapes
	Peak  int64 // the largest value of Used
	Held  int64 // device memory taken from the card
	Limit int64 // bound of Held; 0: the card alone
	Free  int64 // free on the card, all programs counted
}

// Memory reports what the device holds; zeros for the CPU.
func (d *Device) Memory() (MemoryReport, error) {
	if d.isCPU() {
		return MemoryReport{}, nil
	}
	m, err := d.cuda.Memory()
	return MemoryReport{Used: m.Used, Peak: m.Peak, Held: m.Held, Limit: m.Limit, Free: m.Free}, deviceError(err)
}

// SetMemoryLimit bounds the device memory that is held, in bytes; 0 leaves the card as the only bound. A pass that does
// not fit is an error that says how many bytes were asked for; the device stays usable.
func (d *Device) SetMemoryLimit(bytes int64) error {
	if d.isCPU() {
		return fmt.Errorf("%w: the CPU has no memory limit to set", ErrConfig)
	}
	if bytes < 0 {
		return fmt.Errorf("%w: memory limit of %d bytes, expected 0 or more", ErrConfig, bytes)
	}
	return deviceError(d.cuda.SetMemoryLimit(bytes))
}

func deviceError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrDevice, err)
}

// engineOf returns the engine of a Config for the element type T.
func engineOf[T layout.Float](cfg Config) (layout.Engine[T], error) {
	if cfg.Device.isCPU() {
		return cpu.New[T](), nil
	}
	engine := cuda.NewEngine[T](cfg.Device.cuda, cuda.Precision(cfg.Precision))
	if cfg.ResidentDocs == nil {
		return engine, nil
	}
	resident, err := engine.With(cfg.ResidentDocs.docs)
	if err != nil {
		return nil, deviceError(err)
	}
	return resident, nil
}

// alloc returns n elements of unspecified content for a result: on a GPU, memory that is copied to without a detour.
func alloc[T layout.Float](cfg Config, n int) []T {
	if cfg.Device.isCPU() {
		return make([]T, n)
	}
	return cuda.Alloc[T](cfg.Device.cuda, n)
}

// The constants of both packages name the same precisions.
var _ = [1]struct{}{}[int(Float32)-int(cuda.Float32)|int(TF32)-int(cuda.TF32)|int(BF16)-int(cuda.BF16)|int(FP16)-int(cuda.FP16)]
