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

// First s in [0,n] with cu[s] >= v, given cu[n] >= v; 32 probes a round, all lanes of a warp together.
__device__ __forceinline__ int lower_bound(const int* cu, int n, int v, int lane) {
  int lo = 0, hi = n;
  while (lo < hi) {
    int step = (hi - lo + 31) >> 5, at = lo + lane * step;
    int cnt = __popc(__ballot_sync(~0u, at < hi && __ldg(cu + min(at, n)) < v));
    if (cnt == 0) return lo;
    hi = min(hi, lo + cnt * step);
    lo += (cnt - 1) * step + 1;
  }
  return lo;
}
