// Tensor core forward for Hopper: a persistent CTA streams its run of document columns past a tile of query rows.
//
//   warpgroup 0   one thread fetches: tensor map copies of document columns (128 a tile, CHUNKS x 128 bytes of each a
//                 stage, in boxes of 128 bytes of BOX columns) into a ring of stages; the rest of the warpgroup only
//                 gives its registers away.
//   the others    each owns 64 query rows: waits for a stage, multiplies (wgmma m64n128), gives the stage back and folds
//                 the 64x128 products into running maxima while the other warpgroups multiply. Where a tile is one stage
//                 they do it in turn.
//
// Shapes (one row of the choice table each): m64, m128, m256 keep the tile's query rows in shared memory for the whole
// run; stream fetches them again with every tile, for rows too long to keep. k4, k6, k8: a tile is one stage of that many
// k-steps (32 bytes of a row); long and stream: a tile takes several stages of four.
// The split multiplies low x high, high x low and high x high parts, the first two into accumulators of their own,
// which count 2^-11: 128 accumulator registers, so two warpgroups.
//
// A pair's products are added in the order of k in every shape, so its bits do not depend on the shape that serves it.
// It deliberately never has a product in flight across a document's end: ptxas serializes such loops (C7514).
#include <cmath>
#include <type_traits>
#include "epilogue.cuh"
#include "mma.cuh"
#include "wgmma.cuh"

// Where a tile's query rows are: kept in shared memory, in registers (split rows of at most 512 bytes), or fetched again
// with every stage.
enum Query { SHARED, REGISTERS, STREAM };

template <class Op_, int KSTEPS_, int GROUPS_, bool DEEP_, Query QUERY_> struct Shape {
  using Op = Op_;
  static constexpr int KSTEPS = KSTEPS_, GROUPS = GROUPS_, TILE = 64 * GROUPS, COLUMNS = 128;
  static constexpr bool DEEP = DEEP_;  // several stages a tile
  static constexpr Query QUERY = QUERY_;
  static constexpr int REFETCHED = QUERY == STREAM ? Op::BYTES : 0;  // bytes of an element of query rows that are fetched again
  static constexpr bool READ_ONCE = GROUPS <= 2 && !Op::SPLIT;       // chosen where all query rows of a document are one tile
  static constexpr int LOW = Op::SPLIT ? 64 : 1;          // accumulators of the small products
  static constexpr int SUM = Op::SPLIT && DEEP ? 64 : 1;  // sums of finished accumulators of the large ones
  static constexpr int CHUNKS = (KSTEPS + 3) / 4, DBYTES = CHUNKS * COLUMNS * 128, QBYTES = QUERY == REGISTERS ? 0 : CHUNKS * TILE * 128;
  static constexpr int STAGE = DBYTES + (QUERY == STREAM ? QBYTES : 0);
  static constexpr int THREADS = 128 * (GROUPS + 1), CTAS = GROUPS == 1 ? 2 : 1, MAX_STAGES = 12;
  static constexpr bool TURNS = GROUPS > 1 && !DEEP;  // warpgroups multiply in turn
  static constexpr int FEW = 24, MANY = GROUPS == 4 ? 112 : GROUPS == 1 ? 216 : 240;  // registers of a thread
  // One query in one or two warpgroups: they can write its scores.
  using Board = typename std::conditional<READ_ONCE, SlabBoard<GROUPS>, NoBoard>::type;
  // Small boxes where a stage holds whole columns, so that all bytes of a column are read from memory nearly at once.
  static constexpr int BOX = READ_ONCE && !DEEP ? 16 : COLUMNS;
  static constexpr int BOARD = 256, CONTROL = BOARD + 128 * (GROUPS == 2 ? 2 : 1);  // bytes behind the tiles: barriers, then the slab boards
  static_assert(FEW + GROUPS * MANY <= 65536 / (CTAS * THREADS) / 8 * 8 * (GROUPS + 1), "setmaxnreg.inc would wait for ever");
};

