// Exact forward: the naive loop in the input's own precision, for float64, for short float32 rows, and as the repair of
// the split forward. Any dim, any alignment, no tensor cores.
//
//   for each document j, query row x:   s[u] = fma chain over k ascending of q[x,k] d[u,k]
//   argmax[x,j] = lowest u with s[u] = max;   part = sum over 4 rows (t0+t1)+(t2+t3)
//
// A CTA takes (document, 64 query rows) pairs, 64 document rows at a time, 16 coordinates at a time; a thread owns 4
// query rows (one slab) x 4 document rows. It deliberately does not prefetch: what needs speed takes the tensor cores.
#pragma once
#include "common.cuh"

constexpr int EXACT_ROWS = 64, EXACT_STEP = 16, EXACT_THREADS = 256;

template <class T> struct Best {
  T m;
  int u;  // INT_MAX: nothing above -infinity yet
  __device__ void see(T v, int at) {
    if (v > m || v != v) { m = v; u = at; }
  }
  __device__ void merge(T v, int at) {
    if (m != m) return;
    if (v > m || v != v || (v == m && at < u)) { m = v; u = at; }
  }
};

// True if the pair of this slab and document takes the exact path: always, or in the repair where a row is flagged.
__device__ __forceinline__ bool any_flag(maxsim_ptr flag, int lo, int hi) {
  int any = 0;
  for (int r = lo + threadIdx.x; r < hi; r += EXACT_THREADS) any |= __ldg(at<const uint8_t>(flag) + r);
  return __syncthreads_or(any);
}

template <class T> __device__ __forceinline__ void forward_exact(const ForwardParams& p) {
  __shared__ T qs[EXACT_STEP][EXACT_ROWS + 4], ds[EXACT_STEP][EXACT_ROWS + 4];
  const bool repair = p.qflag != 0;
  if (repair && p.flagged && *at<const uint32_t>(p.flagged) != (uint32_t)p.stamp) return;
  const int tid = threadIdx.x, tx = tid & 15, ty = tid >> 4;
  const int tiles = ((int)p.maxq + EXACT_ROWS - 1) / EXACT_ROWS, dim = (int)p.dim;
  const int* cud = at<const int>(p.cud);

  for (size_t w = blockIdx.x; w < (size_t)p.bd * tiles; w += gridDim.x) {
    const int j = (int)(w / tiles), c0 = __ldg(cud + j), len = __ldg(cud + j + 1) - c0;
    const Meets m = meets(p, j);
    const int x0 = m.lo + (int)(w % tiles) * EXACT_ROWS, x1 = min(x0 + EXACT_ROWS, m.hi);
    if (len == 0 || x0 >= m.hi) continue;
    bool mine = true;  // whether this thread's slab is to be written
    if (repair) {
      bool doc = any_flag(p.dflag, c0, c0 + len), rows = any_flag(p.qflag, x0, x1);
      if (!doc && !rows) continue;
      if (!doc) {
        mine = false;
        for (int r = x0 + 4 * ty; r < min(x0 + 4 * ty + 4, x1); r++) mine |= __ldg(at<const uint8_t>(p.qflag) + r) != 0;
      }
    }
    Best<T> best[4];
    for (int a = 0; a < 4; a++) best[a] = {(T)-INFINITY, INT_MAX};

    // This thread loads one coordinate of four rows of each side in every step.
    const int lk = tid & 15, lr = tid >> 4;
    const T *qrow[4], *drow[4];
    for (int a = 0; a < 4; a++) {
      int x = x0 + lr + 16 * a, from = x < x1 ? row_of(p.qmap, x) : -1;
      qrow[a] = from < 0 ? nullptr : at<const T>(p.q) + (size_t)from * p.ldq;
    }
    for (int u0 = 0; u0 < len; u0 += EXACT_ROWS) {
      for (int a = 0; a < 4; a++) {
        int u = u0 + lr + 16 * a;
        drow[a] = u < len ? at<const T>(p.d) + (size_t)row_of(p.dmap, c0 + u) * p.ldd : nullptr;
      }
      T acc[4][4] = {};
      for (int k0 = 0; k0 < dim; k0 += EXACT_STEP) {
        const bool in = k0 + lk < dim;
        for (int a = 0; a < 4; a++) {
          qs[lk][lr + 16 * a] = in && qrow[a] ? __ldg(qrow[a] + k0 + lk) : (T)0;
          ds[lk][lr + 16 * a] = in && drow[a] ? __ldg(drow[a] + k0 + lk) : (T)0;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < EXACT_STEP; k++) {
          T q[4], d[4];
#pragma unroll
          for (int a = 0; a < 4; a++) { q[a] = qs[k][4 * ty + a]; d[a] = ds[k][tx + 16 * a]; }
#pragma unroll
          for (int a = 0; a < 4; a++)
#pragma unroll
            for (int b = 0; b < 4; b++) acc[a][b] = fma(q[a], d[b], acc[a][b]);
        }
        __syncthreads();
      }
#pragma unroll
      for (int b = 0; b < 4; b++) {
        int u = u0 + tx + 16 * b;
        if (u >= len) continue;
#pragma unroll
        for (int a = 0; a < 4; a++) best[a].see(acc[a][b], u);
      }
    }
#pragma unroll
    for (int a = 0; a < 4; a++)
#pragma unroll
      for (int o = 8; o > 0; o >>= 1) {
        T v = __shfl_xor_sync(~0u, best[a].m, o);
        int u = __shfl_xor_sync(~0u, best[a].u, o);
        best[a].merge(v, u);
      }
    const int x = x0 + 4 * ty;
    if (tx != 0 || x >= x1 || !mine) continue;
    const size_t at0 = m.winner + (x - m.lo);
    T t[4];
#pragma unroll
    for (int a = 0; a < 4; a++) {
      bool valid = p.qmap == 0 || __ldg(at<const int>(p.qmap) + x + a) >= 0;
      bool none = best[a].u == INT_MAX || best[a].m != best[a].m;  // all -infinity, or NaN: the lowest token
      t[a] = valid ? best[a].m : (T)0;
      if (p.argmax) store_index(p.argmax, at0 + a, p.argbytes == 4, none ? 0 : best[a].u);
    }
    at<T>(p.part)[at0 / 4] = (t[0] + t[1]) + (t[2] + t[3]);
  }
}
