// Half-precision floats in memory, float32 in registers: loads widen, stores round to nearest even.
#pragma once
#include "simd.hpp"

namespace infuse {

namespace half_detail {

INFUSE_INLINE uint32_t bits_of(float x) { return uint32_t(as_int(x)); }

/** The 16 bits of a number with 8 bits of exponent. */
INFUSE_INLINE uint16_t brain_bits(float x) {
  uint32_t bits = bits_of(x);
  if (x != x) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#if defined(__F16C__) || defined(__aarch64__)
#if defined(__aarch64__)
typedef __fp16 native_half;
#else
typedef _Float16 native_half;
#endif
INFUSE_INLINE float half_value(uint16_t bits) {
  native_half x;
  memcpy(&x, &bits, sizeof x);
  return float(x);
}
INFUSE_INLINE uint16_t half_bits(float x) {
  native_half half = native_half(x);
  uint16_t bits;
  memcpy(&bits, &half, sizeof bits);
  return bits;
}
#else
inline float half_value(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, rest = uint32_t(bits & 0x7fff) << 13;
  float x = as_float(int32_t(rest)) * 5.192296858534828e33f;  // 2^112
  if ((bits & 0x7c00) == 0x7c00) x = as_float(int32_t(rest | 0x7f800000));
  return as_float(int32_t(bits_of(x) | sign));
}
inline uint16_t half_bits(float x) {
  uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return uint16_t(sign | 0x7e00 | (rest >> 13 & 0x3ff));
  if (rest >= 0x477ff000) return uint16_t(sign | 0x7c00);
  if (rest < 0x38800000)  // one unit of the sum is the smallest half
    return uint16_t(sign | (bits_of(as_float(int32_t(rest)) + 0.5f) - 0x3f000000));
  return uint16_t(sign | ((rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13));
}
#endif

/** A double as a float that still rounds to 16 bits as the double does: the lost bits stay odd. */
inline float to_odd(double x) {
  float near = float(x);
  if (double(near) == x || near != near || near - near != 0.0f) return near;
  if (near == 0.0f) return x > 0 ? as_float(1) : as_float(int32_t(0x80000001));
  int32_t bits = as_int(near);
  if (bits & 1) return near;
  bool above = double(near) > x;
  return as_float((near > 0.0f) == above ? bits - 1 : bits + 1);
}

}  // namespace half_detail

/** IEEE's binary16. */
struct float16 {
  uint16_t bits;
  float16() = default;
  float16(float x) : bits(half_detail::half_bits(x)) {}
  float16(double x) : bits(half_detail::half_bits(half_detail::to_odd(x))) {}
  template <class T> explicit float16(T x) : float16(float(x)) {}
  operator float() const { return half_detail::half_value(bits); }
};

/** The upper half of a float32. */
struct bfloat16 {
  uint16_t bits;
  bfloat16() = default;
  bfloat16(float x) : bits(half_detail::brain_bits(x)) {}
  bfloat16(double x) : bits(half_detail::brain_bits(half_detail::to_odd(x))) {}
  template <class T> explicit bfloat16(T x) : bfloat16(float(x)) {}
  operator float() const { return as_float(int32_t(uint32_t(bits) << 16)); }
};

// ---- single elements ---------------------------------------------------------------------------

INFUSE_INLINE float load(const float16* p, One) { return float(*p); }
INFUSE_INLINE float load(const bfloat16* p, One) { return float(*p); }
INFUSE_INLINE void store(float16* p, float x, One) { *p = float16(x); }
INFUSE_INLINE void store(bfloat16* p, float x, One) { *p = bfloat16(x); }

// ---- vectors -----------------------------------------------------------------------------------

namespace half_detail {

typedef uint16_t vh __attribute__((vector_size(LANES * 2)));
#if defined(INFUSE_SVE)
typedef __fp16 vhalf __attribute__((vector_size(LANES * 2)));
#elif defined(__clang__) && defined(__F16C__)
typedef _Float16 vhalf __attribute__((vector_size(LANES * 2)));
#endif

INFUSE_INLINE vf widen(const float16* p) {
#if defined(INFUSE_SVE) || (defined(__clang__) && defined(__F16C__))
  vhalf x;
  memcpy(&x, p, sizeof x);
  return __builtin_convertvector(x, vf);
#elif INFUSE_LANES == 16 && defined(__F16C__)
  typedef short v16s __attribute__((vector_size(32)));
  v16s x;
  memcpy(&x, p, sizeof x);
  return __builtin_ia32_vcvtph2ps512_mask(x, vf{}, (short)-1, 4);
#elif INFUSE_LANES == 8 && defined(__F16C__)
  typedef short v8s __attribute__((vector_size(16)));
  v8s x;
  memcpy(&x, p, sizeof x);
  return __builtin_ia32_vcvtph2ps256(x);
#elif defined(__aarch64__)
  vh x;
  memcpy(&x, p, sizeof x);
  vf wide;
  __asm__("fcvtl %0.4s, %1.4h" : "=w"(wide) : "w"(x));
  return wide;
#elif defined(__arm__) && defined(__ARM_NEON)  // whose products are zero where a factor is subnormal
  vh x;
  memcpy(&x, p, sizeof x);
  vf wide;
  __asm__("vcvt.f32.f16 %q0, %P1" : "=w"(wide) : "w"(x));
  return wide;
#else
  const vi bits = load_wide(reinterpret_cast<const uint16_t*>(p), Full{});
  const vi rest = (bits & 0x7fff) << 13;
  const vi scaled = as_int(as_float(rest) * 5.192296858534828e33f);  // 2^112
  const vi magnitude = (bits & 0x7c00) == 0x7c00 ? rest | 0x7f800000 : scaled;
  return as_float((bits & 0x8000) << 16 | magnitude);
#endif
}
INFUSE_INLINE vf widen(const bfloat16* p) {
  return as_float(load_wide(reinterpret_cast<const uint16_t*>(p), Full{}) << 16);
}

INFUSE_INLINE void narrow(float16* p, vf x) {
#if defined(INFUSE_SVE) || (defined(__clang__) && defined(__F16C__))
  vhalf r = __builtin_convertvector(x, vhalf);
  memcpy(p, &r, sizeof r);
#elif INFUSE_LANES == 16 && defined(__F16C__)
  typedef short v16s __attribute__((vector_size(32)));
  v16s r = __builtin_ia32_vcvtps2ph512_mask(x, 0, v16s{}, (short)-1);
  memcpy(p, &r, sizeof r);
#elif INFUSE_LANES == 8 && defined(__F16C__)
  typedef short v8s __attribute__((vector_size(16)));
  v8s r = __builtin_ia32_vcvtps2ph256(x, 0);
  memcpy(p, &r, sizeof r);
#elif defined(__aarch64__)
  vh r;
  __asm__("fcvtn %0.4h, %1.4s" : "=w"(r) : "w"(x));
  memcpy(p, &r, sizeof r);
#elif defined(__arm__) && defined(__ARM_NEON)
  vh r;
  __asm__("vcvt.f16.f32 %P0, %q1" : "=w"(r) : "w"(x));
  memcpy(p, &r, sizeof r);
#else
  for (int i = 0; i < LANES; ++i) p[i] = float16(x[i]);
#endif
}
INFUSE_INLINE vi rounded(vf x) {
  vu bits = (vu)x;
  vu near = bits + 0x7fff + (bits >> 16 & 1);
  return (vi)(x != x ? bits | 0x400000 : near);
}
INFUSE_INLINE void narrow(bfloat16* p, vf x) {
  store_narrow(reinterpret_cast<uint16_t*>(p), (vi)((vu)rounded(x) >> 16), Full{});
}

template <class T> INFUSE_INLINE vf widen_tail(const T* p, int n) {
  alignas(64) T x[LANES];
  memset(x, 0, sizeof x);
  memcpy(x, p, size_t(n) * sizeof(T));
  return widen(x);
}
template <class T> INFUSE_INLINE void narrow_tail(T* p, vf x, int n) {
  alignas(64) T r[LANES];
  narrow(r, x);
  memcpy(p, r, size_t(n) * sizeof(T));
}

}  // namespace half_detail

INFUSE_INLINE vf load(const float16* p, Full) { return half_detail::widen(p); }
INFUSE_INLINE vf load(const bfloat16* p, Full) { return half_detail::widen(p); }
INFUSE_INLINE vf load(const float16* p, Tail t) { return half_detail::widen_tail(p, t.n); }
INFUSE_INLINE vf load(const bfloat16* p, Tail t) { return half_detail::widen_tail(p, t.n); }
INFUSE_INLINE void store(float16* p, vf x, Full) { half_detail::narrow(p, x); }
INFUSE_INLINE void store(bfloat16* p, vf x, Full) { half_detail::narrow(p, x); }
INFUSE_INLINE void store(float16* p, vf x, Tail t) { half_detail::narrow_tail(p, x, t.n); }
INFUSE_INLINE void store(bfloat16* p, vf x, Tail t) { half_detail::narrow_tail(p, x, t.n); }

// ---- rounding in registers ---------------------------------------------------------------------

namespace half_detail {
template <class T> struct Round {
  template <class S> static INFUSE_INLINE float of(S x) { return float(T(x)); }
  static INFUSE_INLINE vf of(vf x) {
    alignas(64) T r[LANES];
    narrow(r, x);
    return widen(r);
  }
};
template <> struct Round<bfloat16> {
  template <class S> static INFUSE_INLINE float of(S x) { return float(bfloat16(x)); }
  static INFUSE_INLINE vf of(vf x) { return as_float(rounded(x) & ~0xffff); }
};
}  // namespace half_detail

/** The nearest number that T holds, in float. */
template <class T, class S> INFUSE_INLINE auto round_to(S x) { return half_detail::Round<T>::of(x); }

}  // namespace infuse
