// Pooling of images whose channels are planes: down the columns of some lines, then along them.
#pragma once
#include "pool.hpp"
#include "transpose.hpp"

namespace infuse {
namespace pool_detail {

/** How the lines of a plane lie in scratch. */
struct PlaneLines {
  isize span;   // places that the windows of a line reach, padding too
  isize phase;  // floats of a phase: of every stride_width-th place of a line
  isize pitch;  // floats of a line, phase after phase
  isize count;  // lines that are made at once
};

constexpr isize plane_span(const PoolSizes& s) {
  return (s.out_width - 1) * s.stride_width + (s.kernel_width - 1) * s.dilation_width + 1;
}

constexpr PlaneLines plane_lines(const PoolSizes& s) {
  const isize span = plane_span(s);
  const isize phase = ((span + s.stride_width - 1) / s.stride_width / LANES + 2) * LANES;
  const isize pitch = phase * s.stride_width;
  const isize fits = INFUSE_L1_BYTES / 4 / isize(sizeof(float)) / pitch;
  return {span, phase, pitch, min(max(fits, isize(1)), s.out_height)};
}

/** A number of taps at compile time, 0 for one of the run. */
template <int COUNT>
struct TapCount {
  static constexpr int N = COUNT;
};

/** Calls f(TapCount<count>) for the windows that are usual. */
template <class F>
INFUSE_INLINE void by_count(isize count, const F& f) {
  if (count == 2) return f(TapCount<2>{});
  if (count == 3) return f(TapCount<3>{});
  f(TapCount<0>{});
}

/** The columns of a line of the result. */
template <int N, class Op>
INFUSE_INLINE void pool_columns(const PoolSizes& s, const Op& op, const float* x, isize taps,
                                isize width, float* to) {
  const isize step = s.dilation_height * s.width;
  sweep(0, width, [&](isize c, auto lanes) __attribute__((always_inline)) {
    vf sum = op.start();
    const float* from = x + c;
#pragma GCC unroll 4
    for (isize ky = 0; ky < (N ? N : taps); ++ky, from += step)
      sum = op.step(sum, load(from, lanes));
    store(to + c, sum, lanes);
  });
}

/** phases[p][i] = line[i * steps + p]. */
INFUSE_INLINE void cut_line(float* phases, isize phase, const float* line, isize count, isize steps) {
  if (steps <= 4) return copying::separate_any(phases, phase, line, count, steps);
  for (isize i = 0; i < count; ++i)
    for (isize p = 0; p < steps; ++p) phases[p * phase + i] = line[i * steps + p];
}

/** The windows of a line whose columns are pooled. */
template <int N, class Op, class Sink>
INFUSE_INLINE void pool_along(const PoolSizes& s, const Op& op, const PlaneLines& lie,
                              const float* phases, const float* counts, float rows, isize row,
                              const Sink& sink) {
  sweep(0, s.out_width, [&](isize ox, auto lanes) __attribute__((always_inline)) {
    vf sum = op.start();
    isize phase = 0;
    const float* from = phases + ox;
#pragma GCC unroll 4
    for (isize kx = 0; kx < (N ? N : s.kernel_width); ++kx) {
      sum = op.join(sum, load(from + phase * lie.phase, Full{}));
      for (phase += s.dilation_width; phase >= s.stride_width; phase -= s.stride_width) ++from;
    }
    sink(op.finish(sum, load(counts + ox, Full{}) * rows), row, ox, lanes);
  });
}

}  // namespace pool_detail

/** Bytes of scratch that a worker needs for pool_planes. */
constexpr isize pool_planes_scratch(const PoolSizes& s) {
  const pool_detail::PlaneLines lie = pool_detail::plane_lines(s);
  const isize lines = lie.count * (s.stride_width > 1 ? 2 : 1);
  const isize floats = s.out_width + 2 * LANES + lie.pitch * lines;
  return s.out_height * isize(sizeof(pool_detail::Taps)) + floats * isize(sizeof(float)) + CACHE_LINE;
}

/** Pools x [n, c, h, w]; row = (image, channel, oy), col = ox. Needs pool_planes_scratch. */
template <class Op, class Sink>
inline void pool_planes(Context& context, const PoolSizes& shape, const Op& op, const float* x,
                        const Sink& sink) {
  using namespace pool_detail;
  if (shape.out_height <= 0 || shape.out_width <= 0) return;
  const PlaneLines lie = plane_lines(shape);
  const isize parts = (shape.out_height + lie.count - 1) / lie.count;
  context.parallel(
      shape.batch * shape.channels * parts,
      [&](isize begin, isize end, int worker) {
        const PoolSizes s = shape;
        // Padding below zero cuts off columns.
        const isize before = max(s.pad_left, isize(0)), without = before - s.pad_left;
        const isize width = min(s.width - without, lie.span - before);
        const isize places = (lie.span + s.stride_width - 1) / s.stride_width;
        Taps* rows = reinterpret_cast<Taps*>(context.scratch(worker));
        float* counts = reinterpret_cast<float*>(rows + s.out_height);
        float* lines = counts + s.out_width + LANES;
        float* cut = s.stride_width > 1 ? lines + lie.count * lie.pitch : lines;
        for (isize oy = 0; oy < s.out_height; ++oy)
          rows[oy] = taps(oy, s.stride_height, s.pad_top, s.pad_bottom, s.kernel_height,
                          s.dilation_height, s.height);
        for (isize ox = 0; ox < s.out_width; ++ox) {
          const Taps side = taps(ox, s.stride_width, s.pad_left, s.pad_right, s.kernel_width,
                                 s.dilation_width, s.width);
          counts[ox] = float(s.count_padding ? side.counted : side.count);
        }
        for (isize i = 0; i < LANES; ++i) counts[s.out_width + i] = 1.0f;
        // Places of padding stay as they are.
        for (isize i = 0; i < lie.count * lie.pitch; i += LANES)
          store(lines + i, op.start(), Full{});
        for (isize unit = begin; unit < end; ++unit) {
          const isize plane = unit / parts, first = unit % parts * lie.count;
          const isize last = min(first + lie.count, s.out_height);
          const float* from = x + plane * s.height * s.width;
          for (isize oy = first; oy < last; ++oy) {
            float* to = lines + (oy - first) * lie.pitch + before;
            by_count(rows[oy].count, [&](auto taps) __attribute__((always_inline)) {
              const Taps& y = rows[oy];
              const float* columns = from + y.first * s.width + without;
              pool_columns<taps.N>(s, op, columns, y.count, width, to);
            });
          }
          if (s.stride_width > 1)
            for (isize i = 0; i < last - first; ++i)
              cut_line(cut + i * lie.pitch, lie.phase, lines + i * lie.pitch, places,
                       s.stride_width);
          by_count(s.kernel_width, [&](auto taps) __attribute__((always_inline)) {
            for (isize oy = first; oy < last; ++oy) {
              const float all = float(s.count_padding ? rows[oy].counted : rows[oy].count);
              pool_along<taps.N>(s, op, lie, cut + (oy - first) * lie.pitch, counts, all,
                                 plane * s.out_height + oy, sink);
            }
          });
        }
      },
      1 + 16384 / (lie.count * shape.out_width * (shape.kernel_height + shape.kernel_width)));
}

}  // namespace infuse
