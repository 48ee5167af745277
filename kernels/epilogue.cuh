// What the tensor core forwards share: a running max and argmax over accumulator fragments, document ends, the walk over
// the documents of a run.
//
// All query rows are one matrix and the documents one stream of columns; tiles ignore where documents end, so ragged
// lengths cost no products, and the epilogue cuts. Fragment of a warp (16 rows; wgmma m64nN and mma m16n8 alike):
// lane 4g+q holds acc[4i+0,1] = row g, columns 8i+2q, 8i+2q+1 and acc[4i+2,3] = row g+8, the same columns.
//
// The largest value is found with max.NaN, so that a NaN stays. Two adjacent columns take five instructions with argmax:
// max, compare, max, and two predicated moves written as multiplications by a run-time 1, because FSETP and FMNMX
// already fill the ALU pipe and a select would join them there, while the FMA pipe is idle.
#pragma once
#include "common.cuh"

// Running maximum of a lane's two rows; i: column inside the document as a float, exact below 2^24.
struct Running {
  float m0 = -INFINITY, m1 = -INFINITY, i0 = 0, i1 = 0;
};

// A row's winner inside one tile: the first column of the winning pair (-1: none) and the value of that column.
struct Winner {
  float column = -1.f, first = 0;
};

// Columns c and c+1. one: 1.0f, opaque to the compiler.
template <bool ARG> __device__ __forceinline__ void see(float v0, float v1, float& m, Winner& w, int c, float one) {
  const float t = max_nan(v0, v1);
  if constexpr (!ARG) m = max_nan(m, t);
  else max_take(t, m, w.column, w.first, (float)c, v0, one, one - 1.f);
}
// Ends a tile (or a document's part of it): base is the tile's first column counted from the document's first.
template <bool ARG> __device__ __forceinline__ void settle(Winner& w, float m, float& i, int base) {
  if constexpr (ARG) {
    if (w.column >= 0) i = (float)base + w.column + (w.first == m ? 0.f : 1.f);
    w.column = -1.f;
  }
}

// 32 columns from tile column 32*c; MASK: only where (column + off) < width.
template <bool ARG, bool MASK, int N>
__device__ __forceinline__ void see32(const float (&acc)[N], int c, Running& s, Winner& w0, Winner& w1, unsigned width, int off, float one) {
#pragma unroll
  for (int i = 4 * c; i < 4 * c + 4; i++) {
    float v[4] = {acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]};
    if (MASK)
#pragma unroll
      for (int k = 0; k < 4; k++) v[k] = (unsigned)(8 * i + k % 2 + off) < width ? v[k] : -INFINITY;
    see<ARG>(v[0], v[1], s.m0, w0, 8 * i, one);
    see<ARG>(v[2], v[3], s.m1, w1, 8 * i, one);
  }
}

// The run of documents [ja,jb) that a CTA walks through with one tile of query rows, and where its results go.
struct Run {
  int ja, jb;        // documents
  int c0, c1;        // their columns
  int x0, x1;        // query rows of the tile, x1 - x0 at most the tile's height
  int64_t winner;    // of (row 0, document 0), so that (x, j) is at winner + j*stride + x
  int stride;
};

// Where a warpgroup whose 64 rows are one whole query adds its slabs to a score, in the order of scores.cuh. Two boards
// of 16 slabs in shared memory, used in turn so that one barrier a document is enough. Only where a CTA has one such
// warpgroup: with four, waiting for each other at every document's end costs more than the launch it saves.
struct SlabBoard {
  uint32_t board;  // shared address, a multiple of 128; bit 6 says whose turn it is

  __device__ __forceinline__ float slab(int n) const { return load_shared(board + 4 * n); }
  // Every thread of the warpgroup calls it; writer: this lane holds the sum of slab `mine`.
  __device__ __forceinline__ void post(float sum, bool writer, int mine, float* score) {
    if (writer) store_shared(board + 4 * mine, sum);
    sync_warpgroup();
    if (threadIdx.x % 128 < 32) {
      float s = 0;
      s += slab(threadIdx.x & 7);
      s += slab((threadIdx.x & 7) + 8);
#pragma unroll
      for (int o = 1; o < 8; o <<= 1) s += __shfl_xor_sync(~0u, s, o);
      if (threadIdx.x % 128 == 0) *score = s;
    }
    board ^= 64;
  }
};
struct NoBoard {};

