// Gradients as two gathers, every output element with one owner and a fixed order of sums, no atomics.
//
//   dd[r,:] = sum over the CSR list of document row r of ds[i(x), k(j)] q[x,:]
//   dq[x,:] = sum over the documents j that x meets, ascending, of ds[i(x), k(j)] d[cud[j] + argmax(x,j),:]
//
// Both are bound by the bytes that the row gathers move out of L2. A warp owns an output row (512 bytes of it; wider rows
// are cut over blockIdx.y). Its lanes read 32 terms at once, a source row and a weight each, and hand them round by
// shuffles; LANES lanes share a source row of 16 bytes a lane, so 32/LANES terms are added side by side (and summed in a
// fixed tree at the end), several steps in flight. A document row that thousands chose ("hub") is summed by the whole
// CTA: each warp a contiguous eighth of the list, the eight partial sums in order.
#pragma once
#include "common.cuh"

constexpr int GRAD_WARPS = 8, GRAD_HUB = 512, GRAD_DEEP = 4;  // warps a CTA; terms that make a hub; steps in flight

template <class T> struct Acc { using type = float; };
template <> struct Acc<double> { using type = double; };

// 16 bytes of a row of T as accumulator values: element e of E.
template <class T> struct Lane {
  static constexpr int E = 16 / sizeof(T);
  using A = typename Acc<T>::type;
  uint4 v;
  __device__ A get(int e) const {
    if constexpr (sizeof(T) == 8) return __hiloint2double(e ? v.w : v.y, e ? v.z : v.x);
    else {
      const uint32_t w[4] = {v.x, v.y, v.z, v.w};
      if constexpr (sizeof(T) == 4) return __uint_as_float(w[e]);
      else {
        const uint32_t h = w[e / 2];
        if constexpr (std::is_same<T, __half>::value) return __half2float(__ushort_as_half((uint16_t)(e % 2 ? h >> 16 : h)));
        else return __uint_as_float(e % 2 ? h & 0xffff0000u : h << 16);
      }
    }
  }
};

// Reads lane-sized pieces of rows: one 16-byte load where rows are 16-byte aligned, else element by element. A lane
// beyond the row's end reads the row's start and is ignored when the result is stored.
template <class T, bool ALIGNED> struct Rows {
  const char* base;  // this lane's first column of row 0
  unsigned pitch;    // bytes
  int left;          // columns from there to the end of the row
  __device__ Rows(maxsim_ptr rows, int64_t ld, int64_t dim, int k)
      : base((const char*)(at<const T>(rows) + (k < dim ? k : 0))), pitch((unsigned)(ld * sizeof(T))), left((int)dim - (k < dim ? k : 0)) {}
  // Row r, or zeros.
  __device__ Lane<T> load_if(bool in, int r) const {
    Lane<T> x;
    x.v = make_uint4(0, 0, 0, 0);
    if constexpr (ALIGNED) load16_if(x.v, base + (size_t)(unsigned)r * pitch, in);
    else if (in) x = load(r);
    return x;
  }
  __device__ Lane<T> load(int r) const {
    const T* from = (const T*)(base + (size_t)(unsigned)r * pitch);
    Lane<T> x;
    if constexpr (ALIGNED) x.v = __ldg((const uint4*)from);
    else {
      T e[Lane<T>::E];
#pragma unroll
      for (int k = 0; k < Lane<T>::E; k++) e[k] = k < left ? from[k] : T(0);
      x.v = *(uint4*)e;
    }
    return x;
  }
};

template <class T> __device__ __forceinline__ void add(typename Acc<T>::type (&acc)[Lane<T>::E], const Lane<T>& v, typename Acc<T>::type g) {
#pragma unroll
  for (int e = 0; e < Lane<T>::E; e++) acc[e] = fma(g, v.get(e), acc[e]);
}

// Writes E accumulators at columns [k, k+E) of a row of dim.
template <class A, int E> __device__ __forceinline__ void store_row(A* row, int k, int dim, const A (&acc)[E]) {
  if (dim % (16 / (int)sizeof(A)) == 0 && k + E <= dim) {
#pragma unroll
    for (int e = 0; e < E; e += 16 / sizeof(A)) __stcs((uint4*)(row + k + e), *(const uint4*)(acc + e));
  } else {
#pragma unroll
    for (int e = 0; e < E; e++)
      if (k + e < dim) row[k + e] = acc[e];
  }
}

// One term of a sum: weight times source row; row -1: no term.
template <class A> struct Term {
  int row = -1;
  A weight = 0;
};

