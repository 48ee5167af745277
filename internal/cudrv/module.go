//go:build maxsim_cuda && cgo && linux

package cudrv

/*
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

static CUresult cudrv_load(CUmodule *m, const void *image, char *log, size_t n) {
	CUjit_option option[2] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *value[2] = {log, (void *)(uintptr_t)n};
	return cuModuleLoadDataEx(m, image, 2, option, value);
}

static CUresult cudrv_dynamicShared(CUfunction f, int bytes) {
	return cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
}

// A kernel takes one struct, which the driver copies by the size that it knows of the kernel. The other way to pass
// parameters, CU_LAUNCH_PARAM_BUFFER_POINTER, gives wrong contents to a kernel whose struct is aligned to 64 bytes (seen
// on an H200 with driver 580).
static CUresult cudrv_launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
	unsigned bz, unsigned shared, CUstream s, void *params) {
	void *args[1] = {params};
	return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, s, args, NULL);
}

// cuLaunchKernelEx is not in the header before CUDA 11.8, but in every driver that knows compute capability 9.0. These are
// its CUlaunchConfig and CUlaunchAttribute.
typedef struct {
	unsigned id;
	unsigned pad;
	union {
		uint64_t size[8];
		int allowed;
	} value;
} launch_attribute;

typedef struct {
	unsigned grid[3], block[3], shared;
	CUstream stream;
	launch_attribute *attributes;
	unsigned count;
} launch_config;

typedef CUresult (*launch_ex)(const launch_config *, CUfunction, void **, void **);

enum { PROGRAMMATIC_STREAM_SERIALIZATION = 6 };

static CUresult cudrv_launchOverlapped(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
	unsigned bz, unsigned shared, CUstream s, void *params) {
	launch_ex launch = (launch_ex)dlsym(RTLD_DEFAULT, "cuLaunchKernelEx");
	if (launch == NULL) return CUDA_ERROR_NOT_FOUND;
	launch_attribute overlap = {.id = PROGRAMMATIC_STREAM_SERIALIZATION, .value.allowed = 1};
	launch_config config = {{gx, gy, gz}, {bx, by, bz}, shared, s, &overlap, 1};
	void *args[1] = {params};
	return launch(&config, f, args, NULL);
}
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	"gorgonia.org/cu"
)

// cu's handles are structs of one pointer; this does not compile if that changes.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(cu.Function{})-unsafe.Sizeof(uintptr(0))]
	_ = [1]struct{}{}[unsafe.Sizeof(cu.Module{})-unsafe.Sizeof(uintptr(0))]
	_ = [1]struct{}{}[unsafe.Sizeof(cu.Stream{})-unsafe.Sizeof(uintptr(0))]
)

func function(f cu.Function) C.CUfunction { return *(*C.CUfunction)(unsafe.Pointer(&f)) }
func stream(s cu.Stream) C.CUstream       { return *(*C.CUstream)(unsafe.Pointer(&s)) }

// logBytes holds the JIT's complaints about one image.
const logBytes = 8192

// Load loads a kernel image (PTX, cubin or fatbin) into the current context. Its error carries the JIT's log.
func Load(image string) (cu.Module, error) {
	text := C.CString(image) // copies NULs of a binary image and ends a text with one
	defer C.free(unsafe.Pointer(text))
	log := (*C.char)(C.calloc(1, logBytes))
	defer C.free(unsafe.Pointer(log))
	var m C.CUmodule
	if err := result(C.cudrv_load(&m, unsafe.Pointer(text), log, logBytes)); err != nil {
		if said := strings.TrimSpace(C.GoString(log)); said != "" {
			return cu.Module{}, fmt.Errorf("%w; the driver's compiler says: %s", err, said)
		}
		return cu.Module{}, err
	}
	return *(*cu.Module)(unsafe.Pointer(&m)), nil
}

// SetDynamicShared lets f be launched with up to the given bytes of dynamic shared memory; beyond 48 KiB the driver
// refuses a launch without it.
func SetDynamicShared(f cu.Function, bytes int) error {
	return result(C.cudrv_dynamicShared(function(f), C.int(bytes)))
}

// SharedPerBlock is the attribute, missing from cu, of the dynamic shared memory in bytes that a block may have after
// [SetDynamicShared].
const SharedPerBlock cu.DeviceAttribute = C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN

// Dim is the extent of a grid in blocks or of a block in threads.
type Dim struct{ X, Y, Z uint32 }

// Launch queues f on s. f has one parameter, a struct without pointers of Go, to which params points; it is copied before
// Launch returns.
func Launch(f cu.Function, grid, block Dim, shared uint32, s cu.Stream, params unsafe.Pointer) error {
	return result(C.cudrv_launch(function(f), C.uint(grid.X), C.uint(grid.Y), C.uint(grid.Z),
		C.uint(block.X), C.uint(block.Y), C.uint(block.Z), C.uint(shared), stream(s), params))
}

// LaunchOverlapped is [Launch] for a kernel that waits itself (griddepcontrol.wait) for the kernels before it in s: it may
// begin beside the last of them. Compute capability 9.0.
func LaunchOverlapped(f cu.Function, grid, block Dim, shared uint32, s cu.Stream, params unsafe.Pointer) error {
	return result(C.cudrv_launchOverlapped(function(f), C.uint(grid.X), C.uint(grid.Y), C.uint(grid.Z),
		C.uint(block.X), C.uint(block.Y), C.uint(block.Z), C.uint(shared), stream(s), params))
}
