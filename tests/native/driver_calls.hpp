// What drivers share whose functions are called with the context of one pool, by kernel_driver.py.
#pragma once

#include "threads.hpp"
#include "simd.hpp"

using namespace infuse;

#define API extern "C" __attribute__((visibility("default")))

// Elements of the result begin as zeros. What is stored twice becomes NaN; so that this shows
// whatever is stored first, a zero is stored as -0.
struct Store {
  float* y;
  long step;

  template <class L>
  INFUSE_INLINE void operator()(vf x, long row, long col, L lanes) const {
    float* to = y + row * step + col;
    const vi is_stored = (vi)load(to, lanes) != 0;
    store(to, select(is_stored, splat(__builtin_nanf("")), select(x == 0, splat(-0.f), x)), lanes);
  }
};

API Context* start(int threads) { return context_open(threads); }
API void stop(Context* c) { context_close(c); }
