// Tensor core forward for every GPU from sm_80 on: mma.sync, ldmatrix, cp.async. Two shapes of one idea (flat stream of
// document columns, query rows by tiles, running max in registers):
//
//   k4, k6, k8  rows of at most 128, 192, 256 bytes: 8 warps of 32 query rows keep their rows in registers, documents
//               come through shared memory, 64 columns a tile; only they are read again and again.
//   stream      longer rows, and the split: 8 warps of 16 query rows; both sides come through shared memory 128 bytes
//               of every row at a time.
//
// Both fit the 99 KB of shared memory of sm_86 and sm_89. The products of a pair are added in the order of k, whichever
// of the two serves it.
#include <cmath>
#include <type_traits>
#include "epilogue.cuh"
#include "mma.cuh"

constexpr int COLUMNS = 64, STAGES = 4, THREADS = 256;

// ---------------------------------------------------------------- query rows in registers
template <class Op, int KSTEPS, bool ARG> __device__ __forceinline__ void forward_resident(const ForwardParams& p) {
  constexpr int TILE = 256, PIECES = 2 * KSTEPS, HALF = COLUMNS * 128, STAGE = HALF * (KSTEPS > 4 ? 2 : 1);
  DYNAMIC_SHARED(128, raw);
  const uint32_t sm = shared_address(raw);
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, pitch = (int)p.ldd * Op::BYTES, qpitch = (int)p.ldq * Op::BYTES;
  const float one = __int_as_float(0x3f800000 + (int)(p.dim >> 62));  // 1, but the compiler cannot know
  // ldmatrix: lane supplies row n of one of four matrices: columns 0-7 | 8-15 of 16, bytes 0-15 | 16-31 of a k-step
  const int ln = (lane & 7) + ((lane >> 4) << 3), lk = (lane >> 3) & 1;

  NoBoard board;
  Shares<TILE> shares(p, lane);
  Run run;
  while (shares.next(p, run)) {
    uint32_t a[2][KSTEPS][4];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int x = run.x0 + warp * 32 + i * 16 + (lane >> 2);
#pragma unroll
      for (int k = 0; k < KSTEPS; k++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const int row = x + (e & 1) * 8, at0 = k * 32 + (e >> 1) * 16 + (lane & 3) * 4;
          a[i][k][e] = row < run.x1 && at0 < qpitch ? __ldg((const uint32_t*)(at<const char>(p.q) + (size_t)row * qpitch + at0)) : 0;
        }
    }
    const WarpRows rows[2] = {{p, run, run.x0 + warp * 32, lane}, {p, run, run.x0 + warp * 32 + 16, lane}};
    const int tiles = (run.c1 - run.c0 + COLUMNS - 1) / COLUMNS;
    auto load = [&](int t) {
#pragma unroll
      for (int n = 0; n < COLUMNS * PIECES / THREADS; n++) {
        const int i = tid + n * THREADS, r = i / PIECES, ch = i % PIECES, c = run.c0 + t * COLUMNS + r;
        const bool in = t < tiles && c < run.c1 && ch * 16 < pitch;
        copy16(sm + (t % STAGES) * STAGE + (ch >> 3) * HALF + swizzled(r, ch & 7), in ? at<const char>(p.d) + (size_t)c * pitch + ch * 16 : at<const char>(p.d), in);
      }
      copy_commit();
    };
    Walk walk(p, run), walk1 = walk;
    Running s[2];
    __syncthreads();
    for (int t = 0; t < STAGES - 1; t++) load(t);
    for (int t = 0; t < tiles; t++) {
      copy_wait<STAGES - 2>();
      __syncthreads();
      load(t + STAGES - 1);
      const uint32_t tile = sm + (t % STAGES) * STAGE;
      float acc[2][32] = {};
#pragma unroll
      for (int k = 0; k < KSTEPS; k++) {
#pragma unroll
        for (int n = 0; n < 4; n++) {
          uint32_t b[4];
          ldmatrix4(b, tile + (k / 4) * HALF + swizzled(n * 16 + ln, (k % 4) * 2 + lk));
#pragma unroll
          for (int i = 0; i < 2; i++) {
            mma<Op>(&acc[i][n * 8], a[i][k], b[0], b[1]);
            mma<Op>(&acc[i][n * 8 + 4], a[i][k], b[2], b[3]);
          }
        }
      }
      walk1 = walk;
      epilogue<ARG>(acc[0], s[0], walk1, p, run, rows[0], board, run.c0 + t * COLUMNS, lane, one);
      epilogue<ARG>(acc[1], s[1], walk, p, run, rows[1], board, run.c0 + t * COLUMNS, lane, one);
    }
    copy_wait<0>();
  }
}

