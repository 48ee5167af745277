// Gradients as two gathers, every output element with one owner and a fixed order of sums, no atomics.
//
//   dd[r,:] = sum over the CSR list of document row r of ds[i(x), k(j)] q[x,:]
//   dq[x,:] = sum over the documents j that x meets, ascending, of ds[i(x), k(j)] d[cud[j] + argmax(x,j),:]
//
// Both are bound by the bytes that the row gathers move out of L2, so a row is read 16 bytes a lane: LANES lanes share a
// row, 32/LANES entries of a list are read side by side (and summed in a fixed tree at the end), several steps in flight.
// Rows wider than 512 bytes are cut over blockIdx.y. A document row that thousands chose ("hub") is summed by the whole
// CTA: each warp a contiguous eighth of the list, the eight partial sums in order.
#pragma once
#include "common.cuh"

constexpr int GRAD_WARPS = 8, GRAD_HUB = 512;

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
    for (int e = 0; e < E; e += 16 / sizeof(A)) *(uint4*)(row + k + e) = *(const uint4*)(acc + e);
  } else {
#pragma unroll
    for (int e = 0; e < E; e++)
      if (k + e < dim) row[k + e] = acc[e];
  }
}

template <int LANES, class A, int E> __device__ __forceinline__ void sum_side_by_side(A (&acc)[E]) {
#pragma unroll
  for (int o = LANES; o < 32; o <<= 1)
#pragma unroll
    for (int e = 0; e < E; e++) acc[e] += __shfl_xor_sync(~0u, acc[e], o);
}

template <class T, bool ALIGNED, int LANES> struct GradD {
  using A = typename Acc<T>::type;
  static constexpr int E = Lane<T>::E, SIDE = 32 / LANES, DEEP = ALIGNED ? 4 : 1;
  const GradDParams& p;
  int k, side;  // this lane's first column; which of the entries read side by side
  Rows<T, ALIGNED> q;

  __device__ GradD(const GradDParams& p_)
      : p(p_), k((blockIdx.y * 32 + threadIdx.x % LANES) * E), side(threadIdx.x % 32 / LANES), q(p_.q, p_.ldq, p_.dim, k) {}
  // Row x of q: 16-bit rows are always packed, wider ones may be the user's, read through the map.
  __device__ Lane<T> row(int x) const { return q.load(sizeof(T) == 2 ? x : row_of(p.qmap, x)); }
  __device__ A weight(const A* ds, int x) const {
    if (p.group) return __ldg(ds);
    int i = p.qmul ? (int)(__umulhi((unsigned)x, (unsigned)p.qmul) >> p.qshift) : __ldg(at<const int>(p.qowner) + x);
    return __ldg(ds + (size_t)i * p.bd);
  }
  // acc += entries [b,e) of document j's list
  __device__ void gather(int j, int b, int e, A (&acc)[E]) const {
    const Meets m = meets(p, j);
    const A* ds = at<const A>(p.ds) + j;  // all pairs: column j; grouped: ds[i, j-i*group] is element j too
    const bool wide = p.listbytes == 4;
    int n = b + side;
    for (; n + (DEEP - 1) * SIDE < e; n += DEEP * SIDE) {
      int x[DEEP]; Lane<T> v[DEEP]; A g[DEEP];
#pragma unroll
      for (int i = 0; i < DEEP; i++) x[i] = m.lo + (int)load_index(p.list, m.winner + n + i * SIDE, wide);
#pragma unroll
      for (int i = 0; i < DEEP; i++) { v[i] = row(x[i]); g[i] = weight(ds, x[i]); }
#pragma unroll
      for (int i = 0; i < DEEP; i++) add<T>(acc, v[i], g[i]);
    }
#pragma unroll 1
    for (; n < e; n += SIDE) {
      const int x = m.lo + (int)load_index(p.list, m.winner + n, wide);
      add<T>(acc, row(x), weight(ds, x));
    }
    sum_side_by_side<LANES>(acc);
  }
  __device__ void store(int r, const A (&acc)[E]) const {
    if (side == 0 && k < p.dim) store_row(at<A>(p.dd) + (size_t)row_of(p.dmap, r) * p.dim, k, (int)p.dim, acc);
  }
  __device__ static void run(const GradDParams& p) { GradD(p).rows(); }
  __device__ void rows() const {
    __shared__ A partial[GRAD_WARPS][LANES * E];
    const int warp = threadIdx.x >> 5, first = blockIdx.x * GRAD_WARPS, last = min(GRAD_WARPS, (int)p.totd - first);
    const int* rowptr = at<const int>(p.rowptr);
    // Step -1: every warp its own row unless that is a hub. Then, all warps together the hubs among the rows.
#pragma unroll 1
    for (int step = -1; step < last; step++) {
      const int r = first + (step < 0 ? warp : step), col = threadIdx.x % LANES * E;
      int j = 0, b = 0, e = 0;
      if (r < p.totd) {
        j = __ldg(at<const int>(p.downer) + r);
        b = __ldg(rowptr + r + j);
        e = __ldg(rowptr + r + j + 1);
      }
      const bool hub = e - b > GRAD_HUB;
      if (step >= 0 && !hub) continue;
      if (step >= 0) {
        const int each = (e - b + GRAD_WARPS - 1) / GRAD_WARPS;
        b = min(b + warp * each, e);
        e = min(b + each, e);
      }
      A acc[E] = {};
      if (step >= 0 || (!hub && r < p.totd)) gather(j, b, e, acc);
      if (step < 0) {
        if (!hub && r < p.totd) store(r, acc);
        if (!__syncthreads_or(hub)) return;
        continue;
      }
      __syncthreads();
      if (side == 0)
#pragma unroll
        for (int i = 0; i < E; i++) partial[warp][col + i] = acc[i];
      __syncthreads();
      if (warp == 0) {
#pragma unroll
        for (int i = 0; i < E; i++) {
          acc[i] = 0;
          for (int w = 0; w < GRAD_WARPS; w++) acc[i] += partial[w][col + i];
        }
        store(r, acc);
      }
    }
  }
};

