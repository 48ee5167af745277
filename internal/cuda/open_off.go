//go:build !(maxsim_cuda && cgo && linux)

package cuda

import "errors"

// Built reports whether this program contains the CUDA engine.
const Built = false

// Open returns an error: this program was built without the CUDA engine.
func Open(ordinal int) (*Device, error) {
	return nil, errors.New("this program was built without CUDA: build it on Linux with -tags maxsim_cuda and cgo enabled")
}
