// Resizing of images, channels last.
#pragma once
#include "math.hpp"
#include "rows.hpp"

namespace infuse {

enum ResizeMode { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC };

/** How a position in the output becomes one in the input. */
enum ResizeCoordinates {
  HALF_PIXEL,
  HALF_PIXEL_SYMMETRIC,
  PYTORCH_HALF_PIXEL,
  ALIGN_CORNERS,
  ASYMMETRIC,
  CROP_AND_RESIZE
};

enum ResizeRounding { ROUND_PREFER_FLOOR, ROUND_PREFER_CEIL, ROUND_FLOOR, ROUND_CEIL };

/** One side of an image: its sizes, and the part [start, end] of it that is cropped, in 0 .. 1. */
struct ResizeSide {
  isize size, out;
  double scale, start, end;
};

struct ResizeShape {
  isize n, c;
  ResizeSide h, w;
  ResizeMode mode;
  ResizeCoordinates coordinates;
  ResizeRounding rounding;
  float cubic;           // the coefficient a, -0.75 by custom
  bool exclude_outside;  // taps outside the image weigh nothing
  float outside;         // the value outside of the image for CROP_AND_RESIZE
  bool antialias;        // a smaller image is made of all pixels that it covers
};

namespace resize_detail {

/** The inputs that make one output along one side. */
template <class W>
struct Taps {
  isize count;  // 0 where the constant for outside is due
  const isize* at;
  const W* weight;
};

/** The taps of all outputs of one side, `most` places for each. */
template <class W>
struct Table {
  isize most;
  isize *count, *at;
  W* weight;

  Taps<W> operator[](isize i) const { return {count[i], at + i * most, weight + i * most}; }
};

inline double position(const ResizeShape& shape, const ResizeSide& side, isize i) {
  double half = (double(i) + 0.5) / side.scale - 0.5;
  switch (shape.coordinates) {
    case HALF_PIXEL:
      return half;
    case HALF_PIXEL_SYMMETRIC: {
      double exact = double(side.out) / (side.scale * double(side.size));
      return double(side.size) / 2 * (1 - exact) + half;
    }
    case PYTORCH_HALF_PIXEL:
      return side.out > 1 ? half : 0.0;
    case ALIGN_CORNERS:
      return side.out > 1 ? i * double(side.size - 1) / double(side.out - 1) : 0.0;
    case ASYMMETRIC:
      return double(i) / side.scale;
    default:
      break;
  }
  double last = double(side.size - 1);
  if (side.out <= 1) return 0.5 * (side.start + side.end) * last;
  return side.start * last + i * (side.end - side.start) * last / double(side.out - 1);
}

inline double rounded(ResizeRounding rounding, double x) {
  switch (rounding) {
    case ROUND_PREFER_FLOOR:
      return ceil(x - 0.5);
    case ROUND_PREFER_CEIL:
      return floor(x + 0.5);
    case ROUND_FLOOR:
      return floor(x);
    default:
      return ceil(x);
  }
}

/** What an input at this distance weighs. */
inline double weight_at(const ResizeShape& shape, double distance) {
  if (distance < 0) distance = -distance;
  if (shape.mode == RESIZE_LINEAR) return distance < 1 ? 1 - distance : 0;
  const double s = distance, a = double(shape.cubic);
  if (s <= 1) return ((a + 2) * s - (a + 3)) * s * s + 1;
  return s < 2 ? a * (((s - 5) * s + 8) * s - 4) : 0;
}

inline double shrink(const ResizeShape& shape, const ResizeSide& side) {
  return shape.antialias && side.scale < 1 ? side.scale : 1;
}

/** Inputs before the position of an output that may weigh something, counted from the next one. */
inline isize reach(const ResizeShape& shape, const ResizeSide& side) {
  return isize(ceil((shape.mode == RESIZE_CUBIC ? 2 : 1) / shrink(shape, side)));
}

inline isize most_taps(const ResizeShape& shape, const ResizeSide& side) {
  return shape.mode == RESIZE_NEAREST ? 1 : 2 * reach(shape, side);
}

/** Fills the taps of output i. */
template <class W>
inline void fill_taps(const ResizeShape& shape, const ResizeSide& side, const Table<W>& table,
                      isize i) {
  double x = position(shape, side, i), sum = 0;
  isize* at = table.at + i * table.most;
  W* weight = table.weight + i * table.most;
  bool outside = shape.coordinates == CROP_AND_RESIZE && (x < 0 || x > double(side.size - 1));
  table.count[i] = outside ? 0 : table.most;
  isize first = shape.mode == RESIZE_NEAREST ? isize(rounded(shape.rounding, x))
                                            : isize(floor(x)) + 1 - reach(shape, side);
  for (isize k = 0; k < table.most; ++k) {
    isize place = first + k;
    double w = 1;
    if (shape.mode != RESIZE_NEAREST) {
      w = weight_at(shape, (double(place) - x) * shrink(shape, side));
      if (shape.exclude_outside && (place < 0 || place >= side.size)) w = 0;
    }
    at[k] = place < 0 || side.size < 1 ? 0 : place < side.size ? place : side.size - 1;
    weight[k] = W(w);
    sum += w;
  }
  if (!shape.exclude_outside && !shape.antialias) return;
  for (isize k = 0; k < table.most && sum != 0; ++k) weight[k] = W(double(weight[k]) / sum);
}

/** The bytes of a table; makes it too, where there is memory. */
template <class W>
inline isize make_table(const ResizeShape& shape, const ResizeSide& side, char* memory,
                       Table<W>* table) {
  table->most = most_taps(shape, side);
  isize taps = side.out * table->most;
  table->at = reinterpret_cast<isize*>(memory);
  table->count = table->at + taps;
  table->weight = reinterpret_cast<W*>(table->count + side.out);
  for (isize i = 0; memory && i < side.out; ++i) fill_taps(shape, side, *table, i);
  return round_up((taps + side.out) * isize(sizeof(isize)) + taps * isize(sizeof(W)), CACHE_LINE);
}

constexpr isize FEW = 16;  // taps that are listed once for all channels

/** A pixel made of few others. */
struct Listed {
  isize count, offset[FEW];
  float weight[FEW];