// ---------------------------------------------------------------- both sides through shared memory
template <class Op, bool ARG> __device__ __forceinline__ void forward_stream(const ForwardParams& p) {
  constexpr int TILE = 128, STAGE = (TILE + COLUMNS) * 128;
  DYNAMIC_SHARED(128, raw);
  const uint32_t sm = shared_address(raw);
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, pitch = (int)p.ldd * Op::BYTES, qpitch = (int)p.ldq * Op::BYTES;
  const float one = __int_as_float(0x3f800000 + (int)(p.dim >> 62));
  const int ln = (lane & 7) + ((lane >> 4) << 3), lk = (lane >> 3) & 1;  // document columns, as above
  const int la = lane & 15, lka = lane >> 4;                             // query rows 0-15, bytes 0-15 | 16-31
  const int chunks = (pitch + 127) / 128;

  NoBoard board;
  Shares<TILE> shares(p, lane);
  Run run;
  while (shares.next(p, run)) {
    const WarpRows rows(p, run, run.x0 + warp * 16, lane);
    const int tiles = (run.c1 - run.c0 + COLUMNS - 1) / COLUMNS, steps = tiles * chunks;
    int lt = 0, lc = 0;  // tile and chunk of the next load
    auto load = [&](int n) {
      const uint32_t to = sm + (n % STAGES) * STAGE;
#pragma unroll
      for (int i = tid; i < TILE * 8; i += THREADS) {
        const int r = i >> 3, ch = i & 7, x = run.x0 + r, at0 = lc * 128 + ch * 16;
        const bool in = n < steps && x < run.x1 && at0 < qpitch;
        copy16(to + swizzled(r, ch), in ? at<const char>(p.q) + (size_t)x * qpitch + at0 : at<const char>(p.q), in);
      }
#pragma unroll
      for (int i = tid; i < COLUMNS * 8; i += THREADS) {
        const int r = i >> 3, ch = i & 7, c = run.c0 + lt * COLUMNS + r, at0 = lc * 128 + ch * 16;
        const bool in = n < steps && c < run.c1 && at0 < pitch;
        copy16(to + TILE * 128 + swizzled(r, ch), in ? at<const char>(p.d) + (size_t)c * pitch + at0 : at<const char>(p.d), in);
      }
      copy_commit();
      if (++lc == chunks) { lc = 0; lt++; }
    };
    Walk walk(p, run);
    Running s;
    __syncthreads();
    for (int n = 0; n < STAGES - 1; n++) load(n);
    int n = 0;
    for (int t = 0; t < tiles; t++) {
      float acc[32] = {}, low[Op::SPLIT ? 32 : 1] = {};
      for (int c = 0; c < chunks; c++, n++) {
        copy_wait<STAGES - 2>();
        __syncthreads();
        load(n + STAGES - 1);
        const uint32_t qs = sm + (n % STAGES) * STAGE, ds = qs + TILE * 128;
        uint32_t a[4][4];
#pragma unroll
        for (int k = 0; k < 4; k++) ldmatrix4(a[k], qs + swizzled(warp * 16 + la, 2 * k + lka));
#pragma unroll
        for (int m = 0; m < 4; m++) {  // 16 columns
          uint32_t b[4][4];
#pragma unroll
          for (int k = 0; k < 4; k++) ldmatrix4(b[k], ds + swizzled(m * 16 + ln, 2 * k + lk));
          if constexpr (Op::SPLIT) {
#pragma unroll
            for (int k = 0; k < 2; k++) {  // low x high, high x low, high x high
#pragma unroll
              for (int h = 0; h < 2; h++) {
                mma<F16>(low + m * 8 + h * 4, a[k + 2], b[k][2 * h], b[k][2 * h + 1]);
                mma<F16>(low + m * 8 + h * 4, a[k], b[k + 2][2 * h], b[k + 2][2 * h + 1]);
                mma<F16>(acc + m * 8 + h * 4, a[k], b[k][2 * h], b[k][2 * h + 1]);
              }
            }
          } else {
#pragma unroll
            for (int k = 0; k < 4; k++)
#pragma unroll
              for (int h = 0; h < 2; h++) mma<Op>(acc + m * 8 + h * 4, a[k], b[k][2 * h], b[k][2 * h + 1]);
          }
        }
      }
      const int tb = run.c0 + t * COLUMNS;
      if constexpr (Op::SPLIT) {
        const float* scale = at<const float>(p.dscale);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
          for (int h = 0; h < 2; h++) {
            const float f = __ldg(scale + min(tb + 8 * i + 2 * (lane & 3) + h, run.c1 - 1));
            acc[4 * i + h] = fmaf(low[4 * i + h], 0x1p-11f, acc[4 * i + h]) * f;
            acc[4 * i + 2 + h] = fmaf(low[4 * i + 2 + h], 0x1p-11f, acc[4 * i + 2 + h]) * f;
          }
      }
      epilogue<ARG>(acc, s, walk, p, run, rows, board, tb, lane, one);
    }
    copy_wait<0>();
  }
}

#define RESIDENT(type, Op)                                                                       \
  KERNEL(maxsim_forward_##type##_k4_max_sm80, ForwardParams, THREADS, 1, forward_resident<Op, 4, false>) \
  KERNEL(maxsim_forward_##type##_k4_arg_sm80, ForwardParams, THREADS, 1, forward_resident<Op, 4, true>)  \
  KERNEL(maxsim_forward_##type##_k6_max_sm80, ForwardParams, THREADS, 1, forward_resident<Op, 6, false>) \
  KERNEL(maxsim_forward_##type##_k6_arg_sm80, ForwardParams, THREADS, 1, forward_resident<Op, 6, true>)  \
  KERNEL(maxsim_forward_##type##_k8_max_sm80, ForwardParams, THREADS, 1, forward_resident<Op, 8, false>) \
  KERNEL(maxsim_forward_##type##_k8_arg_sm80, ForwardParams, THREADS, 1, forward_resident<Op, 8, true>)
#define STREAM(type, Op)                                                                           \
  KERNEL(maxsim_forward_##type##_stream_max_sm80, ForwardParams, THREADS, 1, forward_stream<Op, false>) \
  KERNEL(maxsim_forward_##type##_stream_arg_sm80, ForwardParams, THREADS, 1, forward_stream<Op, true>)

RESIDENT(bf16, Bf16)
RESIDENT(f16, F16)
STREAM(bf16, Bf16)
STREAM(f16, F16)
STREAM(tf32, Tf32)
STREAM(split, Split)
