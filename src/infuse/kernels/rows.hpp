// What kernels that work on rows share: inputs by row and column, tails in reductions.
#pragma once
#include "simd.hpp"
#include "threads.hpp"

namespace infuse {

/** Reads a matrix of floats; `step` floats lie from row to row. */
struct Rows {
  const float* data;
  isize step;

  template <class L>
  INFUSE_INLINE vf operator()(isize row, isize col, L lanes) const {
    return load(data + row * step + col, lanes);
  }
};

/** x where the lane is valid, else `other`. */
INFUSE_INLINE vf valid(vf x, vf, Full) { return x; }
INFUSE_INLINE vf valid(vf x, vf other, Tail lanes) { return select(lane_mask(lanes), x, other); }

/** A vector per column, or a constant where there is no pointer. */
template <class L>
INFUSE_INLINE vf load_or(const float* data, isize col, float other, L lanes) {
  return data ? load(data + col, lanes) : splat(other);
}

/**
 * Calls f(c, lanes, i) for the columns c from `begin` to `end`; i counts to N, over sums and maxima
 * that do not wait for each other.
 */
template <int N, class F>
INFUSE_INLINE void spread_columns(isize begin, isize end, const F& f) {
  isize c = begin;
  for (; c + N * LANES <= end; c += N * LANES)
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) f(c + i * LANES, Full{}, i);
  sweep(c, end, [&](isize at, auto lanes) __attribute__((always_inline)) { f(at, lanes, 0); });
}

}  // namespace infuse
