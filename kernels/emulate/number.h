// 16-bit numbers, and conversions rounded as the device rounds: to nearest, ties to even, NaN to the one NaN.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace emulate {

inline uint32_t bits_of(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
inline float float_of(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
constexpr uint32_t NAN_BITS = 0x7fffffff;

inline uint16_t to_half(float f) {
  const uint32_t u = bits_of(f), a = u & 0x7fffffff, sign = u >> 16 & 0x8000;
  if (a > 0x7f800000) return 0x7fff;
  if (a >= 0x477ff000) return (uint16_t)(sign | 0x7c00);                                          // 65520 and more
  if (a < 0x38800000) return (uint16_t)(sign | (uint32_t)std::nearbyint(std::fabs(f) * 0x1p24f));  // multiples of 2^-24
  return (uint16_t)(sign | (a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13);
}
inline float from_half(uint16_t h) {
  const uint32_t a = h & 0x7fff, sign = (uint32_t)(h & 0x8000) << 16;
  if (a >= 0x7c00) return float_of(sign | 0x7f800000 | (a & 0x3ff) << 13);
  if (a < 0x400) return std::copysign((float)a * 0x1p-24f, float_of(sign | 0x3f800000));
  return float_of(sign | ((a << 13) + 0x38000000));
}

inline uint16_t to_bfloat16(float f) {
  const uint32_t u = bits_of(f);
  if ((u & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
inline float from_bfloat16(uint16_t b) { return float_of((uint32_t)b << 16); }

// cvt.rna: ties away from zero.
inline uint32_t to_tf32(float f) {
  const uint32_t u = bits_of(f), a = u & 0x7fffffff;
  if (a > 0x7f800000) return NAN_BITS;
  return a == 0x7f800000 ? u : (u + 0x1000) & ~0x1fffu;
}
// A product ignores the bits below.
inline float from_tf32(uint32_t u) { return float_of(u & ~0x1fffu); }

}  // namespace emulate
