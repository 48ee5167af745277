// CUDA C++ as far as the kernels use it, and what ../device.cuh adds, for a C++ compiler on a CPU.
#pragma once
#include <math.h>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include "cta.h"
#include "launch.h"
#include "number.h"
#include "warp.h"

#define __device__
#define __forceinline__ inline
#define __shared__ static  // nothing else may be in the .bss of a kernel's object file: see launch.cc

#define KERNEL(name, Params, threads, percm, ...)                    \
  static void name(const void* p) { __VA_ARGS__(*(const Params*)p); } \
  __attribute__((constructor)) static void add_##name() { emulate::add({#name, sizeof(Params), threads, percm, name}); }
#define PRELUDE_KERNEL KERNEL
inline void await_earlier_launches() {}  // launches run one after the other
#define DYNAMIC_SHARED(alignment, name)      \
  uint8_t* const name = emulate::cta.shared; \
  static_assert(alignment <= emulate::SHARED_BASE, "alignment")

#define threadIdx (emulate::self->index)
#define blockIdx (emulate::cta.block)
#define blockDim (emulate::cta.width)
#define gridDim (emulate::cta.blocks)

// ---------------------------------------------------------------- types
struct alignas(8) uint2 { uint32_t x, y; };
struct alignas(16) uint4 { uint32_t x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
struct __half { uint16_t x; };
struct __nv_bfloat16 { uint16_t x; };
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }

inline __half __float2half_rn(float f) { return {emulate::to_half(f)}; }
inline float __half2float(__half h) { return emulate::from_half(h.x); }
inline __half __ushort_as_half(uint16_t h) { return {h}; }
inline __nv_bfloat16 __float2bfloat16_rn(float f) { return {emulate::to_bfloat16(f)}; }
inline uint32_t __float_as_uint(float f) { return emulate::bits_of(f); }
inline float __uint_as_float(uint32_t u) { return emulate::float_of(u); }
inline float __int_as_float(int u) { return emulate::float_of((uint32_t)u); }
inline double __hiloint2double(int hi, int lo) {
  const uint64_t u = (uint64_t)(uint32_t)hi << 32 | (uint32_t)lo;
  double d;
  memcpy(&d, &u, 8);
  return d;
}

// ---------------------------------------------------------------- arithmetic and memory
template <class A, class B> inline typename std::common_type<A, B>::type min(A a, B b) {
  typename std::common_type<A, B>::type x = a, y = b;
  return y < x ? y : x;
}
template <class A, class B> inline typename std::common_type<A, B>::type max(A a, B b) {
  typename std::common_type<A, B>::type x = a, y = b;
  return x < y ? y : x;
}
inline int __ffs(unsigned v) { return __builtin_ffs((int)v); }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
template <class T> inline T __ldcs(const T* p) { return *p; }
template <class T> inline void __stcs(T* p, T v) { *p = v; }
template <class T> inline T __ldg(const T* p) { return *p; }
inline unsigned atomicAdd(unsigned* p, unsigned v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
inline uint32_t __cvta_generic_to_shared(const void* p) { return emulate::shared_address_of(p); }

// ---------------------------------------------------------------- threads together
inline void __syncthreads() { emulate::sync("__syncthreads", 0, 0); }
inline int __syncthreads_or(int vote) { return emulate::sync("__syncthreads_or", 0, 0, vote != 0); }
template <int THREADS> inline void sync_threads(int barrier) { emulate::sync(emulate::BARRIER, (unsigned)barrier, THREADS); }
template <int THREADS> inline void announce_threads(int barrier) { emulate::announce(emulate::BARRIER, (unsigned)barrier, THREADS); }

inline void __syncwarp() { emulate::sync_warp(); }

namespace emulate {
template <class T> T shuffled(const char* instruction, unsigned mask, T v, int from) {
  uint64_t bits = 0;
  memcpy(&bits, &v, sizeof v);
  bits = shuffle(instruction, mask, bits, from);
  memcpy(&v, &bits, sizeof v);
  return v;
}
}  // namespace emulate
template <class T> inline T __shfl_sync(unsigned mask, T v, int from) { return emulate::shuffled("__shfl_sync", mask, v, from & 31); }
template <class T> inline T __shfl_up_sync(unsigned mask, T v, unsigned by) {
  return emulate::shuffled("__shfl_up_sync", mask, v, (int)(emulate::self->lane - by));
}
template <class T> inline T __shfl_xor_sync(unsigned mask, T v, int with) {
  return emulate::shuffled("__shfl_xor_sync", mask, v, (int)emulate::self->lane ^ with);
}
inline unsigned __ballot_sync(unsigned mask, int vote) { return emulate::ballot(mask, vote != 0); }
inline int __any_sync(unsigned mask, int vote) { return emulate::any(mask, vote != 0); }
inline unsigned __reduce_max_sync(unsigned mask, unsigned v) { return emulate::reduce_max(mask, v); }
inline unsigned __match_any_sync(unsigned mask, unsigned v) { return emulate::match_any(mask, v); }

// ---------------------------------------------------------------- ../device.cuh
inline uint32_t dynamic_shared_bytes() { return emulate::cta.shared_bytes; }
inline void place_in_grid(unsigned& cta, unsigned& ctas) {
  cta = blockIdx.x;
  ctas = gridDim.x;
}
constexpr int HELD_QUERY_BYTES = 288 << 10;  // few, so that small problems take rounds, too
inline float max_nan(float a, float b) {
  if (a != a || b != b) return emulate::float_of(emulate::NAN_BITS);
  if (a == b) return std::signbit(a) ? b : a;  // -0 < +0
  return a > b ? a : b;
}
inline void max_take(float t, float& m, float& column, float& first, float c, float v, float one, float zero) {
  if (t > m) {
    column = std::fma(column, zero, c);
    first = v * one;
  }
  m = max_nan(m, t);
}
inline uint32_t round_tf32(float v) { return emulate::to_tf32(v); }
inline void load16_if(uint4& v, const void* from, bool in) {
  if (in) v = *(const uint4*)from;
}
inline float load_here(const float* from) { return *(const volatile float*)from; }
inline void touch(const float* from) { load_here(from); }
inline float load_shared(uint32_t address) { return *(const volatile float*)emulate::shared_memory(address, 4, 4, "ld.shared"); }
inline void store_shared(uint32_t address, float v) { *(volatile float*)emulate::shared_memory(address, 4, 4, "st.shared") = v; }
