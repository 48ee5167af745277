// The inverse grid: for each document token the query rows that chose it, ascending. A stable counting sort of one
// document's winners by token; shared-memory atomics only count, no result depends on their order.
//
//   fused              one CTA a document: count, scan, place. For many documents of at most utile rows.
//   count, scan, place (document, part of its query rows, utile rows) a CTA: uses the whole chip when documents are few
//                      and long. counts[s,r] becomes the place of the first entry of part s in row r.
//
// Placing: a warp owns a contiguous chunk of query rows and walks it 32 at a time; __match_any_sync ranks equal tokens
// inside the 32, the warp's own counter ranks them across steps, and the scan over warps ranks them across chunks.
//
// Shared memory: a 16-bit counter for every (warp, row) (a part has at most 65,535 query rows), a start for every row,
// and in the fused kernel, where the launch gives room for it, the document's list, so that it is written in order.
#pragma once
#include "common.cuh"

constexpr int CSR_THREADS = 1024;  // at most; fewer where a document meets few query rows

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
  __shared__ int sums[CSR_THREADS / 32];
  const int lane = threadIdx.x & 31, w = threadIdx.x >> 5;
  int s = v;
#pragma unroll
  for (int o = 1; o < 32; o <<= 1) { int y = __shfl_up_sync(~0u, s, o); if (lane >= o) s += y; }
  __syncthreads();
  if (lane == 31) sums[w] = s;
  __syncthreads();
  int all = lane < (int)blockDim.x / 32 ? sums[lane] : 0;
#pragma unroll
  for (int o = 1; o < 32; o <<= 1) { int y = __shfl_up_sync(~0u, all, o); if (lane >= o) all += y; }
  const int before = w == 0 ? 0 : __shfl_sync(~0u, all, w - 1);
  *total = __shfl_sync(~0u, all, 31);
  return before + s - v;
}

// The part of a document's query rows that this CTA handles, cut into one chunk a warp (multiples of 32).
struct Chunk {
  int x0, x1;
  __device__ Chunk(int rows, int seg, int segs) {
    int per = (rows + segs - 1) / segs, a = seg * per, b = min(a + per, rows);
    int each = ((per + ((int)blockDim.x / 32) - 1) / ((int)blockDim.x / 32) + 31) & ~31, w = threadIdx.x >> 5;
    x0 = min(a + w * each, b);
    x1 = min(x0 + each, b);
  }
};

// Counters of a CTA: hist[w][u-u0] for n document rows from u0, padded to whole words; start[u-u0].
struct Counters {
  uint16_t* hist;
  int* start;
  int u0, n, pitch;
  __device__ Counters(void* shared, int u0_, int n_) : hist((uint16_t*)shared), u0(u0_), n(n_), pitch((n_ + 1) & ~1) { start = (int*)(hist + ((int)blockDim.x / 32) * pitch); }
  __device__ uint16_t* of(int w) const { return hist + w * pitch; }
  __device__ void* end() const { return start + pitch; }
};

// hist[w][u] = winners of warp w's chunk with token u.
__device__ __forceinline__ void count_chunk(const Winners& win, const Chunk& c, const Counters& k) {
  const int lane = threadIdx.x & 31;
  uint32_t* words = (uint32_t*)k.hist;
  for (int i = threadIdx.x; i < ((int)blockDim.x / 32) * k.pitch / 2; i += blockDim.x) words[i] = 0;
  __syncthreads();
  uint32_t* mine = (uint32_t*)k.of(threadIdx.x >> 5);
#pragma unroll 4
  for (int x = c.x0 + lane; x < c.x1; x += 32) {
    const unsigned u = (unsigned)(win[x] - k.u0);
    if (u < (unsigned)k.n) atomicAdd(mine + u / 2, u % 2 ? 0x10000u : 1u);
  }
  __syncthreads();
}

// Turns the counts of row u into what lies before each warp's entries; returns the row's total.
__device__ __forceinline__ int sum_warps(const Counters& k, int u) {
  int t = 0;
  for (int w = 0; w < ((int)blockDim.x / 32); w++) {
    uint16_t* h = k.of(w) + u;
    const int c = *h;
    *h = (uint16_t)t;
    t += c;
  }
  return t;
}

