// What the drivers of matrix kernels share.
#pragma once

#include "simd.hpp"

using namespace infuse;

#define EXPORT extern "C" __attribute__((visibility("default")))

// out = max(acc + bias, low)
struct Sink {
  const float* bias;
  float* out;
  long n;
  float low;

  template <class L>
  INFUSE_INLINE void operator()(vf acc, long row, long col, L lanes) const {
    store(out + row * n + col, max(acc + load(bias + col, lanes), splat(low)), lanes);
  }
};

EXPORT int lanes() { return LANES; }