// A warp's sum of terms, LANES lanes a source row, 32/LANES terms side by side.
template <class T, bool ALIGNED, int LANES> struct Gather {
  using A = typename Acc<T>::type;
  static constexpr int E = Lane<T>::E, SIDE = 32 / LANES, DEEP = ALIGNED ? GRAD_DEEP : 1, STEP = DEEP * SIDE;
  int lane, k;  // k: this lane's first column
  Rows<T, ALIGNED> rows;

  __device__ Gather(maxsim_ptr src, int64_t ld, int64_t dim) : lane(threadIdx.x & 31), k((blockIdx.y * 32 + lane % LANES) * E), rows(src, ld, dim, k) {}

  // acc += the terms that lanes 0 .. count-1 hold.
  __device__ __forceinline__ void add_terms(const Term<A>& t, int count, A (&acc)[E]) const {
    const bool gaps = __any_sync(~0u, lane < count && t.row < 0);
    int n = lane / LANES;
#pragma unroll 1
    for (int full = gaps ? 0 : count / STEP; full > 0; full--, n += STEP, count -= STEP) {
      Lane<T> v[DEEP];
#pragma unroll
      for (int i = 0; i < DEEP; i++) v[i] = rows.load(__shfl_sync(~0u, t.row, n + i * SIDE));
#pragma unroll
      for (int i = 0; i < DEEP; i++) add<T>(acc, v[i], __shfl_sync(~0u, t.weight, n + i * SIDE));
    }
#pragma unroll 1
    for (int left = count - lane / LANES; count > 0; n += STEP, left -= STEP, count -= STEP) {  // what is left, or gaps
      Lane<T> v[DEEP];
#pragma unroll
      for (int i = 0; i < DEEP; i++) {
        const int row = __shfl_sync(~0u, t.row, n + i * SIDE);
        v[i] = rows.load_if(i * SIDE < left && row >= 0, row);
      }
#pragma unroll
      for (int i = 0; i < DEEP; i++) {
        const A w = __shfl_sync(~0u, t.weight, n + i * SIDE);
        add<T>(acc, v[i], i * SIDE < left ? w : 0);
      }
    }
  }
  __device__ __forceinline__ void add_sides(A (&acc)[E]) const {
#pragma unroll
    for (int o = LANES; o < 32; o <<= 1)
#pragma unroll
      for (int e = 0; e < E; e++) acc[e] += __shfl_xor_sync(~0u, acc[e], o);
  }
  // All lanes have the sums of their columns (add_sides), so two pieces of 16 bytes are written by two sides at once: whole
  // sectors in one store, where one side alone would write halves of them twice.
  __device__ __forceinline__ void store(maxsim_ptr out, int row, int64_t dim, const A (&acc)[E]) const {
    constexpr int PIECES = SIDE > 1 ? E * (int)sizeof(A) / 16 : 1, EACH = E / PIECES;
    static_assert(PIECES <= 2, "16 bytes of T are at most 32 bytes of A");
    const int piece = lane / LANES;
    if (piece >= PIECES || k >= dim) return;
    A part[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) part[e] = piece == 0 ? acc[e] : acc[E - EACH + e];
    store_row(at<A>(out) + (size_t)row * dim, k + piece * EACH, (int)dim, part);
  }
};

