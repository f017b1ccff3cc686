// Rotary position embedding: pairs of channels turned by the angle of their position.
#pragma once
#include "simd.hpp"
#include "threads.hpp"
#include "wrap.hpp"

namespace infuse {

/** `half` pairs of channels turn, those behind them stay. */
struct RotarySizes {
  isize batch, heads, length, dim, half;
  bool interleaved;  // pairs are neighbours, else `half` apart
};

/** Where rows of channels lie; strides count floats. */
struct RotaryStrides {
  isize batch, head, row;
};

/** Row (b · length + i) of a table. */
struct EveryPlace {
  isize operator()(isize place) const { return place; }
};

/** Rows of a table that an index names; -1 where it lies outside. */
template <class Index>
struct PickedPlace {
  const Index* index;
  isize size;
  Context& context;
  isize operator()(isize place) const {
    isize at = isize(index[place]);
    if (at < 0) at += size;
    if (at >= 0 && at < size) return at;
    context.note_index(isize(index[place]), size);
    return -1;
  }
};

namespace rotary_detail {

inline void turn(const RotarySizes& shape, const float* x, const float* cos, const float* sin,
                 float* y) {
  isize half = shape.half;
  if (shape.interleaved) {
    for (isize i = 0; i < half; ++i) {
      float even = x[2 * i], odd = x[2 * i + 1];
      y[2 * i] = cos[i] * even - sin[i] * odd;
      y[2 * i + 1] = sin[i] * even + cos[i] * odd;
    }
  } else {
    sweep(0, half, [&](isize i, auto lanes) __attribute__((always_inline)) {
      vf even = load(x + i, lanes), odd = load(x + half + i, lanes);
      vf real = load(cos + i, lanes), imaginary = load(sin + i, lanes);
      store(y + i, real * even - imaginary * odd, lanes);
      store(y + half + i, imaginary * even + real * odd, lanes);
    });
  }
  for (isize i = 2 * half; i < shape.dim; ++i) y[i] = x[i];
}

}  // namespace rotary_detail

/** y = x turned; rows of the tables have `half` floats. False where a place lies outside. */
template <class Place>
inline bool rotate(Context& context, const RotarySizes& shape, const float* x, RotaryStrides from,
                   const float* cos, const float* sin, const Place& place, float* y,
                   RotaryStrides to) {
  int good = 1;
  context.parallel(
      shape.batch * shape.length,
      [&](isize begin, isize end, int) {
        for (isize unit = begin; unit < end; ++unit) {
          isize at = place(unit), b = unit / shape.length, i = unit % shape.length;
          if (at < 0) {
            __atomic_store_n(&good, 0, __ATOMIC_RELAXED);
            return;
          }
          for (isize h = 0; h < shape.heads; ++h)
            rotary_detail::turn(shape, x + b * from.batch + h * from.head + i * from.row,
                                cos + at * shape.half, sin + at * shape.half,
                                y + b * to.batch + h * to.head + i * to.row);
        }
      },
      1 + 8192 / (shape.heads * shape.dim + 1));
  return good != 0;
}

}  // namespace infuse
