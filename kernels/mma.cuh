// mma.sync, ldmatrix and cp.async (sm_80 and later). A k-step is 32 bytes of a row whatever the type: sixteen 16-bit or
// eight tf32 elements lie in the same bytes of the same fragments.
#pragma once
#include "common.cuh"

struct Bf16 { static constexpr int BYTES = 2; static constexpr bool SPLIT = false; };
struct F16 { static constexpr int BYTES = 2; static constexpr bool SPLIT = false; };
struct Tf32 { static constexpr int BYTES = 4; static constexpr bool SPLIT = false; };
struct Split { static constexpr int BYTES = 2; static constexpr bool SPLIT = true; };  // 64 bytes of high parts, 64 of low

__device__ __forceinline__ uint32_t shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

#ifdef MAXSIM_EMULATE
#include "emulate/mma.h"
#else
#define MMA_SYNC(shape, types)                                                                                              \
  asm volatile("mma.sync.aligned." shape ".row.col." types " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"         \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                             \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

// d[16x8] += a[16 x 32 bytes] b[8 x 32 bytes]
template <class Op> __device__ __forceinline__ void mma(float* d, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same<Op, Bf16>::value) MMA_SYNC("m16n8k16", "f32.bf16.bf16.f32");
  else if constexpr (std::is_same<Op, Tf32>::value) MMA_SYNC("m16n8k8", "f32.tf32.tf32.f32");
  else MMA_SYNC("m16n8k16", "f32.f16.f16.f32");
}
__device__ __forceinline__ void ldmatrix4(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
__device__ __forceinline__ void copy16(uint32_t to, const void* from, bool in) {  // 16 bytes, zeros if not in
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(in ? 16 : 0) : "memory");
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
#endif

// Rows of 128 bytes in shared memory, their eight 16-byte pieces permuted by the row so that ldmatrix meets no bank twice.
__device__ __forceinline__ uint32_t swizzled(int row, int piece) { return row * 128 + ((piece ^ (row & 7)) << 4); }
