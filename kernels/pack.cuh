// Packing: the user's float32 rows, without masked and capacity rows, in the storage type of the forward.
// One warp a row. Every element of dst is written, so that padding is zero whatever memory held.
#pragma once
#include "common.cuh"

__device__ __forceinline__ void store_as(__nv_bfloat16* o, float v) { *o = __float2bfloat16_rn(v); }
__device__ __forceinline__ void store_as(__half* o, float v) { *o = __float2half_rn(v); }
__device__ __forceinline__ void store_as(float* o, float v) {  // tf32: 10 bits of mantissa, ties away from zero
  uint32_t t;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(t) : "f"(v));
  *o = __uint_as_float(t);
}

template <class T> __device__ __forceinline__ void pack(const PackParams& p) {
  int r = blockIdx.x * 8 + (threadIdx.x >> 5), lane = threadIdx.x & 31;
  if (r >= p.rows) return;
  int from = row_of(p.map, r);
  const float* src = at<const float>(p.src) + (size_t)max(from, 0) * p.dim;
  T* dst = at<T>(p.dst) + (size_t)r * p.ld;
  for (int k = lane; k < p.ld; k += 32) store_as(dst + k, from >= 0 && k < p.dim ? __ldg(src + k) : 0.f);
}

// A float32 x of a row whose largest magnitude is m is stored as two halves of x*2^s, s = 14 - floor(log2 m):
//
//   high = half(x 2^s)          low = half((x 2^s - high) 2^11)          x ~ (high + low 2^-11) 2^-s
//
// With 2^14 <= m 2^s < 2^15 the error is at most max(2^-22 |x|, 2^-36 2^-s): relative 2^-22 for every x above
// 2^-29 m. A row is flagged, and its pairs computed exactly, if an element below that is not represented exactly, if
// it holds an infinity or a NaN, or if m is outside [2^-40, 2^40], where a scaled product could leave float32's range.
// The decision looks at nothing but the row, so that a pair's bits do not depend on its batch.
__device__ __forceinline__ void pack_split(const PackParams& p) {
  int r = blockIdx.x * 8 + (threadIdx.x >> 5), lane = threadIdx.x & 31;
  if (r >= p.rows) return;
  int from = row_of(p.map, r);
  const float* src = at<const float>(p.src) + (size_t)max(from, 0) * p.dim;
  __half* dst = at<__half>(p.dst) + (size_t)r * p.ld;
  int n = from >= 0 ? (int)p.dim : 0;

  unsigned top = 0;  // bit pattern of the largest magnitude; NaN and infinity compare above every finite one
  for (int k = lane; k < n; k += 32) top = max(top, __float_as_uint(__ldg(src + k)) & 0x7fffffffu);
  top = __reduce_max_sync(~0u, top);
  int e = (int)(top >> 23) - 127;  // floor(log2 m); -127 for zero and denormals
  bool flag = top != 0 && (e < -40 || e >= 40);
  int s = flag || top == 0 ? 0 : 14 - e;
  float up = __uint_as_float((unsigned)(127 + s) << 23);

  for (int k = lane; k < p.ld / 2; k += 32) {
    float x = k < n && !flag ? __ldg(src + k) * up : 0.f;  // exact: a power of two, away from overflow
    __half hi = __float2half_rn(x);
    float rest = (x - __half2float(hi)) * 2048.f;          // exact
    __half lo = __float2half_rn(rest);
    flag = flag || (fabsf(x) < 0x1p-14f && __half2float(lo) != rest);
    __half* o = dst + (k >> 5) * 64 + (k & 31);
    o[0] = hi;
    o[32] = lo;
  }
  flag = __any_sync(~0u, flag);
  if (lane == 0) {
    at<float>(p.scale)[r] = __uint_as_float((unsigned)(127 - s) << 23);
    at<uint8_t>(p.flag)[r] = flag;
    if (flag) *at<uint32_t>(p.flagged) = 1;  // every writer writes the same
  }
}

__device__ __forceinline__ void row_owner(const OwnerParams& p) {
  int s = blockIdx.x * 8 + (threadIdx.x >> 5), lane = threadIdx.x & 31;
  if (s >= p.n) return;
  const int* cu = at<const int>(p.cu);
  for (int r = cu[s] + lane; r < cu[s + 1]; r += 32) at<int>(p.owner)[r] = s;
}
