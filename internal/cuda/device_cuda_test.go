//go:build maxsim_cuda && cgo && linux

package cuda

import (
	"testing"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/enginetest"
)

// openFirst opens the first GPU, real or the stand-in of internal/cudrv/standin, or skips the test and says why.
func openFirst(t testing.TB) *Device {
	t.Helper()
	d, err := Open(0)
	if err != nil {
		t.Skipf("no CUDA device: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return d
}

func TestConformance(t *testing.T) {
	d := openFirst(t)
	t.Log(d.Properties())
	t.Run("float64", func(t *testing.T) { enginetest.Run(t, NewEngine[float64](d, Float32), enginetest.Options{}) })
	for precision, o := range map[Precision]enginetest.Options{
		Float32: {}, TF32: {Roundoff: 0x1p-11}, FP16: {Roundoff: 0x1p-11, Largest: 65504}, BF16: {Roundoff: 0x1p-8},
	} {
		t.Run(precision.String(), func(t *testing.T) { enginetest.Run(t, NewEngine[float32](d, precision), o) })
	}
}
