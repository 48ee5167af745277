// Packing: the user's float32 rows, without masked and capacity rows, in the storage type of the forward.
// One warp a row. Every element of dst is written, so that padding is zero whatever memory held.
#pragma once
#include "common.cuh"

__device__ __forceinline__ void store_as(__nv_bfloat16* o, float v) { *o = __float2bfloat16_rn(v); }
__device__ __forceinline__ void store_as(__half* o, float v) { *o = __float2half_rn(v); }
__device__ __forceinline__ void store_as(float* o, float v) { *o = __uint_as_float(round_tf32(v)); }

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
struct SplitRow {
  float up;    // 2^s
  bool keep;   // the row's range can be stored; else it is stored as zeros and flagged
  float down;  // 2^-s
};
// top: the bit pattern of the largest magnitude; NaN and infinity compare above every finite one.
__device__ __forceinline__ SplitRow split_scale(unsigned top) {
  const int e = (int)(top >> 23) - 127;  // floor(log2 m); -127 for zero and denormals
  const bool keep = top == 0 || (e >= -40 && e < 40);
  const int s = keep && top ? 14 - e : 0;
  return {__uint_as_float((unsigned)(127 + s) << 23), keep, __uint_as_float((unsigned)(127 - s) << 23)};
}
__device__ __forceinline__ unsigned magnitude(float4 v) {
  return max(max(__float_as_uint(v.x) & 0x7fffffffu, __float_as_uint(v.y) & 0x7fffffffu),
             max(__float_as_uint(v.z) & 0x7fffffffu, __float_as_uint(v.w) & 0x7fffffffu));
}
// Elements k .. k+3 of a row of n, zero beyond it.
__device__ __forceinline__ float4 load4(const float* src, int k, int n, bool aligned) {
  float4 v = {0, 0, 0, 0};
  if (aligned && k < n) v = __ldg((const float4*)(src + k));
  else if (k < n) {
    v.x = src[k];
    if (k + 1 < n) v.y = src[k + 1];
    if (k + 2 < n) v.z = src[k + 2];
    if (k + 3 < n) v.w = src[k + 3];
  }
  return v;
}
// Stores both parts of elements k .. k+3; true if one of them is not represented well enough.
__device__ __forceinline__ bool store_split(__half* dst, int k, float4 v, const SplitRow& row) {
  const float x[4] = {v.x, v.y, v.z, v.w};
  __half hi[4], lo[4];
  bool poor = false;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float y = row.keep ? x[i] * row.up : 0.f;         // exact: a power of two, away from overflow
    hi[i] = __float2half_rn(y);
    const float rest = (y - __half2float(hi[i])) * 2048.f;  // exact
    lo[i] = __float2half_rn(rest);
    poor = poor || (fabsf(y) < 0x1p-14f && __half2float(lo[i]) != rest);
  }
  __half* o = dst + (k >> 5) * 64 + (k & 31);
  *(uint2*)o = *(const uint2*)hi;
  *(uint2*)(o + 32) = *(const uint2*)lo;
  return poor;
}

// Four rows a warp, their first 128 elements in registers, so that four rows are on their way at once.
__device__ __forceinline__ void pack_split(const PackParams& p) {
  constexpr int ROWS = 4;
  const int r0 = (blockIdx.x * 8 + (threadIdx.x >> 5)) * ROWS, lane = threadIdx.x & 31;
  const bool aligned = p.dim % 4 == 0;
  const float* src[ROWS];
  int n[ROWS];
  float4 v[ROWS];
#pragma unroll
  for (int i = 0; i < ROWS; i++) {
    const int from = r0 + i < p.rows ? row_of(p.map, r0 + i) : -1;
    n[i] = from >= 0 ? (int)p.dim : 0;
    src[i] = at<const float>(p.src) + (size_t)max(from, 0) * p.dim;
    v[i] = load4(src[i], 4 * lane, n[i], aligned);
  }
#pragma unroll
  for (int i = 0; i < ROWS; i++) {
    if (r0 + i >= p.rows) return;
    unsigned top = magnitude(v[i]);
    for (int k = 4 * lane + 128; k < n[i]; k += 128) top = max(top, magnitude(load4(src[i], k, n[i], aligned)));
    const SplitRow row = split_scale(__reduce_max_sync(~0u, top));
    __half* dst = at<__half>(p.dst) + (size_t)(r0 + i) * p.ld;
    bool flag = !row.keep;
    if (8 * lane < p.ld) flag |= store_split(dst, 4 * lane, v[i], row);
    for (int k = 4 * lane + 128; k < p.ld / 2; k += 128) flag |= store_split(dst, k, load4(src[i], k, n[i], aligned), row);
    flag = __any_sync(~0u, flag);
    if (lane == 0) {
      at<float>(p.scale)[r0 + i] = row.down;
      at<uint8_t>(p.flag)[r0 + i] = flag;
      if (flag) *at<uint32_t>(p.flagged) = 1;  // every writer writes the same
    }
  }
}

__device__ __forceinline__ void row_owner(const OwnerParams& p) {
  int s = blockIdx.x * 8 + (threadIdx.x >> 5), lane = threadIdx.x & 31;
  if (s >= p.n) return;
  const int* cu = at<const int>(p.cu);
  for (int r = cu[s] + lane; r < cu[s + 1]; r += 32) at<int>(p.owner)[r] = s;
}