// Barriers and tiles of a CTA's shared memory: [query rows | stages | control].
template <class S> struct Ring {
  uint32_t q, stage0, full, empty, qfull, qempty;
  int stages, depth;  // stages in the ring; stages (of KSTEPS) of a tile
  __device__ __forceinline__ Ring(const ForwardParams& p, const void* shared) {
    const uint32_t size = dynamic_shared_bytes();
    depth = ((int)p.ldd * S::Op::BYTES + S::KSTEPS * 32 - 1) / (S::KSTEPS * 32);
    const int resident = S::QUERY == SHARED ? depth * S::QBYTES : 0;
    stages = min(((int)size - S::CONTROL - resident) / S::STAGE, S::MAX_STAGES);
    q = shared_address(shared);
    stage0 = q + resident;
    full = stage0 + stages * S::STAGE;
    empty = full + 8 * S::MAX_STAGES;
    qfull = empty + 8 * S::MAX_STAGES;
    qempty = qfull + 8;
  }
  __device__ __forceinline__ void init() const {
    for (int i = 0; i < stages; i++) { barrier_init(full + 8 * i, 1); barrier_init(empty + 8 * i, S::GROUPS); }
    barrier_init(qfull, 1);
    barrier_init(qempty, S::GROUPS);
    barrier_init_done();
  }
};

// The fetching thread.
template <class S> __device__ __forceinline__ void fetch(const ForwardSm90Params& P, const Ring<S>& ring, Shares<S::TILE, S::REFETCHED>& shares) {
  const uint64_t documents = read_policy(P.f.maxq <= S::TILE);  // one tile: documents are read once
  int st = 0, ph = 0, qph = 0;
  Run run;
  while (shares.next(P.f, run)) {
    if constexpr (S::QUERY == SHARED) {
      barrier_wait(ring.qempty, qph ^ 1);
      qph ^= 1;
      barrier_expect(ring.qfull, ring.depth * S::QBYTES);
      for (int c = 0; c < ring.depth * S::CHUNKS; c++)
        for (int g = 0; g < S::GROUPS; g++) copy_box(ring.q + (c * S::GROUPS + g) * 8192, P.qtile, ring.qfull, 64 * c, run.x0 + 64 * g);
    }
    for (int c = run.c0; c < run.c1; c += S::COLUMNS)
      for (int k = 0; k < ring.depth; k++) {
        const uint32_t to = ring.stage0 + st * S::STAGE, bar = ring.full + 8 * st;
        barrier_wait(ring.empty + 8 * st, ph ^ 1);
        barrier_expect(bar, S::STAGE);
        for (int y = 0; y < S::COLUMNS; y += S::BOX)
#pragma unroll
          for (int b = 0; b < S::CHUNKS; b++)
            copy_box(to + (b * S::COLUMNS + y) * 128, P.dtile, bar, 64 * (k * S::CHUNKS + b), c + y, documents);
        if constexpr (S::QUERY == STREAM)
#pragma unroll
          for (int b = 0; b < S::CHUNKS; b++)
            for (int g = 0; g < S::GROUPS; g++)
              copy_box(to + S::DBYTES + (b * S::GROUPS + g) * 8192, P.qtile, bar, 64 * (k * S::CHUNKS + b), run.x0 + 64 * g);
        if (++st == ring.stages) { st = 0; ph ^= 1; }
      }
  }
}

// The products of one stage: q, d are the shared addresses of this warpgroup's rows and of the columns.
template <class S, bool ADD> __device__ __forceinline__ void multiply(float (&acc)[64], float (&low)[S::LOW], uint32_t q, uint32_t d) {
  constexpr int QCHUNK = S::GROUPS * 8192, DCHUNK = S::COLUMNS * 128;
  warpgroup_fence();
  if constexpr (S::Op::SPLIT) {
#pragma unroll
    for (int c = 0; c < S::CHUNKS; c++)
#pragma unroll
      for (int k = 0; k < 2; k++) {
        const uint32_t hq = c * QCHUNK + k * 32, hd = c * DCHUNK + k * 32;
        wgmma<F16>(low, descriptor(q, hq + 64), descriptor(d, hd), ADD || c + k > 0);
        wgmma<F16>(low, descriptor(q, hq), descriptor(d, hd + 64), 1);
        wgmma<F16>(acc, descriptor(q, hq), descriptor(d, hd), ADD || c + k > 0);
      }
  } else {
#pragma unroll
    for (int k = 0; k < S::KSTEPS; k++)
      wgmma<typename S::Op>(acc, descriptor(q, k / 4 * QCHUNK + k % 4 * 32), descriptor(d, k / 4 * DCHUNK + k % 4 * 32), ADD || k > 0);
  }
  warpgroup_commit();
}