// Warp w of W owns the document rows w, w+W, w+2W ..., and reads their terms as one stream, 32 of one row at a time and as
// many ahead. Rows of one document have about as many terms each, more the shorter it is, so neighbours go to different
// warps. No row's sum depends on who owns it.
template <class T, bool ALIGNED, int LANES> struct GradD {
  using G = Gather<T, ALIGNED, LANES>;
  using A = typename G::A;

  struct Doc {
    int j, lo;  // document; first query row that it meets
    size_t winner;
    __device__ Doc(const GradDParams& p, int j_) : j(j_) {
      const Meets m = meets(p, j);
      lo = m.lo;
      winner = m.winner;
    }
    __device__ __forceinline__ Term<A> term(const GradDParams& p, int n) const {
      const int x = lo + (int)load_index(p.list, winner + n, p.listbytes == 4);
      size_t i = 0;  // grouped: ds[i, j - i*group] is element j
      if (!p.group) i = p.qmul ? __umulhi((unsigned)x, (unsigned)p.qmul) >> p.qshift : __ldg(at<const int>(p.qowner) + x);
      Term<A> t;
      t.row = sizeof(T) == 2 ? x : row_of(p.qmap, x);  // 16-bit rows are always packed
      t.weight = __ldg(at<const A>(p.ds) + i * p.bd + j);
      return t;
    }
  };

  // The first row of this CTA's first warp, and W.
  __device__ __forceinline__ static void share(int& first, int& warps) {
    unsigned cta, ctas;
    place_in_grid(cta, ctas);
    first = (int)(cta * GRAD_WARPS);
    warps = (int)(ctas * GRAD_WARPS);
  }
  __device__ static void run(const GradDParams& p) {
    const G g(p.q, p.ldq, p.dim);
    int r0, warps;
    share(r0, warps);
    r0 += threadIdx.x >> 5;
    bool hub = false;
#pragma unroll 1
    for (; r0 < p.totd; r0 = (int)min(r0 + 32 * (int64_t)warps, p.totd)) {
      int j = -1, b = 0, e = 0;  // lane l: document and list of row r0 + l*warps
      const int64_t mine = r0 + g.lane * (int64_t)warps;
      const bool in = mine < p.totd;
      if (in) {
        j = __ldg(at<const int>(p.downer) + mine);
        b = __ldg(at<const int>(p.rowptr) + mine + j);
        e = __ldg(at<const int>(p.rowptr) + mine + j + 1);
      }
      int rows = __popc(__ballot_sync(~0u, in)), r = (int)mine;
      A acc[G::E] = {};
      if (const unsigned none = __ballot_sync(~0u, in && e == b)) {  // nobody chose them: zeros; the others close ranks
        const unsigned some = ((2u << (rows - 1)) - 1) & ~none;
        for (unsigned left = none; left; left &= left - 1) g.store(p.dd, row_of(p.dmap, r0 + (__ffs(left) - 1) * warps), p.dim, acc);
        rows = __popc(some);
        if (rows == 0) continue;
        int from = 0;  // where the lane-th bit of some is
#pragma unroll
        for (int w = 16; w > 0; w >>= 1)
          if (__popc(some & ((1u << (from + w)) - 1)) <= g.lane) from += w;
        j = __shfl_sync(~0u, j, from);
        b = __shfl_sync(~0u, b, from);
        e = __shfl_sync(~0u, e, from);
        r = __shfl_sync(~0u, r, from);
      }
      int s = 0, n = __shfl_sync(~0u, b, 0), stop = __shfl_sync(~0u, e, 0);  // the row whose terms are read next, and which
      Doc d(p, __shfl_sync(~0u, j, 0));
      Term<A> next;
      if (n + g.lane < stop) next = d.term(p, n + g.lane);
      bool big = stop - n > GRAD_HUB;
#pragma unroll 1
      while (s < rows) {  // 32 terms of one row at a time; the 32 after them are on their way
        const Term<A> now = next;
        const int row = s, count = min(32, stop - n);
        const bool last = big || n + 32 >= stop, skip = big;
        hub |= big;
        if (!last) n += 32;
        else if (++s < rows) {
          n = __shfl_sync(~0u, b, s);
          stop = __shfl_sync(~0u, e, s);
          d = Doc(p, __shfl_sync(~0u, j, s));
          big = stop - n > GRAD_HUB;
        }
        next = Term<A>();
        if (s < rows && n + g.lane < stop) next = d.term(p, n + g.lane);
        if (skip) continue;
        g.add_terms(now, count, acc);
        if (!last) continue;
        g.add_sides(acc);
        g.store(p.dd, row_of(p.dmap, __shfl_sync(~0u, r, row)), p.dim, acc);
#pragma unroll
        for (int i = 0; i < G::E; i++) acc[i] = 0;
      }
    }
    if (__syncthreads_or(hub)) hubs(p, g);
  }
  // The hubs among this CTA's rows, each by the whole CTA.
  __device__ __forceinline__ static void hubs(const GradDParams& p, const G& g) {
    __shared__ A partial[GRAD_WARPS][LANES * G::E];
    int first, warps;
    share(first, warps);
    const int warp = threadIdx.x >> 5;
#pragma unroll 1
    for (int64_t row = first; row < p.totd; row += row % GRAD_WARPS < GRAD_WARPS - 1 ? 1 : warps - GRAD_WARPS + 1) {
      const int r = (int)row;
      const int j = __ldg(at<const int>(p.downer) + r), b = __ldg(at<const int>(p.rowptr) + r + j), e = __ldg(at<const int>(p.rowptr) + r + j + 1);
      if (e - b <= GRAD_HUB) continue;
      const int each = (e - b + GRAD_WARPS - 1) / GRAD_WARPS, from = min(b + warp * each, e), to = min(from + each, e);
      const Doc d(p, j);
      A acc[G::E] = {};
#pragma unroll 1
      for (int n = from; n < to; n += 32) {
        Term<A> t;
        if (n + g.lane < to) t = d.term(p, n + g.lane);
        g.add_terms(t, min(32, to - n), acc);
      }
      g.add_sides(acc);
      __syncthreads();
      if (g.lane < LANES)
#pragma unroll
        for (int i = 0; i < G::E; i++) partial[warp][g.lane * G::E + i] = acc[i];
      __syncthreads();
      if (warp > 0) continue;
#pragma unroll
      for (int i = 0; i < G::E; i++) {
        acc[i] = 0;
#pragma unroll 1
        for (int w = 0; w < GRAD_WARPS; w++) acc[i] += partial[w][g.lane % LANES * G::E + i];
      }
      g.store(p.dd, row_of(p.dmap, r), p.dim, acc);
    }
  }
};

