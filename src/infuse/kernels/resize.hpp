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
  long size, out;
  double scale, start, end;
};

struct ResizeShape {
  long n, c;
  ResizeSide h, w;
  ResizeMode mode;
  ResizeCoordinates coordinates;
  ResizeRounding rounding;
  float cubic;           // the coefficient a, -0.75 by custom
  bool exclude_outside;  // taps outside the image weigh nothing
  float outside;         // the value outside of the image for CROP_AND_RESIZE
};

namespace resize_detail {

constexpr int TAPS = 4;

/** The inputs that make one output along one side. */
struct Taps {
  int count;  // 0 where the constant for outside is due
  long at[TAPS];
  float weight[TAPS];
};

inline double position(const ResizeShape& shape, const ResizeSide& side, long i) {
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

/** The cubic convolution of Keys at the distances t + 1, t, 1 - t, 2 - t. */
inline void cubic_weights(double t, double a, double* weight) {
  auto near = [&](double s) { return ((a + 2) * s - (a + 3)) * s * s + 1; };
  auto far = [&](double s) { return ((a * s - 5 * a) * s + 8 * a) * s - 4 * a; };
  weight[0] = far(1 + t);
  weight[1] = near(t);
  weight[2] = near(1 - t);
  weight[3] = far(2 - t);
}

inline Taps taps_at(const ResizeShape& shape, const ResizeSide& side, long i) {
  double x = position(shape, side, i), weight[TAPS] = {1, 0, 0, 0};
  Taps taps = {1, {}, {}};
  if (shape.coordinates == CROP_AND_RESIZE && (x < 0 || x > double(side.size - 1))) taps.count = 0;
  if (taps.count == 0) return taps;
  long first = long(floor(x));
  double t = x - floor(x);
  if (shape.mode == RESIZE_NEAREST) first = long(rounded(shape.rounding, x));
  if (shape.mode == RESIZE_LINEAR) {
    taps.count = 2;
    weight[0] = 1 - t;
    weight[1] = t;
  }
  if (shape.mode == RESIZE_CUBIC) {
    taps.count = 4;
    cubic_weights(t, double(shape.cubic), weight);
    --first;
  }
  double sum = 0;
  for (int k = 0; k < taps.count; ++k) {
    long at = first + k;
    bool outside = at < 0 || at >= side.size;
    if (outside && shape.exclude_outside && shape.mode != RESIZE_NEAREST) weight[k] = 0;
    taps.at[k] = at < 0 ? 0 : at < side.size ? at : side.size - 1;
    sum += weight[k];
  }
  bool scaled = shape.exclude_outside && shape.mode != RESIZE_NEAREST && sum != 0;
  for (int k = 0; k < taps.count; ++k) taps.weight[k] = float(scaled ? weight[k] / sum : weight[k]);
  return taps;
}

/** One pixel of the output. */
template <class Sink>
INFUSE_INLINE void pixel(const ResizeShape& shape, const float* image, const Taps& y, const Taps& x,
                         long row, const Sink& sink) {
  sweep(0, shape.c, [&](long c, auto lanes) __attribute__((always_inline)) {
    vf sum = {};
    for (int ky = 0; ky < y.count; ++ky) {
      const float* line = image + y.at[ky] * shape.w.size * shape.c + c;
      vf part = {};
      for (int kx = 0; kx < x.count; ++kx)
        part = fma(load(line + x.at[kx] * shape.c, lanes), splat(x.weight[kx]), part);
      sum = fma(part, splat(y.weight[ky]), sum);
    }
    if (y.count == 0 || x.count == 0) sum = splat(shape.outside);
    sink(sum, row, c, lanes);
  });
}

/** One pixel that copies another, bit for bit. */
template <class Sink>
INFUSE_INLINE void copied(const ResizeShape& shape, const float* image, const Taps& y,
                          const Taps& x, long row, const Sink& sink) {
  const float* from = image + (y.at[0] * shape.w.size + x.at[0]) * shape.c;
  sweep(0, shape.c, [&](long c, auto lanes) __attribute__((always_inline)) {
    sink(load(from + c, lanes), row, c, lanes);
  });
}

}  // namespace resize_detail

/** Bytes of scratch per worker. */
inline long resize_scratch(const ResizeShape& shape) {
  return (shape.h.out + shape.w.out) * long(sizeof(resize_detail::Taps)) + CACHE_LINE;
}

/** Resizes x [n, h, w, c]; row = (image, oy, ox), col = channel. Needs resize_scratch(shape). */
template <class Sink>
inline void resize(Context& context, const ResizeShape& shape, const float* x, const Sink& sink) {
  using namespace resize_detail;
  Taps* down = reinterpret_cast<Taps*>(context.scratch(0));
  Taps* across = down + shape.h.out;
  for (long i = 0; i < shape.h.out; ++i) down[i] = taps_at(shape, shape.h, i);
  for (long i = 0; i < shape.w.out; ++i) across[i] = taps_at(shape, shape.w, i);
  long work = shape.w.out * shape.c * (shape.mode == RESIZE_NEAREST ? 1 : 4);
  context.parallel(
      shape.n * shape.h.out,
      [&](long begin, long end, int) {
        for (long line = begin; line < end; ++line) {
          const float* image = x + line / shape.h.out * shape.h.size * shape.w.size * shape.c;
          const Taps& y = down[line % shape.h.out];
          for (long ox = 0; ox < shape.w.out; ++ox) {
            long row = line * shape.w.out + ox;
            if (y.count == 1 && across[ox].count == 1)
              copied(shape, image, y, across[ox], row, sink);
            else
              pixel(shape, image, y, across[ox], row, sink);
          }
        }
      },
      1 + 16384 / (work + 1));
}

}  // namespace infuse