// The split with query rows in registers: rows of four chunks, high parts in q[4c], q[4c+1], low parts in q[4c+2], q[4c+3].
__device__ __forceinline__ void load_rows(uint32_t (&q)[16][4], const ForwardParams& p, const Run& run, int x, int lane) {
  const int pitch = (int)p.ldq * 2;
#pragma unroll
  for (int k = 0; k < 16; k++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const int row = x + (lane >> 2) + (e & 1) * 8, at0 = k * 32 + (e >> 1) * 16 + (lane & 3) * 4;
      q[k][e] = row < run.x1 && at0 < pitch ? __ldg((const uint32_t*)(at<const char>(p.q) + (size_t)row * pitch + at0)) : 0;
    }
}
__device__ __forceinline__ void multiply(float (&acc)[64], float (&low)[64], const uint32_t (&q)[16][4], uint32_t d) {
  warpgroup_fence();
#pragma unroll
  for (int c = 0; c < 4; c++)
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const uint32_t high = c * (128 * 128) + k * 32;
      wgmma_f16(low, q[4 * c + 2 + k], descriptor(d, high), c + k > 0);
      wgmma_f16(low, q[4 * c + k], descriptor(d, high + 64), 1);
      wgmma_f16(acc, q[4 * c + k], descriptor(d, high), c + k > 0);
    }
  warpgroup_commit();
}

// to += from; from = 0.
__device__ __forceinline__ void move(float (&to)[64], float (&from)[64]) {
#pragma unroll
  for (int i = 0; i < 64; i++) { to[i] += from[i]; from[i] = 0; }
}

// Brings the scales of a tile's document rows near while the products run.
__device__ __forceinline__ void touch_scales(const ForwardParams& p, int c, int last, int tid) {
  touch(at<const float>(p.dscale) + min(c + tid, last));
}
// acc = (acc + low 2^-11) times the scale of each document row; last: the run's last row.
__device__ __forceinline__ void combine(float (&acc)[64], const float (&low)[64], const ForwardParams& p, int c, int last, int lane) {
  const float* scale = at<const float>(p.dscale) + c + 2 * (lane & 3);
  const int left = last - c - 2 * (lane & 3);
#pragma unroll
  for (int b = 0; b < 4; b++) {  // eight loads at a time: 128 accumulators leave no room for 32, and one at a time would wait
    float f[8];
#pragma unroll
    for (int i = 0; i < 8; i++) f[i] = load_here(scale + min(8 * (4 * b + i / 2) + i % 2, left));
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const int e = 4 * (4 * b + i / 2) + i % 2;
      acc[e] = fmaf(low[e], 0x1p-11f, acc[e]) * f[i];
      acc[e + 2] = fmaf(low[e + 2], 0x1p-11f, acc[e + 2]) * f[i];
    }
  }
}

// Whose products the tensor cores take next: left to themselves, warpgroups that multiply at the same time all end at the
// same time, and look for maxima together while the tensor cores rest.
struct Turn {
  int mine, next;  // hardware barriers, each of two warpgroups
  __device__ __forceinline__ void await() const { sync_threads<256>(mine); }
  __device__ __forceinline__ void pass() const { announce_threads<256>(next); }
};

// One warpgroup of 64 query rows.
template <class S, bool ARG>
__device__ __forceinline__ void consume(const ForwardSm90Params& P, const Ring<S>& ring, Shares<S::TILE, S::REFETCHED>& shares, int group) {
  const ForwardParams& p = P.f;
  const int tid = threadIdx.x & 127, lane = threadIdx.x & 31;
  const float one = __int_as_float(0x3f800000 + (int)(p.dim >> 62));  // 1, but the compiler cannot know
  typename S::Board board;
  if constexpr (S::READ_ONCE) board.board = ring.full + S::BOARD;
  int st = 0, ph = 0, qph = 0;
  float acc[1][64], low[S::LOW] = {}, sum[S::SUM] = {};
  uint32_t rowsq[S::QUERY == REGISTERS ? 16 : 1][4];
  Run run;
  const Turn turn{2 + group, 2 + (group + 1) % S::GROUPS};
  if (S::TURNS && group == S::GROUPS - 1) turn.pass();
  while (shares.next(p, run)) {
    const WarpRows<1> rows(p, run, run.x0 + group * 64 + (tid >> 5) * 16, lane);
    Walk walk(p, run);
    Running s[1];
    if constexpr (S::QUERY == SHARED) { barrier_wait(ring.qfull, qph); qph ^= 1; }
    if constexpr (S::QUERY == REGISTERS) load_rows(rowsq, p, run, run.x0 + group * 64 + (tid >> 5) * 16, lane);
    for (int c = run.c0; c < run.c1; c += S::COLUMNS) {
      uint32_t stage = ring.stage0 + st * S::STAGE, used = ring.empty + 8 * st;
      barrier_wait(ring.full + 8 * st, ph);
      if (++st == ring.stages) { st = 0; ph ^= 1; }
      pin(acc[0]);
      pin(low);
      if (S::TURNS) turn.await();
      if constexpr (S::QUERY == REGISTERS) multiply(acc[0], low, rowsq, stage);
      else multiply<S, false>(acc[0], low, (S::QUERY == STREAM ? stage + S::DBYTES : ring.q) + group * 8192, stage);
      if (S::TURNS) turn.pass();
      if constexpr (S::Op::SPLIT) touch_scales(p, c, run.c1 - 1, tid);
      if constexpr (S::DEEP)
        for (int k = 1; k < ring.depth; k++) {
          stage = ring.stage0 + st * S::STAGE;
          barrier_wait(ring.full + 8 * st, ph);
          if constexpr (S::Op::SPLIT)
            if (k % S::Op::CHAIN == 0) {
              warpgroup_wait<0>();
              pin(acc[0]);
              pin(low);
              move(sum, acc[0]);
            }
          multiply<S, true>(acc[0], low, (S::QUERY == STREAM ? stage + S::DBYTES : ring.q + k * S::QBYTES) + group * 8192, stage);
          warpgroup_wait<1>();
          if (tid == 0) barrier_arrive(used);
          used = ring.empty + 8 * st;
          if (++st == ring.stages) { st = 0; ph ^= 1; }
        }
      warpgroup_wait<0>();
      pin(acc[0]);
      pin(low);
      if (tid == 0) barrier_arrive(used);
      if constexpr (S::SUM > 1) move(acc[0], sum);
      if constexpr (S::Op::SPLIT) combine(acc[0], low, p, c, run.c1 - 1, lane);
      epilogue<ARG>(acc, s, walk, p, run, rows, board, c, lane, one);
    }
    if constexpr (S::QUERY == SHARED) if (tid == 0) barrier_arrive(ring.qempty);
  }
  if (S::TURNS && group == 0) turn.await();  // what the last one passed
}

