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
#include "shares.cuh"

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

// Columns 32c to 32c+31 of F fragments of a tile; MASK: only where (column + off) < width. w: of rows g, g+8 of each.
template <bool ARG, bool MASK, int F, int N>
__device__ __forceinline__ void see32(const float (&acc)[F][N], int c, Running (&s)[F], Winner (&w)[2 * F], unsigned width, int off, float one) {
#pragma unroll
  for (int i = 4 * c; i < 4 * c + 4; i++)
#pragma unroll
    for (int f = 0; f < F; f++) {
      float v[4] = {acc[f][4 * i], acc[f][4 * i + 1], acc[f][4 * i + 2], acc[f][4 * i + 3]};
      if (MASK)
#pragma unroll
        for (int k = 0; k < 4; k++) v[k] = (unsigned)(8 * i + k % 2 + off) < width ? v[k] : -INFINITY;
      see<ARG>(v[0], v[1], s[f].m0, w[2 * f], 8 * i, one);
      see<ARG>(v[2], v[3], s[f].m1, w[2 * f + 1], 8 * i, one);
    }
}

// Where the warpgroups (one or two) whose rows are one whole query add their slabs to a score, in the order of scores.cuh.
// Two boards of 16 slabs a warpgroup in shared memory, used in turn so that one barrier a document is enough. Not for four
// warpgroups: waiting for each other at every document's end would cost more than the launch it saves.
template <int WARPGROUPS> struct SlabBoard {
  static constexpr int SLABS = 16 * WARPGROUPS, BYTES = 2 * 4 * SLABS;
  uint32_t board;  // shared address of the one whose turn it is; both together are a multiple of BYTES

  // Every consuming thread calls it (threads from 128 on); writer: this lane holds the sum of slab `mine` of its warp.
  __device__ __forceinline__ void post(float sum, bool writer, int mine, float* score) {
    const int tid = threadIdx.x - 128;
    if (writer) store_shared(board + 4 * (tid / 32 * 4 + mine), sum);
    sync_threads<128 * WARPGROUPS>(1);
    if (tid < 32) {
      float s = 0;
#pragma unroll
      for (int n = 0; n < SLABS; n += 8) s += load_shared(board + 4 * (n + (tid & 7)));
#pragma unroll
      for (int o = 1; o < 8; o <<= 1) s += __shfl_xor_sync(~0u, s, o);
      if (tid == 0) *score = s;
    }
    board ^= BYTES / 2;
  }
};
struct NoBoard {};

// A warp's F x 16 rows of a run, from row x on. The quad's reduction leaves each lane with one of them: row g of a
// fragment in even lanes, row g+8 in odd ones; of the first fragment in lanes 0 and 1 of the quad, of the second in 2 and 3.
template <int F> struct WarpRows {
  static_assert(F == 1 || F == 2, "a quad ends with four rows at most");
  int64_t winner;    // of (the first row, document 0)
  bool in;           // this lane's row is in the run
  float scale;       // of a product with that row; 0: a padding row
  __device__ __forceinline__ WarpRows(const ForwardParams& p, const Run& run, int x, int lane) : winner(run.winner + x) {
    const int mine = x + row(lane);
    in = mine < run.x1;
    const bool valid = in && (p.qmap == 0 || __ldg(at<const int>(p.qmap) + mine) >= 0);
    scale = !valid ? 0.f : p.qscale ? __ldg(at<const float>(p.qscale) + mine) : 1.f;
  }
  static __device__ __forceinline__ int row(int lane) { return (F == 2 ? (lane & 2) * 8 : 0) + (lane & 1) * 8 + (lane >> 2); }
  // The slab of four rows to which this lane's row belongs; one lane of every slab writes its sum.
  static __device__ __forceinline__ int slab(int lane) { return row(lane) >> 2; }
  static __device__ __forceinline__ bool writes(int lane) { return (lane & (F == 2 ? 12 : 14)) == 0; }
};

