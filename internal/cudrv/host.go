//go:build maxsim_cuda && cgo && linux

package cudrv

/*
#include <cuda.h>
#include <stdint.h>

static CUresult cudrv_unregister(uintptr_t p) { return cuMemHostUnregister((void *)p); }
*/
import "C"

import "unsafe"

// HostAlloc returns page-locked host memory, visible as such to every context. Release it with [HostFree].
func HostAlloc(bytes int64) (unsafe.Pointer, error) {
	var p unsafe.Pointer
	err := result(C.cuMemHostAlloc(&p, C.size_t(bytes), C.CU_MEMHOSTALLOC_PORTABLE))
	return p, err
}

// HostFree releases what [HostAlloc] returned.
func HostFree(p unsafe.Pointer) error { return result(C.cuMemFreeHost(p)) }

// HostRegister locks the pages of [p, p+bytes) so that copies to and from them are direct and asynchronous. The
// memory must stay allocated until [HostUnregister]: for Go memory the caller keeps it reachable.
func HostRegister(p unsafe.Pointer, bytes int64) error {
	return result(C.cuMemHostRegister(p, C.size_t(bytes), C.CU_MEMHOSTREGISTER_PORTABLE))
}

// HostUnregister undoes [HostRegister] for the memory that starts at p, a number so that the caller need not hold a
// pointer. No copy to or from the memory may be under way.
func HostUnregister(p uintptr) error { return result(C.cudrv_unregister(C.uintptr_t(p))) }
