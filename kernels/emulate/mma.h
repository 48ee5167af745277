// The instructions of ../mma.cuh. Lane 4g+q of a fragment: see product.h.
#pragma once
#include "product.h"

template <class Op> inline void mma(float* d, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulate::mma_sync(std::is_same<Op, Bf16>::value ? emulate::Product::BF16 : std::is_same<Op, Tf32>::value ? emulate::Product::TF32 : emulate::Product::F16, d, a, b0, b1);
}
inline void ldmatrix4(uint32_t (&r)[4], uint32_t address) { emulate::ldmatrix4(r, address); }
inline void copy16(uint32_t to, const void* from, bool in) { emulate::copy16(to, in ? from : nullptr); }
inline void copy_commit() { emulate::self->groups++; }
template <int N> inline void copy_wait() { emulate::wait_copies(N); }
