// Tensor core forward for every GPU from sm_80 on: mma.sync, ldmatrix, cp.async. Two shapes of one idea (flat stream of
// document columns, query rows by tiles, running max in registers):
//
//   k4, k6, k8  rows of at most 128, 192, 256 bytes: 4 warps of 32 query rows keep their rows in registers, documents
//               come through shared memory, 64 columns a tile; only they are read again and again. Two CTAs share a
//               multiprocessor, so that one multiplies while the other, which no barrier ties to it, looks for maxima.
//   stream      longer rows, and the split: 8 warps of 16 query rows; both sides come through shared memory 128 bytes
//               of every row at a time.
//
// Both fit the 100 KB of shared memory of sm_86 and sm_89. The products of a pair are added in the order of k, whichever
// of the two serves it.
#include <cmath>
#include <type_traits>
#include "epilogue.cuh"
#include "mma.cuh"

constexpr int COLUMNS = 64;

// ---------------------------------------------------------------- query rows in registers
constexpr int RESIDENT_THREADS = 128, RESIDENT_STAGES = 3;

template <class Op, int KSTEPS, bool ARG> __device__ __forceinline__ void forward_resident(const ForwardParams& p) {
  constexpr int TILE = 128, STAGES = RESIDENT_STAGES, THREADS = RESIDENT_THREADS, HALF = COLUMNS * 128, STAGE = HALF * (KSTEPS > 4 ? 2 : 1);
  constexpr int PIECES = KSTEPS > 4 ? 16 : 8, ROWS = THREADS / PIECES;  // of 16 bytes; rows that the CTA copies at once
  DYNAMIC_SHARED(128, raw);
  const uint32_t sm = shared_address(raw);
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, pitch = (int)p.ldd * Op::BYTES, qpitch = (int)p.ldq * Op::BYTES;
  const float one = __int_as_float(0x3f800000 + (int)(p.dim >> 62));  // 1, but the compiler cannot know
  // ldmatrix: lane supplies row n of one of four matrices: columns 0-7 | 8-15 of 16, bytes 0-15 | 16-31 of a k-step
  const int ln = (lane & 7) + ((lane >> 4) << 3), lk = (lane >> 3) & 1;

  // copies: this thread's piece of rows r0, r0 + ROWS ...
  static_assert(ROWS % 8 == 0, "the swizzle is the same in all of them");
  const int ch = tid % PIECES, r0 = tid / PIECES;
  const uint32_t to = (ch >> 3) * HALF + swizzled(r0, ch & 7);

  NoBoard board;
  Shares<TILE, 0> shares(p, lane);
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
    const WarpRows<2> rows(p, run, run.x0 + warp * 32, lane);
    const int tiles = (run.c1 - run.c0 + COLUMNS - 1) / COLUMNS;
    const char* from = at<const char>(p.d) + (size_t)(run.c0 + r0) * pitch + ch * 16;
    int left = ch * 16 < pitch ? run.c1 - run.c0 - r0 : 0;  // what this thread may read: nothing behind a row's end
    uint32_t into = sm;
    auto load = [&] {  // the next tile
      if (ch < 2 * KSTEPS)
#pragma unroll
        for (int n = 0; n < COLUMNS / ROWS; n++) copy16(into + to + n * ROWS * 128, from + n * ROWS * pitch, left > n * ROWS);
      copy_commit();
      from += (ptrdiff_t)COLUMNS * pitch;
      left -= COLUMNS;
      into = into == sm + (STAGES - 1) * STAGE ? sm : into + STAGE;
    };
    Walk walk(p, run);
    Running s[2];
    __syncthreads();
    for (int t = 0; t < STAGES - 1; t++) load();
    uint32_t tile = sm;
    for (int t = 0; t < tiles; t++, tile = tile == sm + (STAGES - 1) * STAGE ? sm : tile + STAGE) {
      copy_wait<STAGES - 2>();
      __syncthreads();
      load();
      const uint32_t first = tile + swizzled(ln, lk);  // of columns 0 to 15, k-step 0; the others differ by constants
      float acc[2][32] = {};
#pragma unroll
      for (int k = 0; k < KSTEPS; k++) {
#pragma unroll
        for (int n = 0; n < 4; n++) {
          uint32_t b[4];
          ldmatrix4(b, (first ^ (k % 4) * 32) + (k / 4) * HALF + n * 16 * 128);
#pragma unroll
          for (int i = 0; i < 2; i++) {
            mma<Op>(&acc[i][n * 8], a[i][k], b[0], b[1]);
            mma<Op>(&acc[i][n * 8 + 4], a[i][k], b[2], b[3]);
          }
        }
      }
      epilogue<ARG>(acc, s, walk, p, run, rows, board, run.c0 + t * COLUMNS, lane, one);
    }
    copy_wait<0>();
  }
}

