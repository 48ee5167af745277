//go:build maxsim_cuda && cgo && linux

package cudrv

/*
#cgo CFLAGS: -I/usr/local/cuda/include -I/opt/cuda/include -Wno-deprecated-declarations
#cgo LDFLAGS: -Wl,--wrap=cuInit
#cgo LDFLAGS: -L/usr/local/cuda/lib64/stubs -L/opt/cuda/lib64/stubs
#cgo amd64 LDFLAGS: -L/usr/lib/x86_64-linux-gnu/stubs
#cgo arm64 LDFLAGS: -L/usr/lib/aarch64-linux-gnu/stubs
#cgo LDFLAGS: -lcuda

#include <cuda.h>

// The result of the one call of cuInit that the program makes, from cu's package initialisation.
static CUresult initResult = CUDA_ERROR_NOT_INITIALIZED;

extern CUresult __real_cuInit(unsigned int flags);

CUresult __wrap_cuInit(unsigned int flags) {
	initResult = __real_cuInit(flags);
	return CUDA_SUCCESS;
}

static int cudrv_initResult(void) { return (int)initResult; }
*/
import "C"

import (
	"fmt"

	"gorgonia.org/cu"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cudrv/toolkit"
)

// InitError returns nil when the driver is ready, or why it is not, in the words of someone who can mend it.
// It wraps the driver's [Error].
func InitError() error {
	e := Error(C.cudrv_initResult())
	switch e {
	case 0:
		return nil
	case C.CUDA_ERROR_NO_DEVICE:
		return fmt.Errorf("no NVIDIA GPU is visible to the driver: %w", e)
	case C.CUDA_ERROR_STUB_LIBRARY:
		return fmt.Errorf("the toolkit's stub of libcuda was loaded in place of the NVIDIA driver's: %w", e)
	case C.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, C.CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
		return fmt.Errorf("libcuda and the kernel's NVIDIA driver do not fit together: %w", e)
	}
	return fmt.Errorf("the NVIDIA driver does not start: %w", e)
}

// DriverVersion is the newest CUDA version that the installed driver supports, 12040 for 12.4.
func DriverVersion() int { return cu.Version() }

// HeaderVersion is the version of the cuda.h that this program was built with, 11080 for 11.8.
const HeaderVersion = toolkit.HeaderVersion