// A warp owns a query row; the CTA's eight rows are neighbours and read their winners together, 32 documents ahead,
// because the argmax is contiguous along the query rows.
template <class T, bool ALIGNED, int LANES> struct GradQ {
  using G = Gather<T, ALIGNED, LANES>;
  using A = typename G::A;

  // The row of d that won (query row x, n-th document that x meets); -1 if there is none.
  __device__ __forceinline__ static int winner(const GradQParams& p, int x, int n) {
    if (x >= p.totq || n >= (p.group ? p.group : p.bd)) return -1;
    const int j = p.group ? __ldg(at<const int>(p.qowner) + x) * (int)p.group + n : n;
    const int c = __ldg(at<const int>(p.cud) + j);
    if (c == __ldg(at<const int>(p.cud) + j + 1)) return -1;
    const Meets m = meets(p, j);
    const int r = c + (int)load_index(p.argmax, m.winner + (x - m.lo), p.argbytes == 4);
    return sizeof(T) == 2 ? r : row_of(p.dmap, r);
  }
  __device__ static void run(const GradQParams& p) {
    __shared__ int win[2][GRAD_WARPS][33];
    const G g(p.d, p.ldd, p.dim);
    const int warp = threadIdx.x >> 5, x0 = blockIdx.x * GRAD_WARPS, x = x0 + warp;
    const int to = x < p.totq ? row_of(p.qmap, x) : -1;
    const int docs = (int)(p.group ? p.group : p.bd), doc = threadIdx.x / GRAD_WARPS, row = threadIdx.x % GRAD_WARPS;
    const A* ds = at<const A>(p.ds) + (size_t)(x < p.totq ? __ldg(at<const int>(p.qowner) + x) : 0) * docs;
    A acc[G::E] = {};
    win[0][row][doc] = winner(p, x0 + row, doc);
    __syncthreads();
    int turn = 0;
#pragma unroll 1
    for (int n = 0; n < docs; n += 32, turn ^= 1) {
      const int ahead = winner(p, x0 + row, n + 32 + doc);
      if (to >= 0) {
        Term<A> t;
        t.row = win[turn][warp][g.lane];
        if (n + g.lane < docs) t.weight = __ldg(ds + n + g.lane);
        g.add_terms(t, min(32, docs - n), acc);
      }
      win[turn ^ 1][row][doc] = ahead;
      __syncthreads();
    }
    if (to < 0) return;
    g.add_sides(acc);
    g.store(p.dq, to, p.dim, acc);
  }
};

// The number of lanes that share a row follows from the row's bytes alone. 16-bit rows are packed, so always aligned.
template <class T, template <class, bool, int> class G, class P> __device__ __forceinline__ void by_width(const P& p, int64_t ld) {
  const int lanes = (int)((p.dim * sizeof(T) + 15) / 16);
  if constexpr (sizeof(T) > 2)
    if (ld * sizeof(T) % 16 != 0) return G<T, false, 32>::run(p);
  if (lanes <= 8) G<T, true, 8>::run(p);
  else if (lanes <= 16) G<T, true, 16>::run(p);
  else G<T, true, 32>::run(p);
}
template <class T> __device__ __forceinline__ void grad_d(const GradDParams& p) { by_width<T, GradD>(p, p.ldq); }
template <class T> __device__ __forceinline__ void grad_q(const GradQParams& p) { by_width<T, GradQ>(p, p.ldd); }
