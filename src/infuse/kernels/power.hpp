// Division, remainders and powers of vectors, floats and integers. No operand traps.
#pragma once

#include "math.hpp"

namespace infuse {

/** A divisor that is not zero; in place of zero it gives one and says so. */
template <class T>
INFUSE_INLINE T nonzero(T b, bool* found_zero) {
  if (b != 0) return b;
  __atomic_store_n(found_zero, true, __ATOMIC_RELAXED);
  return T(1);
}

// Integer division truncates towards zero; a zero divisor gives zero and never traps.
INFUSE_INLINE vf div(vf a, vf b) { return a / b; }
INFUSE_INLINE float div(float a, float b) { return a / b; }
INFUSE_INLINE double div(double a, double b) { return a / b; }
template <class T>
INFUSE_INLINE T div(T a, T b) {
  if (b == 0) return 0;
  return T(-1) < T(0) && b == T(-1) ? T(0 - uint64_t(a)) : T(a / b);
}

// The remainder with the sign of the dividend, as in C.
INFUSE_INLINE float fmod(float a, float b) { return __builtin_fmodf(a, b); }
INFUSE_INLINE double fmod(double a, double b) { return __builtin_fmod(a, b); }
template <class T>
INFUSE_INLINE T fmod(T a, T b) {
  return b == 0 || (T(-1) < T(0) && b == T(-1)) ? T(0) : T(a % b);
}

// The remainder with the sign of the divisor, as in Python.
INFUSE_INLINE float mod(float a, float b) {
  float r = fmod(a, b);
  if (r == 0) return __builtin_copysignf(r, b);
  return (r < 0) != (b < 0) ? r + b : r;
}
INFUSE_INLINE double mod(double a, double b) {
  double r = fmod(a, b);
  if (r == 0) return __builtin_copysign(r, b);
  return (r < 0) != (b < 0) ? r + b : r;
}
template <class T>
INFUSE_INLINE T mod(T a, T b) {
  T r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? T(r + b) : r;
}

// Not inline: in loops, GCC 12.2 takes the square root for an exponent of 0.5, which differs for
// -infinity and -0.
INFUSE_NOINLINE inline double pow(double a, double b) { return __builtin_pow(a, b); }
// Wraps on overflow; a negative exponent truncates the exact result.
template <class T>
INFUSE_INLINE T pow(T a, T b) {
  if (b < 0) return a == 1 ? T(1) : a == T(-1) ? (b & 1 ? T(-1) : T(1)) : T(0);
  uint64_t r = 1;
  for (uint64_t x = uint64_t(a); b != 0; b = T(b >> 1), x *= x) r *= b & 1 ? x : 1;
  return T(r);
}

#define INFUSE_LANEWISE(name, V)                             \
  INFUSE_NOINLINE inline V name(V a, V b) {                  \
    for (int i = 0; i < LANES; ++i) a[i] = name(a[i], b[i]); \
    return a;                                                \
  }
INFUSE_LANEWISE(fmod, vf)
INFUSE_LANEWISE(mod, vf)
INFUSE_LANEWISE(div, vi)
INFUSE_LANEWISE(fmod, vi)
INFUSE_LANEWISE(mod, vi)
INFUSE_LANEWISE(pow, vi)
#undef INFUSE_LANEWISE

namespace power_detail {

typedef double doubles __attribute__((vector_size(LANES * 4)));
typedef uint64_t words __attribute__((vector_size(LANES * 4)));
typedef float half_floats __attribute__((vector_size(LANES * 2)));

/** log2 of positive doubles that are normal, to 39 bits: 2 artanh((m - 1) / (m + 1)) / ln 2. */
INFUSE_INLINE doubles log2(doubles x) {
  const uint64_t one = 0x3ff0000000000000, low = 0x3fe6a09e667f3bcd;  // low: sqrt(1/2)
  const words bits = (words)x + (one - low);
  const doubles m = (doubles)((bits & 0x000fffffffffffff) + low);
  const doubles e = (doubles)((bits >> 52) | 0x4330000000000000) - (0x1p52 + 1023);
  const doubles s = (m - 1.0) / (m + 1.0), z = s * s;
  doubles q = z * (1.0 / 13) + 1.0 / 11;
  q = q * z + 1.0 / 9;
  q = q * z + 1.0 / 7;
  q = q * z + 1.0 / 5;
  q = q * z + 1.0 / 3;
  q = q * z + 1.0;
  return q * s * 2.8853900817779268 + e;
}

/** 2^x to 37 bits, for x between -200 and 200. */
INFUSE_INLINE doubles exp2(doubles x) {
  const doubles shifted = x + 0x1.8p52, r = (x - (shifted - 0x1.8p52)) * 0.6931471805599453;
  doubles p = r * (1.0 / 362880) + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  return (doubles)((words)p + ((words)shifted << 52));
}

/** x^y of half a vector of x >= 0; what is not finite goes in and out as the product says. */
INFUSE_INLINE half_floats magnitude(half_floats x, half_floats y) {
  const doubles wide = __builtin_convertvector(x, doubles);
  doubles logarithm = log2(wide);
  logarithm = wide == 0.0 ? doubles{} - __builtin_inf() : logarithm;
  logarithm = wide == __builtin_inf() ? wide : logarithm;
  doubles power = __builtin_convertvector(y, doubles) * logarithm;
  power = power > 200.0 ? doubles{} + 200.0 : power;
  power = power < -200.0 ? doubles{} - 200.0 : power;
  return __builtin_convertvector(exp2(power), half_floats);
}

}  // namespace power_detail

/** In doubles, so that what is lost in the logarithm is less than what the result is rounded by. */
INFUSE_NOINLINE inline vf pow(vf a, vf b) {
  using namespace power_detail;
  const vf size = abs(a);
  half_floats x[2], y[2];
  memcpy(x, &size, sizeof x);
  memcpy(y, &b, sizeof y);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) x[i] = magnitude(x[i], y[i]);
  vf r;
  memcpy(&r, x, sizeof r);
  const vf half = b * 0.5f;
  const vi whole = b == trunc(b), odd = whole & (half != trunc(half));
  r = as_float(as_int(r) | (as_int(a) & odd & detail::SIGN));
  const vi root = (a < 0.0f) & (size < detail::infinity()) & ~whole;
  r = select(root | (a != a) | (b != b), detail::nan(), r);
  const vi one = (a == 1.0f) | (b == 0.0f) | ((size == 1.0f) & (abs(b) == detail::infinity()));
  return select(one, splat(1.0f), r);
}
INFUSE_INLINE float pow(float a, float b) { return pow(splat(a), splat(b))[0]; }

}  // namespace infuse