// Hands every entry x of the chunk to put(place, x): place = start[u] + entries of u in earlier chunks and steps.
template <class F> __device__ __forceinline__ void place_chunk(const Winners& win, const Chunk& c, const Counters& k, F put) {
  const int lane = threadIdx.x & 31;
  const unsigned below = (1u << lane) - 1;
  uint16_t* mine = k.of(threadIdx.x >> 5);
#pragma unroll 4
  for (int s = c.x0; s < c.x1; s += 32) {
    const int x = s + lane;
    const unsigned u = x < c.x1 ? (unsigned)(win[x] - k.u0) : ~0u;
    const bool ok = u < (unsigned)k.n;
    const unsigned same = __match_any_sync(~0u, ok ? u : ~0u);
    const int rank = __popc(same & below);
    int before = 0;
    if (ok) before = mine[u] + rank;
    __syncwarp();
    if (ok && rank == 0) mine[u] = (uint16_t)(before + __popc(same));
    if (ok) put(k.start[u] + before, x);
    __syncwarp();
  }
}

__device__ __forceinline__ void csr_fused(const CsrParams& p) {
  DYNAMIC_SHARED(16, shared);
  const int j = blockIdx.x, c0 = __ldg(at<const int>(p.cud) + j), len = __ldg(at<const int>(p.cud) + j + 1) - c0;
  const Meets m = meets(p, j);
  const Winners win{p.argmax, p.qmap, m.winner, m.lo, p.argbytes == 4};
  const bool wide = p.listbytes == 4;
  int* rowptr = at<int>(p.rowptr) + c0 + j;
  int carry = 0;
  if (len > 0) {
    const Chunk c(m.hi - m.lo, 0, 1);
    const Counters k(shared, 0, len);
    count_chunk(win, c, k);
    for (int u0 = 0; u0 < len; u0 += blockDim.x) {
      const int u = u0 + threadIdx.x;
      int all;
      const int before = carry + scan_cta(u < len ? sum_warps(k, u) : 0, &all);
      if (u < len) rowptr[u] = k.start[u] = before;
      carry += all;
    }
    __syncthreads();
    const uint32_t room = dynamic_shared_bytes();
    uint16_t* staged = (uint16_t*)k.end();
    if (!wide && (uint8_t*)(staged + (m.hi - m.lo)) <= shared + room) {
      place_chunk(win, c, k, [&](int at0, int x) { staged[at0] = (uint16_t)x; });
      __syncthreads();
      uint16_t* out = at<uint16_t>(p.list) + m.winner;
      for (int i = 4 * threadIdx.x; i < carry; i += 4 * blockDim.x) {  // winner is a multiple of 4: 8-byte stores
        if (i + 4 <= carry) *(uint2*)(out + i) = *(const uint2*)(staged + i);
        else
          for (int e = i; e < carry; e++) out[e] = staged[e];
      }
    } else {
      place_chunk(win, c, k, [&](int at0, int x) { store_index(p.list, m.winner + at0, wide, x); });
    }
  }
  if (threadIdx.x == 0) rowptr[len] = carry;
}

template <bool PLACE> __device__ __forceinline__ void csr_part(const CsrParams& p) {
  DYNAMIC_SHARED(16, shared);
  const int j = blockIdx.x, c0 = __ldg(at<const int>(p.cud) + j), len = __ldg(at<const int>(p.cud) + j + 1) - c0;
  const int u0 = blockIdx.z * (int)p.utile, n = min(len - u0, (int)p.utile);
  if (n <= 0) return;
  const Meets m = meets(p, j);
  const Winners win{p.argmax, p.qmap, m.winner, m.lo, p.argbytes == 4};
  const Chunk c(m.hi - m.lo, blockIdx.y, (int)p.segs);
  const Counters k(shared, u0, n);
  int* counts = at<int>(p.counts) + (size_t)blockIdx.y * p.totd + c0 + u0;
  count_chunk(win, c, k);
  for (int u = threadIdx.x; u < n; u += blockDim.x) {
    const int t = sum_warps(k, u);
    if (PLACE) k.start[u] = counts[u]; else counts[u] = t;
  }
  if (!PLACE) return;
  __syncthreads();
  const bool wide = p.listbytes == 4;
  place_chunk(win, c, k, [&](int at0, int x) { store_index(p.list, m.winner + at0, wide, x); });
}

__device__ __forceinline__ void csr_scan(const CsrParams& p) {
  const int j = blockIdx.x, c0 = __ldg(at<const int>(p.cud) + j), len = __ldg(at<const int>(p.cud) + j + 1) - c0;
  int* rowptr = at<int>(p.rowptr) + c0 + j;
  int* counts = at<int>(p.counts) + c0;
  int carry = 0;
  for (int u0 = 0; u0 < len; u0 += blockDim.x) {
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
