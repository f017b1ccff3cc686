// What generated formulas need beside math.hpp: conversions between element types and integer sizes.
#pragma once

#include "math.hpp"

#define INFUSE_LAMBDA __attribute__((always_inline))

namespace infuse {

inline long floor_div(long a, long b) {
  long q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
inline long floor_mod(long a, long b) { return a - floor_div(a, b) * b; }
inline long max_long(long a, long b) { return a > b ? a : b; }
inline long min_long(long a, long b) { return a < b ? a : b; }

namespace detail {
// A conversion of one element; floats outside the range of an integer type wrap as they do on x86.
template <class T> struct Convert {
  template <class S> static INFUSE_INLINE T of(S x) { return T(x); }
  static INFUSE_INLINE T of(float x) { return T(int64_t(x)); }
  static INFUSE_INLINE T of(double x) { return T(int64_t(x)); }
};
template <> struct Convert<float> {
  template <class S> static INFUSE_INLINE float of(S x) { return float(x); }
  static INFUSE_INLINE vf of(vf x) { return x; }
  // A mask: true is one.
  static INFUSE_INLINE vf of(vi x) { return as_float(x & as_int(splat(1.0f))); }
};
template <> struct Convert<double> {
  template <class S> static INFUSE_INLINE double of(S x) { return double(x); }
};
template <> struct Convert<bool> {
  template <class S> static INFUSE_INLINE bool of(S x) { return x != 0; }
  static INFUSE_INLINE vi of(vf x) { return x != 0.0f; }
  static INFUSE_INLINE vi of(vi x) { return x; }
};
template <> struct Convert<uint64_t> {
  template <class S> static INFUSE_INLINE uint64_t of(S x) { return uint64_t(x); }
  static INFUSE_INLINE uint64_t of(float x) { return x < 0 ? uint64_t(int64_t(x)) : uint64_t(x); }
  static INFUSE_INLINE uint64_t of(double x) { return x < 0 ? uint64_t(int64_t(x)) : uint64_t(x); }
};
}  // namespace detail

template <class T, class S> INFUSE_INLINE auto convert(S x) { return detail::Convert<T>::of(x); }

}  // namespace infuse