// 512/LANES query rows a CTA; the rows' winners are staged through shared memory, so that the argmax is read along the
// query rows, where it is contiguous.
constexpr int GRAD_Q_THREADS = 512;
template <class T, bool ALIGNED, int LANES> struct GradQ {
  using A = typename Acc<T>::type;
  static constexpr int E = Lane<T>::E, ROWS = GRAD_Q_THREADS / LANES, DOCS = 2048 / ROWS, DEEP = ALIGNED ? 8 : 2;

  // The row of d that won (query row x, n-th document that x meets); -1 if the document is empty.
  __device__ static int winner(const GradQParams& p, int x, int n) {
    const int j = p.group ? __ldg(at<const int>(p.qowner) + x) * (int)p.group + n : n;
    const int c = __ldg(at<const int>(p.cud) + j);
    if (c == __ldg(at<const int>(p.cud) + j + 1)) return -1;
    const Meets m = meets(p, j);
    const int r = c + (int)load_index(p.argmax, m.winner + (x - m.lo), p.argbytes == 4);
    return sizeof(T) == 2 ? r : row_of(p.dmap, r);
  }
  __device__ static void run(const GradQParams& p) {
    __shared__ int win[DOCS][ROWS];
    const int tid = threadIdx.x, mine = tid / LANES, k = (blockIdx.y * 32 + tid % LANES) * E;
    const int x0 = blockIdx.x * ROWS, x = x0 + mine;
    if (x0 >= p.totq) return;
    const int to = x < p.totq ? row_of(p.qmap, x) : -1;
    const int i = x < p.totq ? __ldg(at<const int>(p.qowner) + x) : 0;
    const Rows<T, ALIGNED> d(p.d, p.ldd, p.dim, k);
    const int docs = p.totd == 0 ? 0 : (int)(p.group ? p.group : p.bd);
    const A* ds = at<const A>(p.ds) + (size_t)i * (p.group ? p.group : p.bd);
    A acc[E] = {};
#pragma unroll 1
    for (int n0 = 0; n0 < docs; n0 += DOCS) {
      const int n = min(DOCS, docs - n0);
      __syncthreads();
#pragma unroll 4
      for (int s = tid; s < n * ROWS; s += GRAD_Q_THREADS)
        win[s / ROWS][s % ROWS] = x0 + s % ROWS < p.totq ? winner(p, x0 + s % ROWS, n0 + s / ROWS) : -1;
      __syncthreads();
      if (to < 0) continue;
      const A* g = ds + n0;
      int s = 0;
#pragma unroll 1
      for (; s + DEEP <= n; s += DEEP) {
        Lane<T> v[DEEP];
#pragma unroll
        for (int a = 0; a < DEEP; a++) v[a] = d.load(max(win[s + a][mine], 0));
#pragma unroll
        for (int a = 0; a < DEEP; a++)
          if (win[s + a][mine] >= 0) add<T>(acc, v[a], __ldg(g + s + a));
      }
#pragma unroll 1
      for (; s < n; s++)
        if (win[s][mine] >= 0) add<T>(acc, d.load(win[s][mine]), __ldg(g + s));
    }
    if (to >= 0 && k < p.dim) store_row(at<A>(p.dq) + (size_t)to * p.dim, k, (int)p.dim, acc);
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
