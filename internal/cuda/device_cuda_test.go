//go:build maxsim_cuda && cgo && linux

package cuda

import (
	"testing"

	"gorgonia.org/cu"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cudrv"
	"github.com/flash-maxsim/gorgonia-maxsim/internal/enginetest"
)

// openFirst opens the first GPU, real or the stand-in of internal/cudrv/standin, or skips the test and says why.
func openFirst(t testing.TB) *Device {
	t.Helper()
	if err := cudrv.InitError(); err != nil {
		t.Skip(err)
	}
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return d
}

// openAsAmpere opens the first GPU as if its compute capability were 8.0, whose kernels run on every later GPU.
func openAsAmpere(t testing.TB) *Device {
	t.Helper()
	about := openFirst(t).Properties()
	if about.Major == 8 {
		t.Skip("the GPU has these kernels anyway")
	}
	about.Major, about.Minor = 8, 0
	drv, err := newLibcuda(cu.Device(about.Ordinal), about)
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDevice(drv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return d
}

func TestConformance(t *testing.T)         { conformance(t, openFirst(t)) }
func TestConformanceAsAmpere(t *testing.T) { conformance(t, openAsAmpere(t)) }

func conformance(t *testing.T, d *Device) {
	t.Log(d.Properties())
	t.Run("float64", func(t *testing.T) { enginetest.Run(t, NewEngine[float64](d, Float32), enginetest.Options{}) })
	for precision, o := range map[Precision]enginetest.Options{
		Float32: {}, TF32: {Roundoff: 0x1p-11}, FP16: {Roundoff: 0x1p-11, Largest: 65504}, BF16: {Roundoff: 0x1p-8},
	} {
		t.Run(precision.String(), func(t *testing.T) { enginetest.Run(t, NewEngine[float32](d, precision), o) })
	}
}

func FuzzFloat32(f *testing.F) { enginetest.Fuzz(f, NewEngine[float32](openFirst(f), Float32)) }
func FuzzFloat64(f *testing.F) { enginetest.Fuzz(f, NewEngine[float64](openFirst(f), Float32)) }
