// Convolution of channels-last images as a matrix product without im2col.
//
// x[n][h][w][c], its pixels `pitch` floats apart, weights packed as [group][panel][k][NR] with k in the order kh, kw, channel of the
// group, result row = (n, oh, ow) flattened and col = output channel. A 1-D convolution has h = 1.
#pragma once

#include "conv_windows.hpp"

namespace infuse {

namespace detail {

// Rows whose part of the image stays in the second level cache while the weights pass by.
constexpr isize conv_chunk(const ConvSizes& s, isize panels) {
  const isize taps = s.kernel_height * s.kernel_width, budget = INFUSE_BLOCK_BYTES / 4,
             word = sizeof(float);
  if (panels * taps * (s.channels / s.groups) * NR * word <= 2 * budget) return MR;
  const isize bytes =
      s.stride_height * s.stride_width * s.channels * word + taps * isize(sizeof(float*));
  return max(budget / bytes / MR * MR, MR);
}

constexpr isize conv_panels(const ConvSizes& s) {
  return s.groups * ceil_div(s.out_channels / s.groups, NR);
}

// Products of the rows [row, end), whose tiles have their pointers one after another in `table`,
// and the panels [p0, p1) of all groups.
template <class W, class Sink>
INFUSE_NOINLINE void conv_tiles(const ConvSizes& s, const float* const* table, isize taps, isize k,
                                const W* w, isize row, isize end, isize p0, isize p1,
                                const Sink& sink) {
  const isize c = s.channels / s.groups, n = s.out_channels / s.groups, panels = ceil_div(n, NR);
  for (isize p = p0; p < p1; ++p) {
    const isize g = p / panels, col = g * n + p % panels * NR;
    const float* const* rows = table;
    for (isize i = row, count; i < end; i += count, rows += taps * count) {
      count = tile_rows(end - i);
      gemm_tile(rows, taps, k, g * c, count, w + p * taps * k * NR, i, col, (g + 1) * n, sink);
    }
  }
}

// ---- TAPS ------------------------------------------------------------------------------------

template <class W, class Sink>
inline void conv_taps(const ConvSizes& s, const float* x, const W* w, isize m0, isize m1, isize p0,
                      isize p1, char* scratch, const Sink& sink) {
  const isize taps = s.kernel_height * s.kernel_width, chunk = conv_chunk(s, p1 - p0);
  float* zeros = (float*)scratch;
  memset(zeros, 0, size_t(s.channels) * sizeof(float));
  const float** table = (const float**)(scratch + ceil_div(s.channels, 16) * 64);
  for (isize row = m0, end; row < m1; row = end) {
    end = chunk_end(row, m1, chunk);
    for (isize i = row, count; i < end; i += count) {
      count = tile_rows(end - i);
      tap_pointers(s, x, zeros, i, count, table + taps * (i - row));
    }
    conv_tiles(s, table, taps, s.channels / s.groups, w, row, end, p0, p1, sink);
  }
}

constexpr isize taps_bytes(const ConvSizes& s) {
  const isize rows = conv_chunk(s, conv_panels(s)) + MR;
  return ceil_div(s.channels, 16) * 64 +
         rows * s.kernel_height * s.kernel_width * isize(sizeof(float*));
}

// ---- LINES -----------------------------------------------------------------------------------

constexpr isize line_floats(const ConvSizes& s) {
  return ((s.out_width - 1) * s.stride_width + s.kernel_width) * s.channels;
}

// Lines of the image that `rows` lines of the result read.
constexpr isize line_count(const ConvSizes& s, isize rows) {
  return (rows - 1) * s.stride_height + (s.kernel_height - 1) * s.dilation_height + 1;
}

// Lines of the result whose lines of the image stay in a quarter of the second level cache.
constexpr isize line_block(const ConvSizes& s) {
  const isize fits =
      INFUSE_BLOCK_BYTES / 4 / isize(sizeof(float)) / line_floats(s) - line_count(s, 1);
  return min(max(fits / s.stride_height + 1, isize(1)), s.out_height);
}

// One line of the image, left and right of it zeros; all zeros outside the image. Padding below
// zero cuts off pixels.
INFUSE_NOINLINE inline void copy_line(const ConvSizes& s, const float* x, isize n, isize y,
                                      float* to) {
  const isize all = line_floats(s) / s.channels, left = min(max(s.pad_left, isize(0)), all);
  const isize without = max(-s.pad_left, isize(0));
  const bool inside = (usize)y < (usize)s.height;
  const isize count = inside ? max(min(s.width - without, all - left), isize(0)) : 0;
  memset(to, 0, size_t(left * s.channels) * sizeof(float));
  memset(to + (left + count) * s.channels, 0,
         size_t((all - left - count) * s.channels) * sizeof(float));
  to += left * s.channels;
  if (!s.planar) {
    const float* from = x + ((n * s.height + (inside ? y : 0)) * s.width + without) * s.pitch;
    if (s.pitch == s.channels) {
      memcpy(to, from, size_t(count * s.channels) * sizeof(float));
      return;
    }
    for (isize i = 0; i < count; ++i, to += s.channels, from += s.pitch)
      memcpy(to, from, size_t(s.channels) * sizeof(float));
    return;
  }
  const float* from = x + (n * s.channels * s.height + (inside ? y : 0)) * s.width + without;
  if (s.channels == 3)
    copying::interleave<3>(to, from, s.height * s.width, count);
  else
    copying::turn_words(to, s.channels, from, s.height * s.width, count, s.channels);
}

// The window of one pixel, whose first line starts at `from`, as one row. Up to LANES - 1 floats
// after both are read and written, too.
INFUSE_INLINE void copy_window(const ConvSizes& s, const float* from, float* to) {
  const isize width = s.kernel_width * s.channels, step = s.dilation_height * line_floats(s);
  for (isize y = 0; y < s.kernel_height; ++y, from += step, to += width)
    for (isize i = 0; i < width; i += LANES) store(to + i, load(from + i, Full{}), Full{});
}

// MR neighbouring pixels times the first V vectors of a panel: row i of segment t starts at
// a + t * line + i * step. The sums go to the sink without leaving the registers.
template <int V, class W, class Sink>
INFUSE_NOINLINE void window_tile(const float* a, isize step, isize taps, isize line, isize k,
                                 const W* b, isize row, isize col, const Sink& sink) {
  vf sum[MR][V];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < V; ++j) sum[i][j] = vf{};
#pragma GCC unroll 1
  for (isize t = 0; t < taps; ++t, a += line) {
    if constexpr (OWN_STEPS) {
      const float* rows[MR];
#pragma GCC unroll 16
      for (int i = 0; i < MR; ++i) rows[i] = a + i * step;
      row_steps(sum, rows, b, k);
      continue;
    }
    const RowGroups rows(a, step);
#pragma GCC unroll 1
    for (isize p = 0; p < k; ++p, b += NR) {
      vf x[V];
#pragma GCC unroll 2
      for (int j = 0; j < V; ++j) x[j] = load(b + j * LANES, Full{});
#pragma GCC unroll 16
      for (int i = 0; i < MR; ++i) {
        vf z = splat(rows.at(i, p));
#pragma GCC unroll 2
        for (int j = 0; j < V; ++j) sum[i][j] = fma(z, x[j], sum[i][j]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < V; ++j) sink(sum[i][j], row + i, col + j * LANES, Full{});
}

template <class W, class Sink>
inline void conv_lines(const ConvSizes& s, const float* x, const W* w, isize m0, isize m1, isize p0,
                       isize p1, char* scratch, const Sink& sink) {
  const isize k = s.kernel_height * s.kernel_width * s.channels, block = line_block(s),
             line = line_floats(s), pitch = gemm_pitch(k);
  float* windows = (float*)scratch;
  float* lines = windows + 2 * MR * pitch + LANES;
  const GemmSizes shape = {m1, s.out_channels, k, pitch};
  const bool whole = s.out_channels % LANES == 0;
  for (isize row = m0, end; row < m1; row = end) {
    Pixel at(s, row);
    const isize y0 = at.y;
    end = min((at.n * s.out_height + min(y0 + block, s.out_height)) * s.out_width, m1);
    for (isize i = 0; i < line_count(s, Pixel(s, end - 1).y + 1 - y0); ++i)
      copy_line(s, x, at.n, y0 * s.stride_height - s.pad_top + i, lines + i * line);
    for (isize i = row, next; i < end; i = next) {
      auto window = [&] {
        return lines + (at.y - y0) * s.stride_height * line + at.x * s.stride_width * s.channels;
      };
      if (whole && end - i >= MR && s.out_width - at.x >= MR) {
        next = i + MR;
        for (isize p = p0; p < p1; ++p) {
          auto tile =
              s.out_channels - p * NR < NR ? window_tile<1, W, Sink> : window_tile<2, W, Sink>;
          tile(window(), s.stride_width * s.channels, s.kernel_height, s.dilation_height * line,
               s.kernel_width * s.channels, w + p * k * NR, i, p * NR, sink);
        }
        for (isize j = i; j < next; ++j) at.next(s);
        continue;
      }
      next = chunk_end(i, end, MR);
      for (isize j = i; j < next; ++j, at.next(s))
        copy_window(s, window(), windows + (j - i) * pitch);
      for (isize p = p0; p < p1; ++p)
        gemm_rows(shape, windows - i * pitch, w + p * k * NR, i, next, p * NR, sink);
    }
  }
}

constexpr isize lines_bytes(const ConvSizes& s) {
  return (line_count(s, line_block(s)) * line_floats(s) + 2 * LANES +
          2 * MR * gemm_pitch(s.kernel_height * s.kernel_width * s.channels)) *
         isize(sizeof(float));
}

// ---- GATHERED --------------------------------------------------------------------------------

template <class W, class Sink>
inline void conv_gathered(const ConvSizes& s, const float* x, const W* w, isize m0, isize m1, isize p0,
                          isize p1, char* scratch, const Sink& sink) {
  Pixel at(s, m0);
  auto source = [&](isize) {
    const float* from =
        x +
        ((at.n * s.height + at.y * s.stride_height) * s.width + at.x * s.stride_width) * s.pitch;
    at.next(s);
    return from;
  };
  gemm_copied(s.out_channels, s.channels, source, w, m0, m1, p0, p1, (float*)scratch, sink);
}

// Rows [m0, m1) and panels [p0, p1) of a convolution that is not PLAIN.
template <class W, class Sink>
INFUSE_INLINE void conv_part(ConvMode mode, const ConvSizes& s, const float* x, const W* w, isize m0,
                      isize m1, isize p0, isize p1, char* scratch, const Sink& sink) {
  if (mode == GATHERED)
    conv_gathered(s, x, w, m0, m1, p0, p1, scratch, sink);
  else if (mode == LINES)
    conv_lines(s, x, w, m0, m1, p0, p1, scratch, sink);
  else
    conv_taps(s, x, w, m0, m1, p0, p1, scratch, sink);
}

}  // namespace detail

// Bytes of scratch that a worker needs for conv.
constexpr isize conv_scratch(const ConvSizes& s) {
  switch (detail::conv_mode(s)) {
    case PLAIN:
      return gemm_scratch({s.batch * s.height * s.width, s.out_channels, s.channels, s.pitch});
    case GATHERED:
      return detail::copied_bytes(s.out_channels, s.channels);
    case LINES:
      return detail::lines_bytes(s);
    default:
      return max(detail::taps_bytes(s),
                 detail::conv_blocks(s) ? detail::taps_in_blocks_bytes(s) : isize(0));
  }
}

// The convolution of sizes of which the mode is known, and not PLAIN.
template <ConvMode MODE, class Sink>
void conv(Context& ctx, ConvSizes s, const float* x, const float* packed_w, const Sink& sink) {
  static_assert(MODE != PLAIN, "that is gemm");
  const isize m = s.batch * s.out_height * s.out_width,
             k = s.kernel_height * s.kernel_width * (s.channels / s.groups);
  if (m <= 0 || s.out_channels <= 0) return;
  const isize panels = detail::conv_panels(s);
  const bool blocks = MODE == TAPS && detail::conv_blocks(s);
  const isize unit = blocks ? detail::BLOCK_PANELS : 1;
  detail::gemm_parallel(
      ctx, m, detail::ceil_div(panels, unit), k * unit,
      [&](isize m0, isize m1, isize p0, isize p1, int worker) {
        p0 *= unit, p1 = min(p1 * unit, panels);
        if (blocks)
          detail::conv_taps_in_blocks(s, x, packed_w, m0, m1, p0, p1, ctx.scratch(worker), sink);
        else
          detail::conv_part(MODE, s, x, packed_w, m0, m1, p0, p1, ctx.scratch(worker), sink);
      });
}

template <class Sink>
void conv(Context& ctx, ConvSizes s, const float* x, const float* packed_w, const Sink& sink) {
  switch (detail::conv_mode(s)) {
    case PLAIN: {
      const isize m = s.batch * s.out_height * s.out_width;
      return gemm(ctx, {m, s.out_channels, s.channels, s.pitch}, x, packed_w, sink);
    }
    case GATHERED:
      return conv<GATHERED>(ctx, s, x, packed_w, sink);
    case TAPS:
      return conv<TAPS>(ctx, s, x, packed_w, sink);
    case LINES:
      return conv<LINES>(ctx, s, x, packed_w, sink);
  }
}

}  // namespace infuse
