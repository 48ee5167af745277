//go:build maxsim_cuda && cgo && linux

package cudrv

/*
#include <cuda.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

// 64 bytes a round, and the rest by memcpy. The fence orders the stores before the call that has the device read them.
static void cudrv_copy_uncached(void *dst, const void *src, size_t n) {
	size_t k = 0;
#ifdef __SSE2__
	for (; k + 64 <= n; k += 64) {
		const __m128i *s = (const __m128i *)((const char *)src + k);
		__m128i *d = (__m128i *)((char *)dst + k);
		__m128i a = _mm_loadu_si128(s), b = _mm_loadu_si128(s + 1), c = _mm_loadu_si128(s + 2), e = _mm_loadu_si128(s + 3);
		_mm_stream_si128(d, a);
		_mm_stream_si128(d + 1, b);
		_mm_stream_si128(d + 2, c);
		_mm_stream_si128(d + 3, e);
	}
	_mm_sfence();
#endif
	memcpy((char *)dst + k, (const char *)src + k, n - k);
}

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

// CopyUncached copies src to the beginning of dst, which a device is about to read and no processor is: on amd64 past
// the caches, so that dst's old content is not fetched and nothing else is driven out of them. dst starts at a multiple
// of 16 bytes.
func CopyUncached(dst, src []byte) {
	if len(src) > 0 {
		C.cudrv_copy_uncached(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), C.size_t(len(src)))
	}
}

// HostRegister locks the pages of [p, p+bytes) so that copies to and from them are direct and asynchronous. The
// memory must stay allocated until [HostUnregister]: for Go memory the caller keeps it reachable.
func HostRegister(p unsafe.Pointer, bytes int64) error {
	return result(C.cuMemHostRegister(p, C.size_t(bytes), C.CU_MEMHOSTREGISTER_PORTABLE))
}

// HostUnregister undoes [HostRegister] for the memory that starts at p, a number so that the caller need not hold a
// pointer. No copy to or from the memory may be under way.
func HostUnregister(p uintptr) error { return result(C.cudrv_unregister(C.uintptr_t(p))) }
