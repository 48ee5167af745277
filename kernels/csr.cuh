// The inverse grid: for each document token the query rows that chose it, ascending. A stable counting sort of one
// document's winners by token; shared-memory atomics only count, no result depends on their order.
//
//   fused              one CTA a document: count, scan, place. For many documents of at most utile rows.
//   count, scan, place (document, part of its query rows, utile rows) a CTA: uses the whole chip when documents are few
//                      and long. counts[s,r] becomes the place of the first entry of part s in row r.
//
// Placing: a warp owns a contiguous chunk of query rows and walks it 32 at a time; __match_any_sync ranks equal tokens
// inside the 32, the warp's own counter ranks them across steps, and the scan over warps ranks them across chunks.
#pragma once
#include "common.cuh"

constexpr int CSR_THREADS = 512, CSR_WARPS = CSR_THREADS / 32;

// Reads of one document's winners: token of query row x, or -1 for a padding row.
struct Winners {
  maxsim_ptr argmax, qmap;
  size_t base;
  int lo;
  bool wide;
  __device__ int operator[](int x) const {
    if (qmap && __ldg(at<const int>(qmap) + lo + x) < 0) return -1;
    return (int)load_index(argmax, base + x, wide);
  }
};

// Exclusive prefix sum of v over the CTA; total of all in *total.
__device__ __forceinline__ int scan_cta(int v, int* total) {
  __shared__ int sums[CSR_WARPS];
  const int lane = threadIdx.x & 31, w = threadIdx.x >> 5;
  int s = v;
#pragma unroll
  for (int o = 1; o < 32; o <<= 1) { int y = __shfl_up_sync(~0u, s, o); if (lane >= o) s += y; }
  __syncthreads();
  if (lane == 31) sums[w] = s;
  __syncthreads();
  int before = 0, all = 0;
#pragma unroll
  for (int k = 0; k < CSR_WARPS; k++) { int y = sums[k]; all += y; if (k < w) before += y; }
  *total = all;
  return before + s - v;
}

// The part of a document's query rows that this CTA handles, cut into one chunk a warp (multiples of 32).
struct Chunk {
  int x0, x1;
  __device__ Chunk(int rows, int seg, int segs) {
    int per = (rows + segs - 1) / segs, a = seg * per, b = min(a + per, rows);
    int each = ((per + CSR_WARPS - 1) / CSR_WARPS + 31) & ~31, w = threadIdx.x >> 5;
    x0 = min(a + w * each, b);
    x1 = min(x0 + each, b);
  }
};

// hist[w][u-u0] = winners of warp w's chunk with token u in [u0,u0+n).
__device__ __forceinline__ void count_chunk(const Winners& win, const Chunk& c, int u0, int n, int* hist) {
  const int lane = threadIdx.x & 31;
  for (int i = threadIdx.x; i < CSR_WARPS * n; i += CSR_THREADS) hist[i] = 0;
  __syncthreads();
  int* mine = hist + (threadIdx.x >> 5) * n;
#pragma unroll 4
  for (int x = c.x0 + lane; x < c.x1; x += 32) {
    unsigned u = (unsigned)(win[x] - u0);
    if (u < (unsigned)n) atomicAdd(mine + u, 1);
  }
  __syncthreads();
}

// Writes the entries of the chunk; mine[u-u0] = place of the warp's first entry of token u.
__device__ __forceinline__ void place_chunk(const Winners& win, const Chunk& c, int u0, int n, int* mine, maxsim_ptr list, size_t base, bool wide) {
  const int lane = threadIdx.x & 31;
  const unsigned below = (1u << lane) - 1;
#pragma unroll 4
  for (int s = c.x0; s < c.x1; s += 32) {
    const int x = s + lane;
    const unsigned u = x < c.x1 ? (unsigned)(win[x] - u0) : ~0u;
    const bool ok = u < (unsigned)n;
    const unsigned same = __match_any_sync(~0u, ok ? u : ~0u);
    const int rank = __popc(same & below);
    int pos = 0;
    if (ok) pos = mine[u] + rank;
    __syncwarp();
    if (ok && rank == 0) mine[u] = pos + __popc(same);
    if (ok) store_index(list, base + pos, wide, x);
    __syncwarp();
  }
}

