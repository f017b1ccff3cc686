// What kernels that work on rows share: inputs by row and column, tails in reductions.
#pragma once
#include "simd.hpp"
#include "threads.hpp"

namespace infuse {

/** Reads a matrix of floats; `step` floats lie from row to row. */
struct Rows {
  const float* data;
  long step;

  template <class L>
  INFUSE_INLINE vf operator()(long row, long col, L lanes) const {
    return load(data + row * step + col, lanes);
  }
};

/** x where the lane is valid, else `other`. */
INFUSE_INLINE vf valid(vf x, vf, Full) { return x; }
INFUSE_INLINE vf valid(vf x, vf other, Tail lanes) { return select(lane_mask(lanes), x, other); }

/** A vector per column, or a constant where there is no pointer. */
template <class L>
INFUSE_INLINE vf load_or(const float* data, long col, float other, L lanes) {
  return data ? load(data + col, lanes) : splat(other);
}

}  // namespace infuse
