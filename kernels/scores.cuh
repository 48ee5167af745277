// scores[i,k] = sum of the slab sums of query i in document j. Eight threads a pair: thread l adds slabs l, l+8, l+16 ...
// of the query, then a tree over the eight. The order depends on nothing but the token's place in its own query.
#pragma once
#include "common.cuh"

template <class T> __device__ __forceinline__ void scores(const ScoresParams& p) {
  const size_t cols = p.group ? p.group : p.bd, pair = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) >> 3;
  const bool in = pair < (size_t)p.bq * cols;
  const int l = threadIdx.x & 7;
  T sum = 0;
  int i = 0, j = 0;
  if (in) {
    if (p.group) { j = (int)pair; i = j / (int)p.group; } else { j = (int)(pair / p.bq); i = (int)(pair % p.bq); }
    const int* cuq = at<const int>(p.cuq);
    const int* cud = at<const int>(p.cud);
    const int lo = __ldg(cuq + i), slabs = (__ldg(cuq + i + 1) - lo) / MAXSIM_SLAB;
    const Meets m = meets(p, j);
    const T* part = at<const T>(p.part) + (m.winner + (lo - m.lo)) / MAXSIM_SLAB;
    if (__ldg(cud + j) < __ldg(cud + j + 1))
      for (int s = l; s < slabs; s += 8) sum += __ldg(part + s);
  }
#pragma unroll
  for (int o = 1; o < 8; o <<= 1) sum += __shfl_xor_sync(~0u, sum, o);
  if (in && l == 0) at<T>(p.scores)[(size_t)i * cols + (p.group ? j - i * (int)p.group : j)] = sum;
}
