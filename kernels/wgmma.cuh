// Hopper instructions: mbarriers, tensor map copies, warpgroup products, register reallocation (sm_90a).
#pragma once
#include <cstdint>

// Shared memory descriptor: rows of 128 bytes, 128-byte swizzle, atoms of eight rows (1024 bytes apart). Only the low
// word depends on the address (below 2^18), so moving by `off` bytes is one 32-bit add.
__device__ __forceinline__ uint64_t descriptor(uint32_t address, uint32_t off) {
  return (uint64_t)(((address >> 4) | (1u << 16)) + (off >> 4)) | ((uint64_t)0x40000040u << 32);
}

#ifdef MAXSIM_EMULATE
#include "emulate/wgmma.h"
#else
__device__ __forceinline__ void barrier_init(uint32_t bar, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_init_done() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void barrier_expect(uint32_t bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint32_t bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void barrier_wait(uint32_t bar, int parity) {
  asm volatile(
      "{\n.reg .pred P1;\nLAB_WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n"
      "@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}\n" ::"r"(bar), "r"(parity) : "memory");
}
// What the L2 does with lines that are read once: they are the first to leave, so that a stream of documents does not
// push out what others left there (nor wait for their dirty lines to be written back). Else: as usual.
__device__ __forceinline__ uint64_t read_policy(bool once) {
  uint64_t first, normal;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first));
  asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(normal));
  return once ? first : normal;
}
// Brings a tensor map near, so that the first box does not wait for it.
__device__ __forceinline__ void touch_map(const void* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
// One box of a tensor map into shared memory; x: first half-word of the row, y: first row. Outside is zero.
__device__ __forceinline__ void copy_box(uint32_t to, const void* map, uint32_t bar, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
               "l"(map), "r"(bar), "r"(x), "r"(y) : "memory");
}
__device__ __forceinline__ void copy_box(uint32_t to, const void* map, uint32_t bar, int x, int y, uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
               "l"(map), "r"(bar), "r"(x), "r"(y), "l"(policy) : "memory");
}

__device__ __forceinline__ void warpgroup_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ __forceinline__ void warpgroup_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
template <int N> __device__ __forceinline__ void registers_up() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> __device__ __forceinline__ void registers_down() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
// Keeps the compiler from moving reads of the accumulators across an issue or a wait.
template <int N> __device__ __forceinline__ void pin(float (&a)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(a[i])::"memory");
}

// d[64x128] (+)= a[64 x 32 bytes] b[128 x 32 bytes]; add: 0 overwrites.
#define WGMMA_ACC(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define WGMMA(shape, tail)                                                                                                          \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned." shape                                      \
               " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30," \
               "%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59," \
               "%60,%61,%62,%63}, %64, %65, p, 1, 1" tail ";\n}\n"                                                                  \
               : WGMMA_ACC(d, 0), WGMMA_ACC(d, 8), WGMMA_ACC(d, 16), WGMMA_ACC(d, 24), WGMMA_ACC(d, 32), WGMMA_ACC(d, 40),          \
                 WGMMA_ACC(d, 48), WGMMA_ACC(d, 56)                                                                                 \
               : "l"(a), "l"(b), "r"(add))
// The same in f16 with a in registers (the fragment of mma m16n8k16, 16 rows a warp).
__device__ __forceinline__ void wgmma_f16(float (&d)[64], const uint32_t (&a)[4], uint64_t b, int add) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16"
               " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,"
               "%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,"
               "%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, p, 1, 1, 0;\n}\n"
               : WGMMA_ACC(d, 0), WGMMA_ACC(d, 8), WGMMA_ACC(d, 16), WGMMA_ACC(d, 24), WGMMA_ACC(d, 32), WGMMA_ACC(d, 40),
                 WGMMA_ACC(d, 48), WGMMA_ACC(d, 56)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
template <class Op> __device__ __forceinline__ void wgmma(float (&d)[64], uint64_t a, uint64_t b, int add) {
  if constexpr (std::is_same<Op, Bf16>::value) WGMMA("m64n128k16.f32.bf16.bf16", ", 0, 0");
  else if constexpr (std::is_same<Op, Tf32>::value) WGMMA("m64n128k8.f32.tf32.tf32", "");
  else WGMMA("m64n128k16.f32.f16.f16", ", 0, 0");
}
#endif
