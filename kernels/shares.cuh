// How a tensor core forward cuts its work among CTAs.
//
// The work is the flat range of (tile of query rows, column) positions, tiles outermost, so that CTAs stream the same
// documents at the same time. Every CTA takes an equal share of it, rounded to whole documents. Grouped: tile n means the
// n-th tile of every query.
//
// That serves where a CTA keeps its query rows. If it fetches them again with every tile of columns, they must be found in
// the L2: 132 CTAs with 256 rows of 1536 bytes each want 52 MB, and then everything comes from memory every time. Such a
// kernel goes in rounds. In a round there are about as many tiles as the L2 can hold, less than twice as many at most, and
// several CTAs share the documents out among them; those with the same part stream it at the same time. From round to round
// a CTA goes on to the next part: all its parts together are one range of documents, so that rounding costs it two or three
// documents at most, not one a round. Before the rounds come the tiles that they leave, one to two rounds of them, cut as
// above. A part that is narrower than a tile of columns takes as long as one: rows of 6 KB and more with few documents.
#pragma once
#include "common.cuh"

// The run of documents [ja,jb) that a CTA walks through with one tile of query rows, and where its results go.
struct Run {
  int ja, jb;        // documents
  int c0, c1;        // their columns
  int x0, x1;        // query rows of the tile, x1 - x0 at most the tile's height
  int64_t winner;    // of (row 0, document 0), so that (x, j) is at winner + j*stride + x
  int stride;
};

// The rounds of a kernel that fetches query rows again. all: tiles; bytes: of an element of a row.
template <int TILE> struct Rounds {
  static constexpr int PAIRS = 8;  // (tile, document) pairs that a CTA must have, so that one more does not matter much
  int count = 0;                   // rounds; 0 where the L2 holds all rows that are wanted at a time
  int tiles = 0;                   // of a round
  int parts = 0;                   // of the documents: the CTAs of a tile. The last CTAs may have no tile
  __device__ __forceinline__ Rounds(const ForwardParams& p, int all, int ctas, int bytes) {
    const int fit = max(HELD_QUERY_BYTES / (TILE * bytes) / (int)p.ldq, 1);
    if (p.group != 0 || fit >= ctas || all < 2 * fit || all * p.bd < (int64_t)PAIRS * ctas) return;
    parts = ctas / fit;
    tiles = ctas / parts;  // from fit on, below 2 fit
    count = all / tiles - 1;
  }
};

// A CTA's share of the work, run by run. REFETCHED: 0, or the bytes of an element of query rows that are fetched again.
template <int TILE, int REFETCHED> struct Shares {
  int tile, ja, last_tile, last_j;  // what is left: from document ja of one tile up to last_j of another
  int round = 0, rounds = 0;        // the next of so many

  __device__ __forceinline__ Shares(const ForwardParams& p, int lane) {
    const int tiles = ((int)p.maxq + TILE - 1) / TILE;
    int first = 0;
    if constexpr (REFETCHED > 0) {
      const Rounds<TILE> plan(p, tiles, gridDim.x, REFETCHED);
      first = plan.count * plan.tiles;
      if ((int)blockIdx.x < plan.tiles * plan.parts) rounds = plan.count;
    }
    const int64_t all = (int64_t)(tiles - first) * p.totd, a = all * blockIdx.x / gridDim.x, b = all * (blockIdx.x + 1) / gridDim.x;
    tile = (int)(a / p.totd);
    last_tile = (int)(b / p.totd);
    const int columns[2] = {(int)(a - tile * p.totd), (int)(b - last_tile * p.totd)};
    tile += first;
    last_tile += first;
    int documents[2];
    lower_bounds(documents, at<const int>(p.cud), (int)p.bd, (int)p.totd, columns, lane);
    ja = documents[0];
    last_j = documents[1];
  }

  // The next run with rows and columns, or false.
  __device__ __forceinline__ bool next(const ForwardParams& p, Run& r) {
    const int* cud = at<const int>(p.cud);
    for (;;) {
      const bool over = tile > last_tile || (tile == last_tile && ja >= last_j);
      if constexpr (REFETCHED > 0) {  // in this form ptxas still keeps what the fetching thread holds in uniform registers
        const bool more = round < rounds;
        if (over && !more) return false;
        if (over) begin_round(p);
      } else if (over) return false;
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

 private:
  // The next round: this CTA's tile, and its part of the documents.
  __device__ __forceinline__ void begin_round(const ForwardParams& p) {
    const Rounds<TILE> plan(p, ((int)p.maxq + TILE - 1) / TILE, gridDim.x, REFETCHED);
    const unsigned cta = blockIdx.x, columns = (unsigned)p.totd;
    const unsigned part = (cta + round) % plan.parts, width = (columns + plan.parts - 1) / plan.parts;
    tile = last_tile = round * plan.tiles + cta / plan.parts;
    ja = lower_bound(at<const int>(p.cud), (int)p.bd, min(part * width, columns));
    last_j = lower_bound(at<const int>(p.cud), (int)p.bd, min(part * width + width, columns));
    round++;
  }
};