// A warp's 16 rows of a run, from row x on.
struct WarpRows {
  int64_t winner;    // of (the first of them, document 0)
  bool in;           // the row this lane ends up with after the quad's reduction is in the run
  float scale;       // of a product with that row; 0: a padding row
  __device__ __forceinline__ WarpRows(const ForwardParams& p, const Run& run, int x, int lane) : winner(run.winner + x) {
    const int mine = x + (lane & 1) * 8 + (lane >> 2);
    in = mine < run.x1;
    const bool valid = in && (p.qmap == 0 || __ldg(at<const int>(p.qmap) + mine) >= 0);
    scale = !valid ? 0.f : p.qscale ? __ldg(at<const float>(p.qscale) + mine) : 1.f;
  }
};

// End of document j: reduces the four lanes of each row (ties: lowest index; NaN and all -infinity: token 0), stores the
// argmax, and sums rows in fours, ((t0+t1)+(t2+t3)), an order fixed by the token's place in its query.
template <bool ARG, class Board>
__device__ __forceinline__ void finish(Running& s, const ForwardParams& p, const Run& run, const WarpRows& rows, Board& board, int j, int lane) {
  const bool odd = lane & 1;  // even lanes go on with row g, odd lanes with row g+8
  const int64_t at0 = rows.winner + (int64_t)j * run.stride;
  float m = odd ? s.m1 : s.m0, o = __shfl_xor_sync(~0u, odd ? s.m0 : s.m1, 1);
  if constexpr (ARG) {
    const float q2 = 2 * (lane & 3);
    float i = (odd ? s.i1 : s.i0) + q2, io = __shfl_xor_sync(~0u, (odd ? s.i0 : s.i1) + q2, 1);
    if (o > m || (o == m && io < i)) i = io;
    m = max_nan(m, o);
    o = __shfl_xor_sync(~0u, m, 2);
    io = __shfl_xor_sync(~0u, i, 2);
    if (o > m || (o == m && io < i)) i = io;
    m = max_nan(m, o);
    if (m != m) i = 0;
    if (rows.in && (lane & 3) < 2) store_index(p.argmax, at0 + odd * 8 + (lane >> 2), p.argbytes == 4, (unsigned)i);
  } else {
    m = max_nan(m, o);
    m = max_nan(m, __shfl_xor_sync(~0u, m, 2));
  }
  float sum = rows.scale != 0 ? m * rows.scale : 0.f;  // a padding row's m may be NaN
  sum += __shfl_xor_sync(~0u, sum, 4);
  sum += __shfl_xor_sync(~0u, sum, 8);
  const int slab = odd * 2 + (lane >> 4);
  s = Running();
  if constexpr (std::is_same<Board, SlabBoard>::value)
    if (p.scores) {
      board.post(sum, (lane & 14) == 0, threadIdx.x / 32 % 4 * 4 + slab, at<float>(p.scores) + j);
      return;
    }
  if (rows.in && (lane & 14) == 0) at<float>(p.part)[(at0 >> 2) + slab] = sum;
}

// The document under the stream: columns [start,end); next: the end of the one after.
struct Walk {
  int j, start, end, next;
  __device__ __forceinline__ Walk(const ForwardParams& p, const Run& run) {
    const int* cu = at<const int>(p.cud);
    j = run.ja;
    start = run.c0;
    end = __ldg(cu + j + 1);
    next = __ldg(cu + min(j + 2, (int)p.bd));
    while (end == start && j < run.jb) advance(p, run);
  }
  __device__ __forceinline__ void advance(const ForwardParams& p, const Run& run) {
    do {
      j++;
      start = end;
      end = next;
      next = __ldg(at<const int>(p.cud) + min(j + 2, (int)p.bd));
    } while (end == start && j < run.jb);  // an empty document has no column: score 0, nothing to write
  }
};

