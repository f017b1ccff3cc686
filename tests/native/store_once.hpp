#pragma once

#include "simd.hpp"

namespace infuse {

// Stores elements of a result, which begin as NaN; those that are stored again become infinite.
template <class L>
INFUSE_INLINE void store_once(float* to, vf value, L lanes) {
  const vf before = load(to, lanes);
  store(to, select(before == before, splat(__builtin_inff()), value), lanes);
}

}  // namespace infuse
