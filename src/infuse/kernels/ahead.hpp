// A lane tag with which a sink does nothing but ask for the memory that it will read and write.
#pragma once

#include "half.hpp"

namespace infuse {

// sink(vf{}, row, col, Ahead{}) brings what the sink needs at (row, col) into the caches.
struct Ahead {};

template <class T>
INFUSE_INLINE auto load(const T* p, Ahead) {
  __builtin_prefetch(p, 0, 3);
  return decltype(load(p, Full{})){};
}
template <class T, class V>
INFUSE_INLINE void store(T* p, V, Ahead) {
  __builtin_prefetch(p, 1, 3);
}

}  // namespace infuse
