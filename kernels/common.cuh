// Offset arithmetic and small device functions that every kernel shares.
#pragma once
#include "device.cuh"
#include "params.cuh"

template <class T> __device__ __forceinline__ T* at(maxsim_ptr p) { return reinterpret_cast<T*>(p); }

// The query rows that one document meets, and where their winners are stored.
struct Meets {
  int lo, hi;     // compact query rows [lo, hi)
  size_t winner;  // index of the winner of row lo; a multiple of 4
};

// winner_base: all pairs store documents one after the other, totq winners each; grouped, query i's documents
// i*group ... each hold as many winners as the query has rows.
template <class P> __device__ __forceinline__ Meets meets(const P& p, int j) {
  if (p.group == 0) return {0, (int)p.totq, (size_t)j * p.totq};
  const int* cuq = at<const int>(p.cuq);
  int i = j / (int)p.group, k = j - i * (int)p.group, lo = __ldg(cuq + i), hi = __ldg(cuq + i + 1);
  return {lo, hi, (size_t)lo * p.group + (size_t)k * (hi - lo)};
}

__device__ __forceinline__ int row_of(maxsim_ptr map, int r) { return map ? __ldg(at<const int>(map) + r) : r; }

__device__ __forceinline__ unsigned load_index(maxsim_ptr base, size_t i, bool wide) {
  return wide ? __ldg(at<const uint32_t>(base) + i) : __ldg(at<const uint16_t>(base) + i);
}
__device__ __forceinline__ void store_index(maxsim_ptr base, size_t i, bool wide, unsigned v) {
  if (wide) at<uint32_t>(base)[i] = v; else at<uint16_t>(base)[i] = (uint16_t)v;
}

// The first s in [0,n] with cu[s] >= v, where v <= cu[n].
__device__ __forceinline__ int lower_bound(const int* cu, int n, int v) {
  int s = 0;
  while (s < n) {
    const int middle = s + (n - s) / 2;
    if (__ldg(cu + middle) < v) s = middle + 1; else n = middle;
  }
  return s;
}

// The same for two values v < cu[n], all lanes of a warp together. The first 32 probes lie where s would be if every
// sequence were as long as the average, so that equal lengths take one round; then 32 probes a round over what is left. The
// rounds of both values wait for memory together.
__device__ __forceinline__ void lower_bounds(int (&s)[2], const int* cu, int n, int total, const int (&v)[2], int lane) {
  int hi[2] = {n, n};
  s[0] = s[1] = 0;
  for (bool guess = true; s[0] < hi[0] || s[1] < hi[1]; guess = false) {
    int from[2], step[2];
    bool below[2];
#pragma unroll
    for (int e = 0; e < 2; e++) {
      from[e] = guess ? max(min((int)((float)v[e] * ((float)n / (float)total)) - 16, n - 32), 0) : s[e];
      step[e] = guess ? 1 : (hi[e] - s[e] + 31) >> 5;
      const int at = from[e] + lane * step[e];
      below[e] = at < hi[e] && __ldg(cu + min(at, n)) < v[e];
    }
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int count = __popc(__ballot_sync(~0u, below[e]));
      if (count > 0) s[e] = from[e] + (count - 1) * step[e] + 1;
      if (count < 32) hi[e] = min(hi[e], from[e] + count * step[e]);
    }
  }
}
