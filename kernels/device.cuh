// What the device has and C++ has not: kernels, dynamic shared memory, and single instructions by name. With mma.cuh and
// wgmma.cuh this is all that emulate/ replaces to run the kernels on a CPU.
#pragma once
#ifdef MAXSIM_EMULATE
#include "emulate/device.h"
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>

// Overlapped launches (README.md, "Overlap"; compute capability 9.0 and later, nothing elsewhere): holds the thread until
// all that was launched before has ended and its results are here, then lets the next launch begin beside this one. In
// this order, so that a kernel that begins has at most one other under way before it.
__device__ __forceinline__ void await_earlier_launches() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\ngriddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// A kernel is a template body and a plain name for the host: KERNEL(name, Params, threads, CTAs per SM, body<...>).
// PRELUDE_KERNEL is for a body that awaits earlier launches itself, after a prelude that needs none of their results.
#define PRELUDE_KERNEL(name, Params, threads, percm, ...) \
  extern "C" __global__ void __launch_bounds__(threads, percm) name(const __grid_constant__ Params p) { __VA_ARGS__(p); }
#define KERNEL(name, Params, threads, percm, ...)                                                       \
  extern "C" __global__ void __launch_bounds__(threads, percm) name(const __grid_constant__ Params p) { \
    await_earlier_launches();                                                                           \
    __VA_ARGS__(p);                                                                                     \
  }

// The shared memory that the launch asks for, as an array of bytes.
#define DYNAMIC_SHARED(alignment, name) extern __shared__ __align__(alignment) uint8_t name[]

__device__ __forceinline__ uint32_t dynamic_shared_bytes() {
  uint32_t bytes;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  return bytes;
}

// Reads blockIdx.x and gridDim.x anew: where registers are scarce they must not be kept.
__device__ __forceinline__ void place_in_grid(unsigned& cta, unsigned& ctas) {
  asm volatile("mov.u32 %0, %%ctaid.x;\nmov.u32 %1, %%nctaid.x;" : "=r"(cta), "=r"(ctas));
}

// Bytes of query rows that are read from the L2 again and again at the same time, while documents stream through it. A
// sixth of the 50 MB of an H100, because rows that multiprocessors on both sides of it read can lie there twice.
constexpr int HELD_QUERY_BYTES = 8 << 20;

// The larger one, NaN if one of them is.
__device__ __forceinline__ float max_nan(float a, float b) {
  float m;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
  return m;
}

// where t > m: column = column*zero + c, first = v*one; then m = max_nan(m, t). Without a branch or a select.
__device__ __forceinline__ void max_take(float t, float& m, float& column, float& first, float c, float v, float one, float zero) {
  asm("{\n.reg .pred p;\nsetp.gt.f32 p, %3, %0;\nmax.NaN.f32 %0, %0, %3;\n@p fma.rn.f32 %1, %1, %7, %5;\n@p mul.rn.f32 %2, %4, %6;\n}\n"
      : "+f"(m), "+f"(column), "+f"(first) : "f"(t), "f"(one), "f"(c), "f"(v), "f"(zero));
}

// tf32: 10 bits of mantissa, ties away from zero.
__device__ __forceinline__ uint32_t round_tf32(float v) {
  uint32_t t;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(t) : "f"(v));
  return t;
}

// v = 16 bytes at from, if in: predicated, not a branch, so that several loads can be in flight.
__device__ __forceinline__ void load16_if(uint4& v, const void* from, bool in) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n@p ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];\n}\n"
               : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w) : "l"(from), "r"((int)in));
}

// Reads a float where it is written, neither earlier nor later.
__device__ __forceinline__ float load_here(const float* from) {
  float f;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(f) : "l"(from) : "memory");
  return f;
}
// Brings a float near.
__device__ __forceinline__ void touch(const float* from) {
  float f;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(f) : "l"(from));
}

// Shared memory by address.
__device__ __forceinline__ float load_shared(uint32_t address) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ void store_shared(uint32_t address, float v) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(v) : "memory");
}

// A barrier of THREADS threads, from 1 to 15: those that wait at it, and those that only announce that they came by.
template <int THREADS> __device__ __forceinline__ void sync_threads(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}
template <int THREADS> __device__ __forceinline__ void announce_threads(int barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}
#endif
