//go:build maxsim_cuda && cgo && linux

// Package toolkit finds cuda.h. It imports nothing, so that its word on what is missing appears in the output of a
// build that fails in gorgonia.org/cu for the same reason.
package toolkit

/*
#cgo CFLAGS: -I/usr/local/cuda/include -I/opt/cuda/include
#if !__has_include(<cuda.h>)
#error "cuda.h not found: install the CUDA toolkit, or set CGO_CFLAGS=-I<toolkit>/include (see package internal/cudrv)"
#endif
#include <cuda.h>
#if CUDA_VERSION >= 13000 && !defined(MAXSIM_CUDA13_H)
#error "CUDA 13 or newer: set CGO_CFLAGS=-I<this module>/internal/cudrv/cuda13 (see package internal/cudrv)"
#endif
*/
import "C"

// HeaderVersion is the version of the cuda.h that this program was built with, 11080 for 11.8.
const HeaderVersion = C.CUDA_VERSION
