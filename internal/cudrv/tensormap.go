//go:build maxsim_cuda && cgo && linux

package cudrv

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// cuTensorMapEncodeTiled is not in the header of CUDA 11, but in every driver that knows compute capability 9.0.
typedef CUresult (*encode_tiled)(void *map, int type, uint32_t rank, void *address, const uint64_t *dims,
	const uint64_t *strides, const uint32_t *box, const uint32_t *elementStrides, int interleave, int swizzle,
	int promotion, int fill);

enum { TYPE_UINT16 = 1, INTERLEAVE_NONE = 0, SWIZZLE_128B = 3, PROMOTION_256B = 3, FILL_NONE = 0 };

static CUresult cudrv_encodeRows(void *out, CUdeviceptr address, uint64_t rowBytes, uint64_t rows, uint32_t boxRows) {
	encode_tiled encode = (encode_tiled)dlsym(RTLD_DEFAULT, "cuTensorMapEncodeTiled");
	if (encode == NULL) return CUDA_ERROR_NOT_FOUND;
	_Alignas(64) unsigned char map[128];
	const uint64_t dims[2] = {rowBytes / 2, rows}, strides[1] = {rowBytes};
	const uint32_t box[2] = {64, boxRows}, steps[2] = {1, 1};
	CUresult r = encode(map, TYPE_UINT16, 2, (void *)(uintptr_t)address, dims, strides, box, steps, INTERLEAVE_NONE,
		SWIZZLE_128B, PROMOTION_256B, FILL_NONE);
	memcpy(out, map, sizeof map);
	return r;
}
*/
import "C"

import (
	"unsafe"

	"gorgonia.org/cu"
)

// EncodeRows describes a matrix of rows to the copy engine of compute capability 9.0: 2-byte elements, boxes of 64 of
// them (128 bytes) by boxRows rows, 128-byte swizzle, zeros beyond the end. rowBytes is a multiple of 16.
func EncodeRows(out *[128]byte, a cu.DevicePtr, rowBytes, rows int64, boxRows int) error {
	return result(C.cudrv_encodeRows(unsafe.Pointer(out), C.CUdeviceptr(a), C.uint64_t(rowBytes), C.uint64_t(rows), C.uint32_t(boxRows)))
}
