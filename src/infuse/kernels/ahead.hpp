// Memory that is asked for before it is needed: lines of it, and with a lane tag what a sink will
// read and write.
#pragma once

#include "half.hpp"
#include "platform.hpp"

namespace infuse {

// Lines of the cache that are needed soon: with every ask, so many come into the second level.
struct LinesAhead {
  const char* at = nullptr;
  isize lines = 0;

  INFUSE_INLINE void ask() {
#pragma GCC unroll 1
    for (isize i = 0; i < lines; ++i, at += CACHE_LINE) prefetch_l2(at);
  }
};

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
