/* The toolkit's cuda.h, with five names put back to the signatures they had before CUDA 13.
 *
 * gorgonia.org/cu v0.9.6 calls these by their plain names with the older arguments. CUDA 13 maps the plain names to
 * newer entry points; the driver still exports the older ones, so undoing the mapping is enough. A sixth,
 * cuEventElapsedTime, is put back so that the program also starts with a driver for CUDA 12. Earlier toolkits are
 * passed through untouched. Put this folder first on the include path: see the documentation of package cudrv.
 */
#ifndef MAXSIM_CUDA13_H
#define MAXSIM_CUDA13_H

#include_next <cuda.h>

#if CUDA_VERSION >= 13000
#undef cuCtxCreate
#undef cuMemAdvise
#undef cuMemPrefetchAsync
#undef cuGraphGetEdges
#undef cuGraphAddDependencies
#undef cuEventElapsedTime
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);
CUresult CUDAAPI cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUdevice);
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr, size_t, CUdevice, CUstream);
CUresult CUDAAPI cuGraphGetEdges(CUgraph, CUgraphNode *, CUgraphNode *, size_t *);
CUresult CUDAAPI cuGraphAddDependencies(CUgraph, const CUgraphNode *, const CUgraphNode *, size_t);
CUresult CUDAAPI cuEventElapsedTime(float *, CUevent, CUevent);
#define cuCtxCreate cuCtxCreate_v2
#endif

#endif
