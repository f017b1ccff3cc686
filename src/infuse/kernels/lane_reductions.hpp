// Sums, extremes and tests over the lanes of a vector.
#pragma once

#include "simd.hpp"

namespace infuse {

namespace detail {
// Lane i of the result is lane i + step, modulo LANES.
template <int step, class V>
INFUSE_INLINE V rotate(V x) {
#define INFUSE_AT(i) (((i) + step) % LANES)
#if INFUSE_LANES == 16
  return __builtin_shufflevector(x, x, INFUSE_AT(0), INFUSE_AT(1), INFUSE_AT(2), INFUSE_AT(3),
                                 INFUSE_AT(4), INFUSE_AT(5), INFUSE_AT(6), INFUSE_AT(7),
                                 INFUSE_AT(8), INFUSE_AT(9), INFUSE_AT(10), INFUSE_AT(11),
                                 INFUSE_AT(12), INFUSE_AT(13), INFUSE_AT(14), INFUSE_AT(15));
#elif INFUSE_LANES == 8
  return __builtin_shufflevector(x, x, INFUSE_AT(0), INFUSE_AT(1), INFUSE_AT(2), INFUSE_AT(3),
                                 INFUSE_AT(4), INFUSE_AT(5), INFUSE_AT(6), INFUSE_AT(7));
#else
  return __builtin_shufflevector(x, x, INFUSE_AT(0), INFUSE_AT(1), INFUSE_AT(2), INFUSE_AT(3));
#endif
#undef INFUSE_AT
}
template <class V, class F>
INFUSE_INLINE V fold(V x, F f) {
#if INFUSE_LANES == 16
  x = f(x, rotate<8>(x));
#endif
#if INFUSE_LANES >= 8
  x = f(x, rotate<4>(x));
#endif
  x = f(x, rotate<2>(x));
  return f(x, rotate<1>(x));
}
}  // namespace detail

INFUSE_INLINE float hsum(vf x) {
  return detail::fold(x, [](vf a, vf b) { return a + b; })[0];
}
INFUSE_INLINE float hmax(vf x) {
  return detail::fold(x, [](vf a, vf b) { return max(a, b); })[0];
}
INFUSE_INLINE float hmin(vf x) {
  return detail::fold(x, [](vf a, vf b) { return min(a, b); })[0];
}
INFUSE_INLINE int32_t hsum(vi x) {
  return detail::fold(x, [](vi a, vi b) { return a + b; })[0];
}
INFUSE_INLINE int32_t hmax(vi x) {
  return detail::fold(x, [](vi a, vi b) { return max(a, b); })[0];
}
INFUSE_INLINE int32_t hmin(vi x) {
  return detail::fold(x, [](vi a, vi b) { return min(a, b); })[0];
}
template <class T>
INFUSE_INLINE T hsum(T x) {
  return x;
}
template <class T>
INFUSE_INLINE T hmax(T x) {
  return x;
}
template <class T>
INFUSE_INLINE T hmin(T x) {
  return x;
}

INFUSE_INLINE bool any(vi mask) {
#if INFUSE_LANES == 16
  return __builtin_ia32_cmpd512_mask(mask, vi{}, 4, (unsigned short)-1) != 0;
#else
  return detail::fold(mask, [](vi a, vi b) { return a | b; })[0] != 0;
#endif
}
INFUSE_INLINE bool all(vi mask) { return !any(~mask); }
INFUSE_INLINE bool any(bool mask) { return mask; }
INFUSE_INLINE bool all(bool mask) { return mask; }

}  // namespace infuse
