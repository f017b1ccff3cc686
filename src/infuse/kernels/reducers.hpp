// What a reduction does with its values.
#pragma once
#include "math.hpp"
#include "wrap.hpp"

namespace infuse {

namespace reduce_detail {

template <class T>
inline constexpr bool is_float = false;
template <>
inline constexpr bool is_float<float> = true;
template <>
inline constexpr bool is_float<double> = true;

template <class T>
constexpr T lowest() {
  if constexpr (is_float<T>)
    return T(-__builtin_inf());
  else if constexpr (T(-1) > T(0))
    return T(0);
  else
    return T(T(1) << (8 * sizeof(T) - 2)) * T(-2);
}

template <class T>
constexpr T highest() {
  if constexpr (is_float<T>)
    return T(__builtin_inf());
  else
    return T(T(-1) - lowest<T>());
}

/** What a reduction of T counts in: small integers do not overflow on the way. */
template <class T>
struct Wide {
  typedef T type;
};
template <>
struct Wide<int8_t> {
  typedef int64_t type;
};
template <>
struct Wide<int16_t> : Wide<int8_t> {};
template <>
struct Wide<int32_t> : Wide<int8_t> {};
template <>
struct Wide<uint8_t> {
  typedef uint64_t type;
};
template <>
struct Wide<uint16_t> : Wide<uint8_t> {};
template <>
struct Wide<uint32_t> : Wide<uint8_t> {};

}  // namespace reduce_detail

// Each reduction has a start, a step that takes a value, a join of two partial results and an end.
// They work on scalars of any type and, where `start` gives a float, on vectors.

struct Sum {
  template <class T>
  static constexpr T start() {
    return T(0);
  }
  template <class V>
  static INFUSE_INLINE V step(V sum, V x) {
    return plus(sum, x);
  }
  template <class V>
  static INFUSE_INLINE V join(V a, V b) {
    return plus(a, b);
  }
  template <class V>
  static INFUSE_INLINE V end(V sum, isize) {
    return sum;
  }
};

struct Mean : Sum {
  static INFUSE_INLINE vf end(vf sum, isize count) { return sum / float(count); }
  template <class T>
  static INFUSE_INLINE T end(T sum, isize count) {
    if constexpr (!reduce_detail::is_float<T>) {
      if (count == 0) return T(0);
    }
    return T(sum / T(count));
  }
};

struct Product {
  template <class T>
  static constexpr T start() {
    return T(1);
  }
  template <class V>
  static INFUSE_INLINE V step(V product, V x) {
    return times(product, x);
  }
  template <class V>
  static INFUSE_INLINE V join(V a, V b) {
    return times(a, b);
  }
  template <class V>
  static INFUSE_INLINE V end(V product, isize) {
    return product;
  }
};

struct Max {
  template <class T>
  static constexpr T start() {
    return reduce_detail::lowest<T>();
  }
  template <class V>
  static INFUSE_INLINE V step(V most, V x) {
    return max(most, x);
  }
  template <class V>
  static INFUSE_INLINE V join(V a, V b) {
    return max(a, b);
  }
  template <class V>
  static INFUSE_INLINE V end(V most, isize) {
    return most;
  }
};

struct Min {
  template <class T>
  static constexpr T start() {
    return reduce_detail::highest<T>();
  }
  template <class V>
  static INFUSE_INLINE V step(V least, V x) {
    return min(least, x);
  }
  template <class V>
  static INFUSE_INLINE V join(V a, V b) {
    return min(a, b);
  }
  template <class V>
  static INFUSE_INLINE V end(V least, isize) {
    return least;
  }
};

struct SumSquare : Sum {
  template <class V>
  static INFUSE_INLINE V step(V sum, V x) {
    return plus(sum, times(x, x));
  }
};

struct L1 : Sum {
  template <class V>
  static INFUSE_INLINE V step(V sum, V x) {
    return plus(sum, abs(x));
  }
};

struct L2 : SumSquare {
  static INFUSE_INLINE vf end(vf sum, isize) { return sqrt(sum); }
  template <class T>
  static INFUSE_INLINE T end(T sum, isize) {
    return T(sqrt(double(sum)));
  }
};

struct LogSum : Sum {
  static INFUSE_INLINE vf end(vf sum, isize) { return log(sum); }
  template <class T>
  static INFUSE_INLINE T end(T sum, isize) {
    return T(log(double(sum)));
  }
};

}  // namespace infuse
