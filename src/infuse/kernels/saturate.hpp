// Computed numbers as elements of any type.
#pragma once
#include "element.hpp"

namespace infuse {

/** x as an element: integers are cut off and kept in their range, NaN becomes 0 in them. */
template <class T, class W>
INFUSE_INLINE T saturated(W x) {
  if constexpr (T(1) / T(2) != T(0)) {
    return T(x);
  } else {
    constexpr bool has_sign = T(-1) < T(0);
    constexpr double high = detail::power_of_two<T>(8 * sizeof(T) - has_sign);
    constexpr double low = has_sign ? -high : 0.0;
    if (x != x) return T(0);
    if (x >= high) return T(~uint64_t(0) >> (64 - 8 * sizeof(T) + has_sign));
    return x <= low ? T(low) : T(x);
  }
}
template <>
INFUSE_INLINE bool saturated<bool>(double x) {
  return x != 0;
}

}  // namespace infuse
