// What generated formulas need beside math.hpp: conversions between element types and integer sizes.
#pragma once

#include "half.hpp"
#include "lowbit.hpp"
#include "math.hpp"
#include "whole.h"

#define INFUSE_LAMBDA __attribute__((always_inline))

namespace infuse {

// ---- conversions -----------------------------------------------------------------------------

namespace detail {
template <class T> constexpr double power_of_two(int n) {
  double x = 1;
  for (int i = 0; i < n; ++i) x *= 2;
  return x;
}
// As x86 does it: truncated where T holds the result, else the smallest T.
template <class T, class S> INFUSE_INLINE T truncated(S x) {
  constexpr S limit = S(power_of_two<T>(8 * sizeof(T) - 1));
  return x >= -limit && x < limit ? T(x) : T(T(1) << (8 * sizeof(T) - 2)) * T(-2);
}
INFUSE_INLINE vi truncated_lanes(vf x) {
#if defined(__SSE2__)
  return to_int(x);
#else
  const vi inside = (vi)(x >= -2147483648.0f) & (vi)(x < 2147483648.0f);
  return select(inside, to_int(select(inside, x, vf{})), splat(INT32_MIN));
#endif
}
// Of which the low 16 bits are used.
INFUSE_INLINE vi truncated_low(vf x) {
#if defined(INFUSE_NEON)
  vi near;  // no float is INT32_MAX but what lies above
  INFUSE_TRUNCATE_NEAR(near, x);
  return near ^ (vi)(near == splat(INT32_MAX));
#else
  return truncated_lanes(x);
#endif
}
template <class S> INFUSE_INLINE uint64_t truncated_unsigned(S x) {
  constexpr S limit = S(power_of_two<S>(63));
  if (x >= limit) return x < 2 * limit ? uint64_t(x) : uint64_t(1) << 63;
  return uint64_t(truncated<int64_t>(x));
}

// A conversion of one element; a float that an integer type does not hold gives what NumPy gives on
// x86: narrow types take the low bits of the conversion to int32, uint32 those of int64.
template <class T> struct Convert {
  template <class S> static INFUSE_INLINE T of(S x) { return T(x); }
  static INFUSE_INLINE T of(float x) { return whole(x); }
  static INFUSE_INLINE T of(double x) { return whole(x); }
  template <class S> static INFUSE_INLINE T whole(S x) {
    if constexpr (sizeof(T) == 8)
      return T(-1) > T(0) ? T(truncated_unsigned(x)) : T(truncated<int64_t>(x));
    else if constexpr (sizeof(T) == 4 && T(-1) > T(0))
      return T(truncated<int64_t>(x));
    else
      return T(truncated<int32_t>(x));
  }
  // Types of up to 16 bits, and int32.
  static INFUSE_INLINE vi of(vf x) {
    constexpr int over = 32 - 8 * int(sizeof(T));
    vi whole = sizeof(T) < 4 ? truncated_low(x) : truncated_lanes(x);
    return T(-1) > T(0) ? whole & int32_t(0xffffffffu >> over) : whole << over >> over;
  }
};
template <> struct Convert<float> {
  template <class S> static INFUSE_INLINE float of(S x) { return float(x); }
  // GCC makes vectors of a choice, and none of a conversion.
  static INFUSE_INLINE float of(bool x) { return x ? 1.0f : 0.0f; }
  static INFUSE_INLINE vf of(vf x) { return x; }
  // A mask: true is one.
  static INFUSE_INLINE vf of(vi x) { return as_float(x & as_int(splat(1.0f))); }
#if defined(INFUSE_LONG_MASKS)
  static INFUSE_INLINE vf of(vl x) { return of(vi(x)); }
#endif
};
template <> struct Convert<double> {
  template <class S> static INFUSE_INLINE double of(S x) { return double(x); }
};
template <> struct Convert<bool> {
  template <class S> static INFUSE_INLINE bool of(S x) { return x != 0; }
  static INFUSE_INLINE vi of(vf x) { return x != 0.0f; }
  static INFUSE_INLINE vi of(vi x) { return x; }
};
}  // namespace detail

template <class T, class S> INFUSE_INLINE auto convert(S x) { return detail::Convert<T>::of(x); }

// A float within the range of a type of 8 bits, converted; NaN becomes 0.
template <class T> INFUSE_INLINE T convert_clipped(float x) {
  constexpr float low = T(-1) < T(0) ? -128.0f : 0.0f;
  return convert<T>(min(max(x, low), low + 255.0f));
}
template <class T> INFUSE_INLINE vi convert_clipped(vf x) {
  constexpr float low = T(-1) < T(0) ? -128.0f : 0.0f;
#if defined(INFUSE_NEON)
  vi near;
  INFUSE_TRUNCATE_NEAR(near, x);
  return min(max(near, splat(int32_t(low))), splat(int32_t(low) + 255));
#else
  return convert<T>(min(max(x, splat(low)), splat(low + 255.0f)));
#endif
}

// ---- shifts ----------------------------------------------------------------------------------

// Shifting by all bits or more leaves nothing, or the sign.
template <class T> INFUSE_INLINE T shift_left(T x, T by) {
  return uint64_t(by) < 8 * sizeof(T) ? T(uint64_t(x) << (uint64_t(by) & 63)) : T(0);
}
template <class T> INFUSE_INLINE T shift_right(T x, T by) {
  constexpr int last = 8 * sizeof(T) - 1;
  return uint64_t(by) <= last ? T(x >> (by & last)) : T(x < 0 ? -1 : 0);
}

// ---- booleans in memory ----------------------------------------------------------------------

INFUSE_INLINE vi load(const bool* p, Full lanes) { return load_mask(p, lanes); }
INFUSE_INLINE vi load(const bool* p, Tail lanes) { return load_mask(p, lanes); }
INFUSE_INLINE void store(bool* p, vi x, Full lanes) { store_mask(p, x, lanes); }
INFUSE_INLINE void store(bool* p, vi x, Tail lanes) { store_mask(p, x, lanes); }

// ---- narrow integers in memory, int32 in registers --------------------------------------------

#define INFUSE_NARROW(T)                                                                          \
  INFUSE_INLINE vi load(const T* p, Full lanes) { return load_wide(p, lanes); }                   \
  INFUSE_INLINE vi load(const T* p, Tail lanes) { return load_wide(p, lanes); }                   \
  INFUSE_INLINE void store(T* p, vi x, Full lanes) { store_narrow(p, x, lanes); }                 \
  INFUSE_INLINE void store(T* p, vi x, Tail lanes) { store_narrow(p, x, lanes); }
INFUSE_NARROW(int8_t)
INFUSE_NARROW(uint8_t)
INFUSE_NARROW(int16_t)
INFUSE_NARROW(uint16_t)
#undef INFUSE_NARROW

}  // namespace infuse