// ---------------------------------------------------------------- both sides through shared memory
constexpr int STREAM_THREADS = 256, STREAM_STAGES = 4;

template <class Op, bool ARG> __device__ __forceinline__ void forward_stream(const ForwardParams& p) {
  constexpr int TILE = 128, STAGES = STREAM_STAGES, THREADS = STREAM_THREADS, STAGE = (TILE + COLUMNS) * 128;
  DYNAMIC_SHARED(128, raw);
  const uint32_t sm = shared_address(raw);
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, pitch = (int)p.ldd * Op::BYTES, qpitch = (int)p.ldq * Op::BYTES;
  const float one = __int_as_float(0x3f800000 + (int)(p.dim >> 62));
  const int ln = (lane & 7) + ((lane >> 4) << 3), lk = (lane >> 3) & 1;  // document columns, as above
  const int la = lane & 15, lka = lane >> 4;                             // query rows 0-15, bytes 0-15 | 16-31
  const int chunks = (pitch + 127) / 128;
  // copies: this thread's piece of rows r0, r0 + ROWS ... of both sides
  constexpr int ROWS = THREADS / 8;
  static_assert(ROWS % 8 == 0, "the swizzle is the same in all of them");
  const int ch = tid & 7, r0 = tid >> 3;
  const uint32_t to = swizzled(r0, ch);

  NoBoard board;
  Shares<TILE, Op::BYTES> shares(p, lane);
  Run run;
  while (shares.next(p, run)) {
    const WarpRows<1> rows(p, run, run.x0 + warp * 16, lane);
    const int tiles = (run.c1 - run.c0 + COLUMNS - 1) / COLUMNS, qleft = run.x1 - run.x0 - r0;
    const char* qfrom = at<const char>(p.q) + (size_t)(run.x0 + r0) * qpitch + ch * 16;
    const char* from = at<const char>(p.d) + (size_t)(run.c0 + r0) * pitch + ch * 16;
    int left = run.c1 - run.c0 - r0, chunk = 0;
    uint32_t into = sm;
    auto load = [&] {  // the next chunk
      const int at0 = chunk * 128;
      const bool in = at0 + ch * 16 < pitch && left + r0 > 0;
#pragma unroll
      for (int n = 0; n < TILE / ROWS; n++) copy16(into + to + n * ROWS * 128, qfrom + at0 + n * ROWS * qpitch, in && qleft > n * ROWS);
#pragma unroll
      for (int n = 0; n < COLUMNS / ROWS; n++) copy16(into + to + (TILE + n * ROWS) * 128, from + at0 + n * ROWS * pitch, in && left > n * ROWS);
      copy_commit();
      if (++chunk == chunks) {
        chunk = 0;
        from += (ptrdiff_t)COLUMNS * pitch;
        left -= COLUMNS;
      }
      into = into == sm + (STAGES - 1) * STAGE ? sm : into + STAGE;
    };
    Walk walk(p, run);
    Running s[1];
    __syncthreads();
    for (int n = 0; n < STAGES - 1; n++) load();
    uint32_t stage = sm;
    for (int t = 0; t < tiles; t++) {
      float acc[1][32] = {}, low[Op::SPLIT ? 32 : 1] = {}, sum[Op::SPLIT ? 32 : 1] = {};
      for (int c = 0; c < chunks; c++, stage = stage == sm + (STAGES - 1) * STAGE ? sm : stage + STAGE) {
        if constexpr (Op::SPLIT)
          if (c % Op::CHAIN == 0)
#pragma unroll
            for (int i = 0; i < 32; i++) { sum[i] += acc[0][i]; acc[0][i] = 0; }
        copy_wait<STAGES - 2>();
        __syncthreads();
        load();
        const uint32_t qs = stage + swizzled(warp * 16 + la, lka), ds = stage + TILE * 128 + swizzled(ln, lk);  // of k-step 0
        uint32_t a[4][4];
#pragma unroll
        for (int k = 0; k < 4; k++) ldmatrix4(a[k], qs ^ k * 32);
#pragma unroll
        for (int m = 0; m < 4; m++) {  // 16 columns
          uint32_t b[4][4];
#pragma unroll
          for (int k = 0; k < 4; k++) ldmatrix4(b[k], (ds ^ k * 32) + m * 16 * 128);
          if constexpr (Op::SPLIT) {
#pragma unroll
            for (int k = 0; k < 2; k++) {  // low x high, high x low, high x high
#pragma unroll
              for (int h = 0; h < 2; h++) {
                mma<F16>(low + m * 8 + h * 4, a[k + 2], b[k][2 * h], b[k][2 * h + 1]);
                mma<F16>(low + m * 8 + h * 4, a[k], b[k + 2][2 * h], b[k + 2][2 * h + 1]);
                mma<F16>(acc[0] + m * 8 + h * 4, a[k], b[k][2 * h], b[k][2 * h + 1]);
              }
            }
          } else {
#pragma unroll
            for (int k = 0; k < 4; k++)
#pragma unroll
              for (int h = 0; h < 2; h++) mma<Op>(acc[0] + m * 8 + h * 4, a[k], b[k][2 * h], b[k][2 * h + 1]);
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
#pragma unroll
            for (int e = 4 * i + h; e < 4 * i + 4; e += 2) acc[0][e] = fmaf(low[e], 0x1p-11f, acc[0][e] + sum[e]) * f;
          }
      }
      epilogue<ARG>(acc, s, walk, p, run, rows, board, tb, lane, one);
    }
    copy_wait<0>();
  }
}

#define RESIDENT(type, Op)                                                                       \
  KERNEL(maxsim_forward_##type##_k4_max_sm80, ForwardParams, RESIDENT_THREADS, 2, forward_resident<Op, 4, false>) \
  KERNEL(maxsim_forward_##type##_k4_arg_sm80, ForwardParams, RESIDENT_THREADS, 2, forward_resident<Op, 4, true>)  \
  KERNEL(maxsim_forward_##type##_k6_max_sm80, ForwardParams, RESIDENT_THREADS, 2, forward_resident<Op, 6, false>) \
  KERNEL(maxsim_forward_##type##_k6_arg_sm80, ForwardParams, RESIDENT_THREADS, 2, forward_resident<Op, 6, true>)  \
  KERNEL(maxsim_forward_##type##_k8_max_sm80, ForwardParams, RESIDENT_THREADS, 2, forward_resident<Op, 8, false>) \
  KERNEL(maxsim_forward_##type##_k8_arg_sm80, ForwardParams, RESIDENT_THREADS, 2, forward_resident<Op, 8, true>)
#define STREAM(type, Op)                                                                           \
  KERNEL(maxsim_forward_##type##_stream_max_sm80, ForwardParams, STREAM_THREADS, 1, forward_stream<Op, false>) \
  KERNEL(maxsim_forward_##type##_stream_arg_sm80, ForwardParams, STREAM_THREADS, 1, forward_stream<Op, true>)

RESIDENT(bf16, Bf16)
RESIDENT(f16, F16)
STREAM(bf16, Bf16)
STREAM(f16, F16)
STREAM(tf32, Tf32)
STREAM(split, Split)
