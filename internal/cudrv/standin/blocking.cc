// The calls of kernels/dev/check that the engine does not make: copies and fills of the default stream, done at once.
// Streams stay lazy: cuCtxSynchronize waits for nothing that was put into one.
#include <cuda.h>
#include <cstdio>
#include <cstring>
#include "standin.h"

static CUresult at_once(void *to, const void *from, CUdeviceptr device, size_t n) {
	try {
		device_memory(device, n, "blocking copy");
	} catch (const Violation &v) {
		fprintf(stderr, "stand-in: %s\n", v.what());
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	}
	memcpy(to, from, n);
	return CUDA_SUCCESS;
}

extern "C" {

CUresult cuCtxSynchronize(void) { return CUDA_SUCCESS; }
CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t n) { return at_once((void *)to, from, to, n); }
CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t n) { return at_once(to, (const void *)from, from, n); }
CUresult cuMemsetD8(CUdeviceptr to, unsigned char v, size_t n) {
	const std::string fill(n, (char)v);
	return cuMemcpyHtoD(to, fill.data(), n);
}
CUresult cuModuleLoadData(CUmodule *m, const void *image) { return cuModuleLoadDataEx(m, image, 0, nullptr, nullptr); }

}  // extern "C"