  Listed(const ResizeShape& shape, const Taps<float>& y, const Taps<float>& x) : count(0) {
    for (isize ky = 0; ky < y.count; ++ky)
      for (isize kx = 0; kx < x.count; ++kx, ++count) {
        offset[count] = (y.at[ky] * shape.w.size + x.at[kx]) * shape.c;
        weight[count] = y.weight[ky] * x.weight[kx];
      }
  }
};

/** The same for a known number of taps. */
template <int Count, class Sink>
INFUSE_INLINE void listed(const ResizeShape& shape, const float* image, const Listed& taps,
                          isize row, const Sink& sink) {
  const float* from[Count];
  vf weight[Count];
#pragma GCC unroll 16
  for (int k = 0; k < Count; ++k) from[k] = image + taps.offset[k], weight[k] = splat(taps.weight[k]);
  sweep(0, shape.c, [&](isize c, auto lanes) __attribute__((always_inline)) {
    vf sum = load(from[0] + c, lanes) * weight[0];
#pragma GCC unroll 16
    for (int k = 1; k < Count; ++k) sum = fma(load(from[k] + c, lanes), weight[k], sum);
    sink(sum, row, c, lanes);
  });
}

/** One pixel of the output. */
template <class Sink>
INFUSE_INLINE void pixel(const ResizeShape& shape, const float* image, const Taps<float>& y,
                         const Taps<float>& x, isize row, const Sink& sink) {
  const isize count = y.count * x.count;
  if (count == 4) return listed<4>(shape, image, Listed(shape, y, x), row, sink);
  if (count == 16) return listed<16>(shape, image, Listed(shape, y, x), row, sink);
  sweep(0, shape.c, [&](isize c, auto lanes) __attribute__((always_inline)) {
    vf sum = {};
    for (isize ky = 0; ky < y.count; ++ky) {
      const float* line = image + y.at[ky] * shape.w.size * shape.c + c;
      vf part = {};
      for (isize kx = 0; kx < x.count; ++kx)
        part = fma(load(line + x.at[kx] * shape.c, lanes), splat(x.weight[kx]), part);
      sum = fma(part, splat(y.weight[ky]), sum);
    }
    if (count == 0) sum = splat(shape.outside);
    sink(sum, row, c, lanes);
  });
}

/** One pixel that copies another, bit for bit. */
template <class Sink>
INFUSE_INLINE void copied(const ResizeShape& shape, const float* image, const Taps<float>& y,
                          const Taps<float>& x, isize row, const Sink& sink) {
  const float* from = image + (y.at[0] * shape.w.size + x.at[0]) * shape.c;
  sweep(0, shape.c, [&](isize c, auto lanes) __attribute__((always_inline)) {
    sink(load(from + c, lanes), row, c, lanes);
  });
}

}  // namespace resize_detail

/** A scale that is not above that of any resizing between these sizes: for scratch memory. */
constexpr double least_scale(isize size, isize out) {
  return out > 0 && size > 0 ? (double(out) - 0.5) / double(size) : 1.0;
}

/** Bytes of scratch per worker. */
inline isize resize_scratch(const ResizeShape& shape) {
  resize_detail::Table<float> table;
  return resize_detail::make_table(shape, shape.h, nullptr, &table) +
         resize_detail::make_table(shape, shape.w, nullptr, &table);
}

/** Resizes x [n, h, w, c]; row = (image, oy, ox), col = channel. Needs resize_scratch(shape). */
template <class Sink>
inline void resize(Context& context, const ResizeShape& shape, const float* x, const Sink& sink) {
  using namespace resize_detail;
  Table<float> down, across;
  isize used = make_table(shape, shape.h, context.scratch(0), &down);
  make_table(shape, shape.w, context.scratch(0) + used, &across);
  isize work = shape.w.out * shape.c * down.most * across.most;
  context.parallel(
      shape.n * shape.h.out,
      [&](isize begin, isize end, int) {
        for (isize line = begin; line < end; ++line) {
          const float* image = x + line / shape.h.out * shape.h.size * shape.w.size * shape.c;
          const Taps<float> y = down[line % shape.h.out];
          for (isize ox = 0; ox < shape.w.out; ++ox) {
            isize row = line * shape.w.out + ox;
            const Taps<float> side = across[ox];
            if (y.count == 1 && side.count == 1)
              copied(shape, image, y, side, row, sink);
            else
              pixel(shape, image, y, side, row, sink);
          }
        }
      },
      1 + 16384 / (work + 1));
}

}  // namespace infuse
