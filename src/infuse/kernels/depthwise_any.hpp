// Depthwise convolution with any window, step and dilation, and any number of results a channel.
//
// Pixels whose windows lie inside of the image are computed four at once, the others one at a time
// with the taps that are inside. Few results a channel are planes: a vector has one result of
// neighbouring channels, and the planes are interleaved before they go to the sink. Of many, a
// vector has those of one channel.
#pragma once
#include "depthwise.hpp"
#include "transpose.hpp"

namespace infuse {
namespace depthwise_detail {

/** Columns of the window of an output pixel that lie inside of the image. */
struct Inside {
  isize first, last;
};

inline Inside inside_columns(const DepthwiseSizes& s, isize ox) {
  const isize left = ox * s.stride_width - s.pad_left, step = s.dilation_width;
  Inside taps = {left < 0 ? (-left + step - 1) / step : 0, s.kernel_width};
  while (taps.last > taps.first && left + (taps.last - 1) * step >= s.width) --taps.last;
  return taps;
}

/** sum[p][v] += the taps [first, last) of each line of the window of P pixels from ox on. */
template <int P, int V, class L>
INFUSE_INLINE void add_taps(const Row& row, const ImageLines& lines, isize plane, isize planes,
                            isize ox, Inside taps, isize c, L lanes, vf (&sum)[P][V]) {
  const DepthwiseSizes& s = *row.shape;
  const isize next = s.stride_width * lines.pixel, step = s.dilation_width * lines.pixel,
             row_step = planes * row.channels;
  const isize left = ox * s.stride_width - s.pad_left;
  const isize corner = (left + taps.first * s.dilation_width) * lines.pixel;
  for (isize ky = row.first_ky; ky < row.last_ky; ++ky) {
    const float* pixel = lines(row, ky) + corner + c;
    const float* tap = row.weights + (ky * s.kernel_width + taps.first) * row_step + plane + c;
    for (isize kx = taps.first; kx < taps.last; ++kx, pixel += step, tap += row_step)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const vf factor = load(tap + v * LANES, lanes);
#pragma GCC unroll 4
        for (int p = 0; p < P; ++p)
          sum[p][v] = fma(load(pixel + p * next + v * LANES, lanes), factor, sum[p][v]);
      }
  }
}

/** Hands vectors of PLANES results of neighbouring channels to the sink, side by side. */
template <int PLANES, class L, class Sink>
INFUSE_INLINE void hand_on(const float* results, isize row, isize c, L lanes, const Sink& sink) {
  alignas(64) float line[PLANES * LANES];
  copying::interleave<PLANES>(line, results, LANES, LANES);
  const isize all = count(lanes) * PLANES;
  sweep(0, all, [&](isize i, auto part) {
    sink(load(line + i, Full{}), row, c * PLANES + i, part);
  });
}

/** V vectors of channels of P pixels from ox on. */
template <int PLANES, int P, int V, class L, class Sink>
INFUSE_INLINE void planes_at(const Row& row, const ImageLines& lines, isize ox, Inside taps, isize c,
                             L lanes, const Sink& sink) {
  alignas(64) float results[P][V][PLANES * LANES];
  for (isize j = 0; j < PLANES; ++j) {
    vf sum[P][V] = {};
    add_taps(row, lines, j * row.channels, PLANES, ox, taps, c, lanes, sum);
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v)
        if constexpr (PLANES == 1)
          sink(sum[p][v], row.out + ox + p, c + v * LANES, lanes);
        else
          store(results[p][v] + j * LANES, sum[p][v], Full{});
  }
  if constexpr (PLANES > 1)
    for (int p = 0; p < P; ++p)
      for (int v = 0; v < V; ++v)
        hand_on<PLANES>(results[p][v], row.out + ox + p, c + v * LANES, lanes, sink);
}

template <int PLANES, int P, class Sink>
INFUSE_NOINLINE void planes_of_pixels(const Row& row, const ImageLines& lines, isize ox,
                                      const Sink& sink) {
  const Inside taps = P > 1 ? Inside{0, row.shape->kernel_width} : inside_columns(*row.shape, ox);
  constexpr int V = P > 1 ? 2 : 4;
  isize c = row.begin;
  for (; c + V * LANES <= row.end; c += V * LANES)
    planes_at<PLANES, P, V>(row, lines, ox, taps, c, Full{}, sink);
  sweep(c, row.end, [&](isize i, auto lanes) {
    planes_at<PLANES, P, 1>(row, lines, ox, taps, i, lanes, sink);
  });
}

/** The pixels of a row, four together where their windows lie inside of the image. */
template <int PLANES, class Sink>
inline void row_of_planes(const Row& row, const ImageLines& lines, const Sink& sink) {
  const DepthwiseSizes& s = *row.shape;
  const isize span = (s.kernel_width - 1) * s.dilation_width + 1;
  for (isize ox = 0; ox < s.out_width;) {
    const isize left = ox * s.stride_width - s.pad_left;
    if (left >= 0 && ox + 4 <= s.out_width && left + 3 * s.stride_width + span <= s.width) {
      planes_of_pixels<PLANES, 4>(row, lines, ox, sink);
      ox += 4;
    } else {
      planes_of_pixels<PLANES, 1>(row, lines, ox++, sink);
    }
  }
}

/** The `results` of each channel of a row, those of a channel side by side. */
template <class Sink>
INFUSE_NOINLINE void row_of_results(const Row& row, const ImageLines& lines, isize results,
                                    const Sink& sink) {
  const DepthwiseSizes& s = *row.shape;
  const isize all = row.channels * results;
  for (isize ox = 0; ox < s.out_width; ++ox) {
    const Inside taps = inside_columns(s, ox);
    const isize corner = (ox * s.stride_width - s.pad_left) * lines.pixel;
    for (isize c = row.begin; c < row.end; ++c)
      sweep(c * results, (c + 1) * results, [&](isize j, auto lanes) {
        vf sum[2] = {};
        for (isize ky = row.first_ky; ky < row.last_ky; ++ky) {
          const float* pixel = lines(row, ky) + corner + c;
          const float* tap = row.weights + ky * s.kernel_width * all + j;
          for (isize kx = taps.first; kx < taps.last; ++kx)
            sum[kx & 1] = fma(splat(pixel[kx * s.dilation_width * lines.pixel]),
                              load(tap + kx * all, lanes), sum[kx & 1]);
        }
        sink(sum[0] + sum[1], row.out + ox, j, lanes);
      });
  }
}

}  // namespace depthwise_detail

/**
 * As depthwise, of any window and dilation, with `multiplier` results a channel, col = channel ·
 * multiplier + result. PLANES is the multiplier up to four, and weights are
 * [kh][kw][multiplier][c]; from five on, it is 0, and weights are [kh][kw][c][multiplier].
 */
template <int PLANES, class Sink>
inline void depthwise_any(Context& context, const DepthwiseSizes& shape, isize multiplier,
                          const float* x, const float* weights, const Sink& sink) {
  using namespace depthwise_detail;
  each_row(context, shape, weights, shape.channels, [&](const Row& row, isize index) {
    const ImageLines lines = image_lines(shape, x, index);
    if constexpr (PLANES > 0)
      row_of_planes<PLANES>(row, lines, sink);
    else
      row_of_results(row, lines, multiplier, sink);
  });
}

}  // namespace infuse
