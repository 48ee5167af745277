// The instructions of ../wgmma.cuh.
#pragma once
#include "product.h"

inline void barrier_init(uint32_t bar, int arrivals) { emulate::mbarrier_init(bar, arrivals); }
inline void barrier_init_done() {}
inline void barrier_expect(uint32_t bar, int bytes) { emulate::mbarrier_arrive("mbarrier.arrive.expect_tx", bar, bytes); }
inline void barrier_arrive(uint32_t bar) { emulate::mbarrier_arrive("mbarrier.arrive", bar, 0); }
inline void barrier_wait(uint32_t bar, int parity) { emulate::mbarrier_wait(bar, parity); }
inline uint64_t read_policy(bool) { return 0; }
inline void touch_map(const void*) {}
inline void copy_box(uint32_t to, const void* map, uint32_t bar, int x, int y) { emulate::copy_box({to, bar, map, x, y}); }
inline void copy_box(uint32_t to, const void* map, uint32_t bar, int x, int y, uint64_t) { emulate::copy_box({to, bar, map, x, y}); }

inline void warpgroup_fence() { emulate::product_fence(); }
inline void warpgroup_commit() { emulate::product_commit(); }
template <int N> inline void warpgroup_wait() { emulate::product_wait(N); }
template <int N> inline void registers_up() { emulate::set_registers("setmaxnreg.inc", true, N); }
template <int N> inline void registers_down() { emulate::set_registers("setmaxnreg.dec", false, N); }
template <int N> inline void pin(float (&)[N]) {}  // accumulators live in memory here, and every instruction is a call

template <class Op> inline void wgmma(float (&d)[64], uint64_t a, uint64_t b, int add) {
  emulate::wgmma(std::is_same<Op, Bf16>::value ? emulate::Product::BF16 : std::is_same<Op, Tf32>::value ? emulate::Product::TF32 : emulate::Product::F16, d, a, nullptr, b, add);
}
inline void wgmma_f16(float (&d)[64], const uint32_t (&a)[4], uint64_t b, int add) { emulate::wgmma(emulate::Product::F16, d, 0, a, b, add); }
