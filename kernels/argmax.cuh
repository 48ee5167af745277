// The argmax as the user counts it: masked tokens counted, in the order [query, column, token]. out holds -1 before.
#pragma once
#include "common.cuh"

__device__ __forceinline__ void argmax_expand(const ArgmaxParams& p) {
  const int rows = (int)(gridDim.x / p.bd);  // CTAs a document
  const int j = blockIdx.x / rows, n = (blockIdx.x % rows) * 256 + threadIdx.x;
  const Meets m = meets(p, j);
  const int x = m.lo + n, c0 = __ldg(at<const int>(p.cud) + j), c1 = __ldg(at<const int>(p.cud) + j + 1);
  if (x >= m.hi || c0 == c1) return;
  const int from = row_of(p.qmap, x);
  if (from < 0) return;
  const int i = __ldg(at<const int>(p.qowner) + x), k = p.group ? j - i * (int)p.group : j;
  const int* ucuq = at<const int>(p.ucuq);
  const int lo = __ldg(ucuq + i), tokens = __ldg(ucuq + i + 1) - lo;
  const int u = row_of(p.dmap, c0 + (int)load_index(p.argmax, m.winner + n, p.argbytes == 4)) - __ldg(at<const int>(p.ucud) + j);
  at<int>(p.out)[(size_t)lo * (p.group ? p.group : p.bd) + (size_t)k * tokens + (from - lo)] = u;
}
