//go:build maxsim_cuda && cgo && linux

package cudrv

// #include <cuda.h>
import "C"

import (
	"errors"
	"fmt"
	"reflect"

	"gorgonia.org/cu"
)

// Error is a CUresult with the driver's own name and text.
type Error int

// The results that callers treat apart from the rest.
const (
	OutOfMemory        Error = C.CUDA_ERROR_OUT_OF_MEMORY
	NoBinaryForGPU     Error = C.CUDA_ERROR_NO_BINARY_FOR_GPU
	NotReady           Error = C.CUDA_ERROR_NOT_READY
	UnsupportedVersion Error = C.CUDA_ERROR_UNSUPPORTED_PTX_VERSION
)

func (e Error) Error() string {
	var name, text *C.char
	if C.cuGetErrorName(C.CUresult(e), &name) != C.CUDA_SUCCESS || C.cuGetErrorString(C.CUresult(e), &text) != C.CUDA_SUCCESS {
		return fmt.Sprintf("CUresult %d", int(e))
	}
	return fmt.Sprintf("%s (%d): %s", C.GoString(name), int(e), C.GoString(text))
}

func result(r C.CUresult) error {
	if r == C.CUDA_SUCCESS {
		return nil
	}
	return Error(r)
}

// Explain turns the error of a call of gorgonia.org/cu, which prints a bare name, into an [Error]. Other errors and
// nil pass through.
func Explain(err error) error {
	var e Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	if t := reflect.TypeOf(err); t == reflect.TypeOf(cu.Success) {
		return Error(reflect.ValueOf(err).Int())
	}
	return err
}