// A lane's share of a row: the largest value and its column.
struct Share {
  float m, i;
  // ties: lowest index
  template <bool ARG> __device__ __forceinline__ void merge(float other, float column) {
    if constexpr (ARG) {
      if (other > m || (other == m && column < i)) i = column;
    }
    m = max_nan(m, other);
  }
};
// A step of the quad's reduction: a lane keeps one of two rows and gives the other to the lane that differs in `bit`.
template <bool ARG> __device__ __forceinline__ Share exchange(const Share& low, const Share& high, bool keep_high, int bit) {
  Share mine = {keep_high ? high.m : low.m, keep_high ? high.i : low.i};
  const float m = __shfl_xor_sync(~0u, keep_high ? low.m : high.m, bit);
  mine.merge<ARG>(m, ARG ? __shfl_xor_sync(~0u, keep_high ? low.i : high.i, bit) : 0.f);
  return mine;
}

// End of document j: reduces the four lanes of each row (ties: lowest index; NaN and all -infinity: token 0), stores the
// argmax, and sums rows in fours, ((t0+t1)+(t2+t3)), an order fixed by the token's place in its query.
template <bool ARG, int F, class Board>
__device__ __forceinline__ void finish(Running (&s)[F], const ForwardParams& p, const Run& run, const WarpRows<F>& rows, Board& board, int j, int lane) {
  const int64_t at0 = rows.winner + (int64_t)j * run.stride;
  const float q2 = 2 * (lane & 3);
  Share mine[F];
#pragma unroll
  for (int f = 0; f < F; f++) {
    mine[f] = exchange<ARG>(Share{s[f].m0, s[f].i0 + q2}, Share{s[f].m1, s[f].i1 + q2}, lane & 1, 1);
    s[f] = Running();
  }
  if constexpr (F == 2) mine[0] = exchange<ARG>(mine[0], mine[1], lane & 2, 2);
  else mine[0].template merge<ARG>(__shfl_xor_sync(~0u, mine[0].m, 2), ARG ? __shfl_xor_sync(~0u, mine[0].i, 2) : 0.f);
  const float m = mine[0].m;
  if constexpr (ARG)
    if (rows.in && (F == 2 || (lane & 3) < 2)) store_index(p.argmax, at0 + rows.row(lane), p.argbytes == 4, m != m ? 0u : (unsigned)mine[0].i);
  float sum = rows.scale != 0 ? m * rows.scale : 0.f;  // a padding row's m may be NaN
  sum += __shfl_xor_sync(~0u, sum, 4);
  sum += __shfl_xor_sync(~0u, sum, 8);
  if constexpr (!std::is_same<Board, NoBoard>::value)
    if (p.scores) {
      board.post(sum, rows.writes(lane), rows.slab(lane), at<float>(p.scores) + j);
      return;
    }
  if (rows.in && rows.writes(lane)) at<float>(p.part)[(at0 >> 2) + rows.slab(lane)] = sum;
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
template <bool ARG, class Board, int F, int N>
__device__ __forceinline__ void epilogue(const float (&acc)[F][N], Running (&s)[F], Walk& w, const ForwardParams& p, const Run& run,
                                         const WarpRows<F>& rows, Board& board, int tb, int lane, float one) {
  Winner wins[2 * F];
  auto settle_all = [&] {
#pragma unroll
    for (int f = 0; f < F; f++) {
      settle<ARG>(wins[2 * f], s[f].m0, s[f].i0, tb - w.start);
      settle<ARG>(wins[2 * f + 1], s[f].m1, s[f].i1, tb - w.start);
    }
  };
  constexpr int CHUNKS = N / 16;
  if (w.end > tb + 2 * N) {
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) see32<ARG, false>(acc, c, s, wins, 0, 0, one);
  } else {
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
      const int c1 = tb + 32 * c + 32;
      int lo = c1 - 32;
      if (w.end > c1) { see32<ARG, false>(acc, c, s, wins, 0, 0, one); continue; }
      for (;;) {
        see32<ARG, true>(acc, c, s, wins, min(w.end, c1) - lo, 2 * (lane & 3) + tb - lo, one);
        if (w.end > c1) break;
        settle_all();
        finish<ARG>(s, p, run, rows, board, w.j, lane);
        w.advance(p, run);
        if (w.j >= run.jb) return;
        lo = w.start;
        if (lo >= c1) break;
      }
    }
  }
  settle_all();
}
