// Convolution of images whose channels are planes, to such images: pixels lie along vectors, and
// filters are the rows of the product, so that no image is turned.
//
// x[n][c][h][w], w[channel of the result][k] with k in the order channel of the group, kh, kw,
// result row = image * out_channels + channel and col = pixel. A 1-D convolution has h = 1.
#pragma once
#include "conv_windows.hpp"
#include "matmul_few.hpp"

namespace infuse {
namespace detail {

// Whether the windows are the pixels of the image.
constexpr bool planes_of_points(const ConvSizes& s) {
  return s.kernel_height * s.kernel_width == 1 && s.stride_height == 1 && s.stride_width == 1 &&
         s.pad_top == 0 && s.pad_left == 0 && s.out_height == s.height && s.out_width == s.width;
}

// Floats of a line of an image with its padding, as far as windows reach, and lines for `rows` of
// the result. A line lies in parts, one for each pixel of a step, so that windows that follow one
// another read neighbours.
constexpr isize line_part(const ConvSizes& s) {
  return s.out_width + (s.kernel_width - 1) * s.dilation_width / s.stride_width;
}
constexpr isize padded_width(const ConvSizes& s) { return line_part(s) * s.stride_width; }
constexpr isize padded_lines(const ConvSizes& s, isize rows) {
  return (rows - 1) * s.stride_height + (s.kernel_height - 1) * s.dilation_height + 1;
}

// Pixels that lie side by side, and how many of such lines are computed at once: those of the image
// stay in a quarter of the second level cache.
constexpr isize plane_line(const ConvSizes& s) {
  return planes_of_points(s) ? NR : s.out_width;
}
constexpr isize plane_lines(const ConvSizes& s) {
  return planes_of_points(s) ? ceil_div(s.out_height * s.out_width, NR) : s.out_height;
}
constexpr isize plane_block(const ConvSizes& s) {
  const isize line = s.channels / s.groups * (planes_of_points(s) ? NR : padded_width(s)),
             fits = INFUSE_BLOCK_BYTES / 4 / isize(sizeof(float)) / max(line, isize(1));
  const isize lines =
      planes_of_points(s) ? fits : (fits - padded_lines(s, 1)) / s.stride_height + 1;
  return min(max(lines, isize(1)), plane_lines(s));
}

// Panels of pixels that are multiplied by each row of filters: one, unless the filters do not stay
// in the second level cache.
constexpr isize plane_panels(const ConvSizes& s) {
  const isize k = s.channels / s.groups * s.kernel_height * s.kernel_width,
             budget = INFUSE_BLOCK_BYTES / 2 / isize(sizeof(float));
  const isize all = ceil_div(plane_block(s) * plane_line(s), NR);
  return s.out_channels / s.groups * k <= budget ? 1 : min(max(budget / (k * NR), isize(1)), all);
}

// A number of pixels by the parts of a line: in each a number of whole steps, in the first ones one
// more. Padding that cuts off pixels is a number below zero.
struct Steps {
  isize whole, more;
  INFUSE_INLINE Steps(isize pixels, isize step)
      : whole((pixels < 0 ? pixels - step + 1 : pixels) / step), more(pixels - whole * step) {}
  INFUSE_INLINE isize of(isize part) const { return whole + (part < more); }
};

template <int... I>
INFUSE_INLINE vf every_other(vf a, vf b, copying::Indices<I...>) {
  return __builtin_shufflevector(a, b, (2 * I)...);
}

// One part of a line: zeros, `count` pixels from `from` on that lie `step` apart, zeros. Up to
// LANES - 1 floats behind it are written, too.
INFUSE_INLINE void pad_part(const float* from, isize step, isize before, isize count, isize size,
                            float* to) {
  vf zeros = {};
  INFUSE_HOLD(zeros);  // else compilers call memset
  for (isize i = 0; i < before; i += LANES) store(to + i, zeros, Full{});
  isize i = 0;
  if (step == 1) {
    for (; i + LANES <= count; i += LANES) store(to + before + i, load(from + i, Full{}), Full{});
    // What a tail lacks is zero.
    if (i < count) store(to + before + i, load(from + i, Tail{int(count - i)}), Full{}), i += LANES;
  } else if (step == 2) {
    for (; i < count; i += LANES) {
      const isize left = 2 * (count - i) - 1, more = max(left - LANES, isize(0));
      const vf low = load(from + 2 * i, Tail{int(min(left, isize(LANES)))});
      const vf high = load(from + 2 * i + LANES, Tail{int(min(more, isize(LANES)))});
      store(to + before + i, every_other(low, high, copying::CountTo<LANES>::type()), Full{});
    }
  } else {
    for (; i < count; ++i) to[before + i] = from[i * step];
  }
  for (i += before; i < size; i += LANES) store(to + i, zeros, Full{});
}

// The lines of a channel that the result's lines [y0, y1) read.
INFUSE_INLINE void pad_lines(const ConvSizes& s, const float* plane, isize y0, isize y1, float* to) {
  const isize top = y0 * s.stride_height - s.pad_top, count = padded_lines(s, y1 - y0),
             part = line_part(s), step = s.stride_width, behind = s.pad_left + s.width;
  const Steps left(s.pad_left, step), right(behind, step);
  for (isize y = top; y < top + count; ++y) {
    const bool inside = (usize)y < (usize)s.height;
    const float* line = plane + y * s.width - s.pad_left;
    for (isize i = 0; i < step; ++i, to += part) {
      const isize begin = inside ? min(max(left.of(i), isize(0)), part) : part;
      const isize end = min(right.of(i), part);
      pad_part(line + begin * step + i, step, begin, max(end - begin, isize(0)), part, to);
    }
  }
}

// Where in the lines the numbers of a window lie.
INFUSE_INLINE void places_of_taps(const ConvSizes& s, isize* taps) {
  for (isize y = 0; y < s.kernel_height; ++y)
    for (isize x = 0; x < s.kernel_width; ++x) {
      const isize column = x * s.dilation_width;
      *taps++ = y * s.dilation_height * padded_width(s) +
                column % s.stride_width * line_part(s) + column / s.stride_width;
    }
}

// Neighbouring pixels of a line of the result: the column of the first one, counted from the panel
// or the plane, and where the first number of its window lies.
struct Run {
  isize col, from, count;
};

// The numbers of the windows of pixels as a panel [k][NR]; runs tell of the pixels, zeros follow.
INFUSE_NOINLINE inline void pack_windows(const float* lines, isize channel, isize channels,
                                         const isize* taps, isize size, const Run* runs, isize count,
                                         isize width, float* panel) {
  for (isize c = 0; c < channels; ++c, lines += channel)
    for (isize t = 0; t < size; ++t, panel += NR) {
      const float* from = lines + taps[t];
      // Up to LANES - 1 floats behind a run are written, too, before those that belong there.
      for (const Run* r = runs; r < runs + count; ++r)
        for (isize j = 0; j < r->count; j += LANES)
          store(panel + r->col + j, load(from + r->from + j, Full{}), Full{});
      sweep(width, NR, [&](isize j, auto l) { store(panel + j, vf{}, l); });
    }
}

// The pixels [pixel, pixel + width) of lines that begin at line y0.
INFUSE_INLINE isize runs_of(const ConvSizes& s, isize pixel, isize width, Run* runs) {
  isize count = 0;
  for (isize done = 0; done < width; ++count) {
    const isize y = (pixel + done) / s.out_width, x = (pixel + done) % s.out_width,
               left = min(s.out_width - x, width - done);
    runs[count] = {done, y * s.stride_height * padded_width(s) + x, left};
    done += left;
  }
  return count;
}

// R rows of filters times P vectors of neighbouring pixels, as they lie in the lines.
template <int R, int P, class Sink>
INFUSE_NOINLINE void window_rows(const float* lines, isize channel, isize channels, const isize* taps,
                                 isize size, const Run* runs, const float* w, isize row,
                                 const Sink& sink) {
  // A copy, as compilers must expect that a result is stored over what a reference leads to.
  const Sink own = sink;
  const isize k = channels * size;
  vf sum[R][P];
  const float* at[P];
#pragma GCC unroll 8
  for (int v = 0; v < P; ++v) {
    at[v] = lines + runs[v].from;
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sum[r][v] = vf{};
  }
  for (isize c = 0; c < channels; ++c) {
#pragma GCC unroll 1
    for (isize t = 0; t < size; ++t, ++w) {
      const isize tap = taps[t];
      vf factor[R];
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) factor[r] = splat(w[r * k]);
#pragma GCC unroll 8
      for (int v = 0; v < P; ++v) {
        const vf x = load(at[v] + tap, Full{});
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) sum[r][v] = fma(factor[r], x, sum[r][v]);
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < P; ++v) at[v] += channel;
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < P; ++v)
      if (runs[v].count == LANES)
        own(sum[r][v], row + r, runs[v].col, Full{});
      else
        own(sum[r][v], row + r, runs[v].col, Tail{int(runs[v].count)});
}

// Whether so many filters are multiplied by windows as they lie in the lines: packing windows, so
// that lines fill vectors, costs as much as some 16 filters.
constexpr bool takes_lines(const ConvSizes& s, isize filters) {
  return filters * ceil_div(s.out_width, LANES) * LANES <= 16 * max(s.out_width, isize(1)) ||
         filters <= 4;
}

// R rows of filters times the pixels of the lines [y0, y1).
template <int R, class Sink>
INFUSE_NOINLINE void few_filters(const ConvSizes& s, const float* lines, isize channel,
                                 const isize* taps, const float* w, isize row, isize y0, isize y1,
                                 const Sink& sink) {
  constexpr int P =
      INFUSE_REGISTERS == 32 ? (R == 1 ? 8 : R == 2 ? 6 : 4) : (R == 1 ? 6 : R == 2 ? 4 : 2);
  const isize channels = s.channels / s.groups, size = s.kernel_height * s.kernel_width;
  Run runs[P];
  isize held = 0;
  auto flush = [&] {
    if (held == P)
      return window_rows<R, P>(lines, channel, channels, taps, size, runs, w, row, sink);
    isize i = 0;
    for (; i + 2 <= held; i += 2)
      window_rows<R, 2>(lines, channel, channels, taps, size, runs + i, w, row, sink);
    if (i < held)
      window_rows<R, 1>(lines, channel, channels, taps, size, runs + i, w, row, sink);
  };
  const isize width = s.out_width, step = s.stride_height * padded_width(s);
  isize col = y0 * width;
  for (isize line = 0; line < (y1 - y0) * step; line += step, col += width)
    for (isize x = 0; x < width; x += LANES) {
      runs[held++] = {col + x, line + x, min(width - x, isize(LANES))};
      if (held == P) flush(), held = 0;
    }
  flush();
}

// One panel of pixels from `pixel` on of a block of lines.
INFUSE_INLINE void pack_pixels(const ConvSizes& s, const float* planes, isize channel,
                               const isize* taps, isize pixel, isize width, float* panel) {
  if (planes_of_points(s)) {
    for (isize c = 0; c < s.channels / s.groups; ++c, panel += NR, planes += channel) {
      sweep(0, width, [&](isize j, auto l) { store(panel + j, load(planes + pixel + j, l), l); });
      sweep(width, NR, [&](isize j, auto l) { store(panel + j, vf{}, l); });
    }
    return;
  }
  Run runs[NR];
  const isize count = runs_of(s, pixel, width, runs);
  pack_windows(planes, channel, s.channels / s.groups, taps, s.kernel_height * s.kernel_width, runs,
               count, width, panel);
}

// Floats that the places of the taps take.
constexpr isize tap_floats(const ConvSizes& s) {
  const isize taps = s.kernel_height * s.kernel_width;
  return ceil_div(taps, LANES) * LANES * isize(sizeof(isize) / sizeof(float));
}

// Lines [y0, y1) of the results [row, end) of one group of an image; `first` is the row of the sink
// that filter 0 makes.
template <class Sink>
INFUSE_NOINLINE void planes_part(const ConvSizes& s, const float* planes, const float* w,
                                 isize first, isize row, isize end, isize y0, isize y1, float* scratch,
                                 const Sink& sink) {
  const isize own = s.channels / s.groups, k = own * s.kernel_height * s.kernel_width,
             group = plane_panels(s), all = s.out_height * s.out_width;
  const isize begin = y0 * plane_line(s), last = min(y1 * plane_line(s), all);
  const float* filters = w + (row - first) * k;
  const isize count = end - row;
  // Columns behind `last` are those of other blocks.
  const GemmSizes t = {end, last, k, k};
  isize channel = all;
  isize* taps = (isize*)scratch;
  float* panels = scratch + tap_floats(s);
  if (!planes_of_points(s)) {
    channel = padded_lines(s, y1 - y0) * padded_width(s);
    float* lines = panels + group * k * NR + LANES;
    for (isize c = 0; c < own; ++c)
      pad_lines(s, planes + c * s.height * s.width, y0, y1, lines + c * channel);
    // What vectors read behind the last line.
    store(lines + own * channel, vf{}, Full{});
    places_of_taps(s, taps);
    planes = lines;
    if (takes_lines(s, count)) {
      for (isize i = 0; i < count; i += 4) {
        const isize left = count - i;
        const float* rows = filters + i * k;
        if (left == 1) few_filters<1>(s, lines, channel, taps, rows, row + i, y0, y1, sink);
        if (left == 2) few_filters<2>(s, lines, channel, taps, rows, row + i, y0, y1, sink);
        if (left == 3) few_filters<3>(s, lines, channel, taps, rows, row + i, y0, y1, sink);
        if (left >= 4) few_filters<4>(s, lines, channel, taps, rows, row + i, y0, y1, sink);
      }
      return;
    }
  } else {
    const MatmulSizes points = {1, count, all, k, 0, k, 1, 0, all, 1};
    if (count == 1) return few_rows<1>(points, filters, planes, row, begin, last, sink);
    if (count == 2) return few_rows<2>(points, filters, planes, row, begin, last, sink);
    if (count == 3) return few_rows<3>(points, filters, planes, row, begin, last, sink);
    if (count == 4) return few_rows<4>(points, filters, planes, row, begin, last, sink);
    planes += begin;
  }
  for (isize q = begin, next; q < last; q = next) {
    next = min(q + group * NR, last);
    for (isize p = q; p < next; p += NR)
      pack_pixels(s, planes, channel, taps, p - begin, min(NR, next - p), panels + (p - q) * k);
    for (isize i = row, stop; i < end; i = stop) {
      stop = group > 1 ? chunk_end(i, end, MR) : end;
      for (isize p = q; p < next; p += NR)
        gemm_rows(t, w - first * k, panels + (p - q) * k, i, stop, p, sink);
    }
  }
}

}  // namespace detail