__device__ __forceinline__ void csr_fused(const CsrParams& p) {
  extern __shared__ int hist[];
  const int j = blockIdx.x, c0 = __ldg(at<const int>(p.cud) + j), len = __ldg(at<const int>(p.cud) + j + 1) - c0;
  const Meets m = meets(p, j);
  const Winners win{p.argmax, p.qmap, m.winner, m.lo, p.argbytes == 4};
  int* rowptr = at<int>(p.rowptr) + c0 + j;
  int carry = 0;
  if (len > 0) {
    const Chunk c(m.hi - m.lo, 0, 1);
    count_chunk(win, c, 0, len, hist);
    for (int u0 = 0; u0 < len; u0 += CSR_THREADS) {
      const int u = u0 + threadIdx.x;
      int t = 0, all;
      if (u < len)
        for (int w = 0; w < CSR_WARPS; w++) { int h = hist[w * len + u]; hist[w * len + u] = t; t += h; }
      const int at0 = carry + scan_cta(t, &all);
      if (u < len) {
        rowptr[u] = at0;
        for (int w = 0; w < CSR_WARPS; w++) hist[w * len + u] += at0;
      }
      carry += all;
    }
    __syncthreads();
    place_chunk(win, c, 0, len, hist + (threadIdx.x >> 5) * len, p.list, m.winner, p.listbytes == 4);
  }
  if (threadIdx.x == 0) rowptr[len] = carry;
}

template <bool PLACE> __device__ __forceinline__ void csr_part(const CsrParams& p) {
  extern __shared__ int hist[];
  const int j = blockIdx.x, c0 = __ldg(at<const int>(p.cud) + j), len = __ldg(at<const int>(p.cud) + j + 1) - c0;
  const int u0 = blockIdx.z * (int)p.utile, n = min(len - u0, (int)p.utile);
  if (n <= 0) return;
  const Meets m = meets(p, j);
  const Winners win{p.argmax, p.qmap, m.winner, m.lo, p.argbytes == 4};
  const Chunk c(m.hi - m.lo, blockIdx.y, (int)p.segs);
  int* counts = at<int>(p.counts) + (size_t)blockIdx.y * p.totd + c0 + u0;
  count_chunk(win, c, u0, n, hist);
  for (int u = threadIdx.x; u < n; u += CSR_THREADS) {
    int t = PLACE ? counts[u] : 0;
    for (int w = 0; w < CSR_WARPS; w++) { int h = hist[w * n + u]; hist[w * n + u] = t; t += h; }
    if (!PLACE) counts[u] = t;
  }
  if (!PLACE) return;
  __syncthreads();
  place_chunk(win, c, u0, n, hist + (threadIdx.x >> 5) * n, p.list, m.winner, p.listbytes == 4);
}

__device__ __forceinline__ void csr_scan(const CsrParams& p) {
  const int j = blockIdx.x, c0 = __ldg(at<const int>(p.cud) + j), len = __ldg(at<const int>(p.cud) + j + 1) - c0;
  int* rowptr = at<int>(p.rowptr) + c0 + j;
  int* counts = at<int>(p.counts) + c0;
  int carry = 0;
  for (int u0 = 0; u0 < len; u0 += CSR_THREADS) {
    const int u = u0 + threadIdx.x;
    int t = 0, all;
    if (u < len)
      for (int s = 0; s < p.segs; s++) t += counts[(size_t)s * p.totd + u];
    int at0 = carry + scan_cta(t, &all);
    if (u < len) {
      rowptr[u] = at0;
      for (int s = 0; s < p.segs; s++) { int* c = counts + (size_t)s * p.totd + u; int h = *c; *c = at0; at0 += h; }
    }
    carry += all;
  }
  if (threadIdx.x == 0) rowptr[len] = carry;
}
