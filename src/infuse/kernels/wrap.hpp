// Sums and products that wrap around in integers, as NumPy's do, and are plain in all else.
#pragma once
#include <stdint.h>

namespace infuse {

template <class V>
inline __attribute__((always_inline)) V plus(V a, V b) {
  return V(a + b);
}
template <class V>
inline __attribute__((always_inline)) V times(V a, V b) {
  return V(a * b);
}

inline int32_t plus(int32_t a, int32_t b) { return int32_t(uint32_t(a) + uint32_t(b)); }
inline int64_t plus(int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }
inline int32_t times(int32_t a, int32_t b) { return int32_t(uint32_t(a) * uint32_t(b)); }
inline int64_t times(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }
inline uint16_t times(uint16_t a, uint16_t b) { return uint16_t(uint32_t(a) * uint32_t(b)); }

}  // namespace infuse