// Bytes of scratch that a worker needs for conv_planes.
constexpr isize conv_planes_scratch(const ConvSizes& s) {
  const isize own = s.channels / s.groups, k = own * s.kernel_height * s.kernel_width;
  const isize lines =
      detail::planes_of_points(s)
          ? 0
          : own * detail::padded_lines(s, detail::plane_block(s)) * detail::padded_width(s);
  const isize panels = detail::plane_panels(s) * k * NR;
  return (detail::tap_floats(s) + panels + lines + 2 * LANES) * isize(sizeof(float));
}

// The convolution of planes; s.pitch and marks of how an image lies are not used.
template <class Sink>
void conv_planes(Context& ctx, const ConvSizes& s, const float* x, const float* w,
                 const Sink& sink) {
  const isize lines = detail::plane_lines(s), out = s.out_channels / s.groups,
             own = s.channels / s.groups, k = own * s.kernel_height * s.kernel_width;
  if (s.batch <= 0 || lines <= 0 || out <= 0 || s.out_width <= 0) return;
  // Blocks of lines, and of results where there are few, for all threads.
  const isize images = s.batch * s.groups;
  const double pixels = double(images) * double(lines * detail::plane_line(s));
  const double worth = 1 + pixels * double(out * k) / 16384;
  const isize parts = detail::gemm_parts(worth < ctx.threads ? isize(worth) : ctx.threads, worth);
  const isize share = detail::ceil_div(lines, max(parts / images, isize(1))),
             block = min(detail::plane_block(s), share), blocks = detail::ceil_div(lines, block);
  const auto body = [&](isize begin, isize end, int worker) {
    for (isize t = begin; t < end; ++t) {
      const isize image = t / blocks, n = image / s.groups, g = image % s.groups,
                 y0 = t % blocks * block, first = n * s.out_channels, row = first + g * out;
      detail::planes_part(s, x + image * own * s.height * s.width, w, first, row, row + out, y0,
                          min(y0 + block, lines), (float*)ctx.scratch(worker), sink);
    }
  };
  ctx.parallel(images * blocks, body, detail::ceil_div(images * blocks, parts));
}

}  // namespace infuse
