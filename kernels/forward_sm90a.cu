// Tensor core forward for Hopper: a persistent CTA streams its run of document columns past a tile of query rows.
//
//   warpgroup 0   one thread fetches: tensor map copies of document columns (128 a tile, CHUNKS x 128 bytes of each a
//                 stage) into a ring of stages; the rest of the warpgroup only gives its registers away.
//   the others    each owns 64 query rows: waits for a stage, multiplies (wgmma m64n128), gives the stage back and folds
//                 the 64x128 products into running maxima while the other warpgroups multiply.
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

template <class Op_, int KSTEPS_, int GROUPS_, bool DEEP_, bool STREAM_> struct Shape {
  using Op = Op_;
  static constexpr int KSTEPS = KSTEPS_, GROUPS = GROUPS_, TILE = 64 * GROUPS, COLUMNS = 128;
  static constexpr bool DEEP = DEEP_, STREAM = STREAM_;  // several stages a tile; query rows come with them
  static constexpr int LOW = Op::SPLIT ? 64 : 1;          // accumulators of the small products
  static constexpr int CHUNKS = (KSTEPS + 3) / 4, DBYTES = CHUNKS * COLUMNS * 128, QBYTES = CHUNKS * TILE * 128;
  static constexpr int STAGE = DBYTES + (STREAM ? QBYTES : 0);
  static constexpr int THREADS = 128 * (GROUPS + 1), CTAS = GROUPS == 1 ? 2 : 1, MAX_STAGES = 12;
  static constexpr int FEW = 24, MANY = GROUPS == 4 ? 112 : GROUPS == 1 ? 216 : 240;  // registers of a thread
  static constexpr int CONTROL = 256;  // bytes behind the tiles: barriers
  static_assert(FEW + GROUPS * MANY <= 65536 / (CTAS * THREADS) / 8 * 8 * (GROUPS + 1), "setmaxnreg.inc would wait for ever");
};