// One tile of 2N columns from column tb on: only a group of 32 with a document end in it is masked, once per document.
template <bool ARG, class Board, int N>
__device__ __forceinline__ void epilogue(const float (&acc)[N], Running& s, Walk& w, const ForwardParams& p, const Run& run, const WarpRows& rows,
                                         Board& board, int tb, int lane, float one) {
  Winner w0, w1;
  constexpr int CHUNKS = N / 16;
  if (w.end > tb + 2 * N) {
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) see32<ARG, false>(acc, c, s, w0, w1, 0, 0, one);
  } else {
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
      const int c1 = tb + 32 * c + 32;
      int lo = c1 - 32;
      if (w.end > c1) { see32<ARG, false>(acc, c, s, w0, w1, 0, 0, one); continue; }
      for (;;) {
        see32<ARG, true>(acc, c, s, w0, w1, min(w.end, c1) - lo, 2 * (lane & 3) + tb - lo, one);
        if (w.end > c1) break;
        settle<ARG>(w0, s.m0, s.i0, tb - w.start);
        settle<ARG>(w1, s.m1, s.i1, tb - w.start);
        finish<ARG>(s, p, run, rows, board, w.j, lane);
        w.advance(p, run);
        if (w.j >= run.jb) return;
        lo = w.start;
        if (lo >= c1) break;
      }
    }
  }
  settle<ARG>(w0, s.m0, s.i0, tb - w.start);
  settle<ARG>(w1, s.m1, s.i1, tb - w.start);
}

// A CTA's share of the work: the flat range of (tile of query rows, column) positions is cut into equal shares at
// document boundaries, tiles outermost, so that CTAs stream the same documents at the same time. Grouped: tile n means
// the n-th tile of every query, and a run ends where the query does.
template <int TILE> struct Shares {
  int tile, ja, last_tile, last_j;
  __device__ __forceinline__ Shares(const ForwardParams& p, int lane) {
    const int* cud = at<const int>(p.cud);
    const int tiles = ((int)p.maxq + TILE - 1) / TILE;
    const int64_t all = (int64_t)tiles * p.totd, a = all * blockIdx.x / gridDim.x, b = all * (blockIdx.x + 1) / gridDim.x;
    tile = last_tile = tiles;
    ja = last_j = 0;
    if (a < all) { tile = (int)(a / p.totd); ja = lower_bound(cud, (int)p.bd, (int)(a - tile * p.totd), lane); }
    if (b < all) { last_tile = (int)(b / p.totd); last_j = lower_bound(cud, (int)p.bd, (int)(b - last_tile * p.totd), lane); }
  }
  // The next run with rows and columns, or false.
  __device__ __forceinline__ bool next(const ForwardParams& p, Run& r) {
    const int* cud = at<const int>(p.cud);
    for (;;) {
      if (tile > last_tile || (tile == last_tile && ja >= last_j)) return false;
      int jb = tile == last_tile ? last_j : (int)p.bd;
      if (ja >= jb) { tile++; ja = 0; continue; }
      if (p.group == 0) {
        r.x0 = tile * TILE;
        r.x1 = min(r.x0 + TILE, (int)p.totq);
        r.winner = 0;
        r.stride = (int)p.totq;
      } else {
        const int i = ja / (int)p.group, first = i * (int)p.group;
        const int lo = __ldg(at<const int>(p.cuq) + i), hi = __ldg(at<const int>(p.cuq) + i + 1);
        jb = min(jb, first + (int)p.group);
        r.x0 = lo + tile * TILE;
        r.x1 = min(r.x0 + TILE, hi);
        r.stride = hi - lo;
        r.winner = (int64_t)lo * p.group - (int64_t)first * r.stride - lo;
      }
      r.ja = ja;
      r.jb = jb;
      r.c0 = __ldg(cud + ja);
      r.c1 = __ldg(cud + jb);
      ja = jb;
      if (r.x0 < r.x1 && r.c0 < r.c1) return true;
    }
  }
};