template <class S, bool ARG> __device__ __forceinline__ void forward(const ForwardSm90Params& P) {
  DYNAMIC_SHARED(1024, raw);
  const Ring<S> ring(P.f, raw);
  if (threadIdx.x == 0) {
    touch_map(P.dtile);
    if constexpr (S::QUERY != REGISTERS) touch_map(P.qtile);
    ring.init();
  }
  __syncthreads();
  Shares<S::TILE, S::REFETCHED> shares(P.f, threadIdx.x & 31);  // from offsets alone, which no launch writes
  await_earlier_launches();
  const int wg = __shfl_sync(~0u, threadIdx.x >> 7, 0);  // uniform, and the compiler knows it
  if (wg == 0) {
    registers_down<S::FEW>();
    if (threadIdx.x == 0) fetch<S>(P, ring, shares);
  } else {
    registers_up<S::MANY>();
    consume<S, ARG>(P, ring, shares, wg - 1);
  }
}

#define FORWARD(name, S)                                                                                      \
  PRELUDE_KERNEL(maxsim_forward_##name##_max_sm90a, ForwardSm90Params, S::THREADS, S::CTAS, forward<S, false>) \
  PRELUDE_KERNEL(maxsim_forward_##name##_arg_sm90a, ForwardSm90Params, S::THREADS, S::CTAS, forward<S, true>)
#define SHAPE(name, Op, KSTEPS, GROUPS, DEEP, QUERY)           \
  using Shape_##name = Shape<Op, KSTEPS, GROUPS, DEEP, QUERY>; \
  FORWARD(name, Shape_##name)
#define SIXTEEN_BIT(type, Op)                       \
  SHAPE(type##_k8_m64, Op, 8, 1, false, SHARED)     \
  SHAPE(type##_long_m64, Op, 4, 1, true, SHARED)    \
  SHAPE(type##_k8_m128, Op, 8, 2, false, SHARED)    \
  SHAPE(type##_k4_m256, Op, 4, 4, false, SHARED)    \
  SHAPE(type##_k6_m256, Op, 6, 4, false, SHARED)    \
  SHAPE(type##_k8_m256, Op, 8, 4, false, SHARED)    \
  SHAPE(type##_long_m256, Op, 4, 4, true, SHARED)   \
  SHAPE(type##_stream, Op, 4, 4, true, STREAM)

SIXTEEN_BIT(bf16, Bf16)
SIXTEEN_BIT(f16, F16)
SHAPE(tf32_long_m256, Tf32, 4, 4, true, SHARED)
SHAPE(tf32_stream, Tf32, 4, 4, true, STREAM)
SHAPE(split_k16_m128, Split, 16, 2, false, REGISTERS)
SHAPE(split_long_m128, Split, 4, 2, true, SHARED)
SHAPE(split_stream, Split, 4, 2, true, STREAM)