// Barriers and tiles of a CTA's shared memory: [query rows | stages | control].
template <class S> struct Ring {
  uint32_t q, stage0, full, empty, qfull, qempty;
  int stages, depth;  // stages in the ring; stages (of KSTEPS) of a tile
  __device__ __forceinline__ Ring(const ForwardParams& p, const void* shared) {
    uint32_t size;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
    depth = ((int)p.ldd * S::Op::BYTES + S::KSTEPS * 32 - 1) / (S::KSTEPS * 32);
    const int resident = S::STREAM ? 0 : depth * S::QBYTES;
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
template <class S> __device__ __forceinline__ void fetch(const ForwardSm90Params& P, const Ring<S>& ring, Shares<S::TILE>& shares) {
  int st = 0, ph = 0, qph = 0;
  Run run;
  while (shares.next(P.f, run)) {
    if constexpr (!S::STREAM) {
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
#pragma unroll
        for (int b = 0; b < S::CHUNKS; b++) {
          const int x = 64 * (k * S::CHUNKS + b);
          copy_box(to + b * S::COLUMNS * 128, P.dtile, bar, x, c);
          if constexpr (S::STREAM)
            for (int g = 0; g < S::GROUPS; g++) copy_box(to + S::DBYTES + (b * S::GROUPS + g) * 8192, P.qtile, bar, x, run.x0 + 64 * g);
        }
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

// acc = (acc + low 2^-11) times the scale of each document row.
__device__ __forceinline__ void combine(float (&acc)[64], const float (&low)[64], const ForwardParams& p, int c, int last, int lane) {
  const float* scale = at<const float>(p.dscale);
#pragma unroll
  for (int i = 0; i < 16; i++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const float f = __ldg(scale + min(c + 8 * i + 2 * (lane & 3) + h, last));
      acc[4 * i + h] = fmaf(low[4 * i + h], 0x1p-11f, acc[4 * i + h]) * f;
      acc[4 * i + 2 + h] = fmaf(low[4 * i + 2 + h], 0x1p-11f, acc[4 * i + 2 + h]) * f;
    }
}

// One warpgroup of 64 query rows.
template <class S, bool ARG> __device__ __forceinline__ void consume(const ForwardSm90Params& P, const Ring<S>& ring, Shares<S::TILE>& shares, int group) {
  const ForwardParams& p = P.f;
  const int tid = threadIdx.x & 127, lane = threadIdx.x & 31;
  const float one = __int_as_float(0x3f800000 + (int)(p.dim >> 62));  // 1, but the compiler cannot know
  int st = 0, ph = 0, qph = 0;
  float acc[64], low[S::LOW] = {};
  Run run;
  while (shares.next(p, run)) {
    const WarpRows rows(p, run, run.x0 + group * 64 + (tid >> 5) * 16, lane);
    Walk walk(p, run);
    Running s;
    if constexpr (!S::STREAM) { barrier_wait(ring.qfull, qph); qph ^= 1; }
    for (int c = run.c0; c < run.c1; c += S::COLUMNS) {
      uint32_t stage = ring.stage0 + st * S::STAGE, used = ring.empty + 8 * st;
      barrier_wait(ring.full + 8 * st, ph);
      if (++st == ring.stages) { st = 0; ph ^= 1; }
      pin(acc);
      pin(low);
      multiply<S, false>(acc, low, (S::STREAM ? stage + S::DBYTES : ring.q) + group * 8192, stage);
      if constexpr (S::DEEP)
        for (int k = 1; k < ring.depth; k++) {
          stage = ring.stage0 + st * S::STAGE;
          barrier_wait(ring.full + 8 * st, ph);
          multiply<S, true>(acc, low, (S::STREAM ? stage + S::DBYTES : ring.q + k * S::QBYTES) + group * 8192, stage);
          warpgroup_wait<1>();
          if (tid == 0) barrier_arrive(used);
          used = ring.empty + 8 * st;
          if (++st == ring.stages) { st = 0; ph ^= 1; }
        }
      warpgroup_wait<0>();
      pin(acc);
      pin(low);
      if (tid == 0) barrier_arrive(used);
      if constexpr (S::Op::SPLIT) combine(acc, low, p, c, run.c1 - 1, lane);
      epilogue<ARG>(acc, s, walk, p, run, rows, c, lane, one);
    }
    if constexpr (!S::STREAM) if (tid == 0) barrier_arrive(ring.qempty);
  }
}

template <class S, bool ARG> __device__ __forceinline__ void forward(const ForwardSm90Params& P) {
  extern __shared__ __align__(1024) uint8_t raw[];
  const Ring<S> ring(P.f, raw);
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  Shares<S::TILE> shares(P.f, threadIdx.x & 31);
  const int wg = __shfl_sync(~0u, threadIdx.x >> 7, 0);  // uniform, and the compiler knows it
  if (wg == 0) {
    registers_down<S::FEW>();
    if (threadIdx.x == 0) fetch<S>(P, ring, shares);
  } else {
    registers_up<S::MANY>();
    consume<S, ARG>(P, ring, shares, wg - 1);
  }
}

#define FORWARD(name, S)                                                                              \
  KERNEL(maxsim_forward_##name##_max_sm90a, ForwardSm90Params, S::THREADS, S::CTAS, forward<S, false>) \
  KERNEL(maxsim_forward_##name##_arg_sm90a, ForwardSm90Params, S::THREADS, S::CTAS, forward<S, true>)
#define SHAPE(name, Op, KSTEPS, GROUPS, DEEP, STREAM)           \
  using Shape_##name = Shape<Op, KSTEPS, GROUPS, DEEP, STREAM>; \
  FORWARD(name, Shape_##name)

#define SIXTEEN_BIT(type, Op)                       \
  SHAPE(type##_k8_m64, Op, 8, 1, false, false)     \
  SHAPE(type##_long_m64, Op, 4, 1, true, false)    \
  SHAPE(type##_k8_m128, Op, 8, 2, false, false)    \
  SHAPE(type##_k4_m256, Op, 4, 4, false, false)    \
  SHAPE(type##_k6_m256, Op, 6, 4, false, false)    \
  SHAPE(type##_k8_m256, Op, 8, 4, false, false)    \
  SHAPE(type##_long_m256, Op, 4, 4, true, false)   \
  SHAPE(type##_stream, Op, 4, 4, true, true)

SIXTEEN_BIT(bf16, Bf16)
SIXTEEN_BIT(f16, F16)
SHAPE(tf32_stream, Tf32, 4, 4, true, true)
SHAPE(split_long_m128, Split, 4, 2, true, false)
SHAPE(split_stream, Split, 4, 2, true, true)
