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

INFUSE_INLINE float pow(float a, float b) { return __builtin_powf(a, b); }
INFUSE_INLINE double pow(double a, double b) { return __builtin_pow(a, b); }
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
INFUSE_LANEWISE(pow, vf)
INFUSE_LANEWISE(div, vi)
INFUSE_LANEWISE(fmod, vi)
INFUSE_LANEWISE(mod, vi)
INFUSE_LANEWISE(pow, vi)
#undef INFUSE_LANEWISE

}  // namespace infuse
