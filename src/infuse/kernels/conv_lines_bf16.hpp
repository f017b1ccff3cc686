// Convolution of images of few channels in operands rounded to bfloat16: lines are rounded once, with
// their padding, and windows are read from them in place.
//
// Weights are those of conv_bf16.hpp for vectors: [panel][line of the window][pair][NR]. A line of an
// odd count of numbers ends with half a pair, whose other half is masked.
#pragma once

#include "conv.hpp"
#include "gemm_bf16.hpp"

namespace infuse {

namespace detail {

// Numbers from one rounded line to the next.
constexpr isize rounded_line(const ConvSizes& s) {
  return ceil_div(line_floats(s) + 1, 2 * LANES) * 2 * LANES;
}

// Where the windows of neighbouring pixels lie: `step` numbers from one to the next, their `lines`
// lines `apart`, of `width` numbers each.
struct RoundedWindows {
  isize step, lines, apart, width;

  constexpr explicit RoundedWindows(const ConvSizes& s)
      : step(s.stride_width * s.channels),
        lines(s.kernel_height),
        apart(s.dilation_height * rounded_line(s)),
        width(s.kernel_width * s.channels) {}
};

// The sums of R neighbouring windows, the first at `a`, and V vectors of a panel, to
// out(sum, row, vector). each(line) is called before every line of the window.
template <int R, int V, class Each, class Out>
INFUSE_INLINE void rounded_window_sums(const bfloat16* a, RoundedWindows at, const int32_t* b,
                                       const Each& each, const Out& out) {
  constexpr int G = 3;  // rows that share a pointer
  vf sum[R][V];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < V; ++j) sum[i][j] = vf{};
#pragma GCC unroll 1
  for (isize t = 0; t < at.lines; ++t, a += at.apart) {
    each(t);
    const bfloat16* x[(R + G - 1) / G];
#pragma GCC unroll 16
    for (int i = 0; i < R; i += G) x[i / G] = a + i * at.step;
    const auto step = [&](vi mask) __attribute__((always_inline)) {
      vi y[V];
#pragma GCC unroll 2
      for (int j = 0; j < V; ++j) y[j] = load(b + j * LANES, Full{});
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) {
        int32_t pair;
        memcpy(&pair, x[i / G] + i % G * at.step, sizeof pair);
        const vi z = splat(pair) & mask;
#pragma GCC unroll 2
        for (int j = 0; j < V; ++j) sum[i][j] = dot_pairs(sum[i][j], z, y[j]);
      }
      b += NR;
    };
#pragma GCC unroll 1
    for (isize p = at.width / 2; p > 0; --p) {
      step(splat(-1));
#pragma GCC unroll 16
      for (int i = 0; i < R; i += G) x[i / G] += 2;
    }
    if (at.width % 2) step(splat(0xffff));
  }
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < V; ++j) out(sum[i][j], i, j);
}

template <int R, int V>
INFUSE_NOINLINE void rounded_windows(const bfloat16* a, RoundedWindows at, const int32_t* b,
                                     float* to) {
  rounded_window_sums<R, V>(
      a, at, b, [](isize) {},
      [&](vf x, int i, int j) __attribute__((always_inline)) {
        store(to + i * NR + j * LANES, x, Full{});
      });
}

typedef void (*WindowTile)(const bfloat16*, RoundedWindows, const int32_t*, float*);

template <int V>
INFUSE_INLINE WindowTile window_tile_of(isize rows) {
  static constexpr WindowTile tiles[] = {
      rounded_windows<1, V>,  rounded_windows<2, V>,  rounded_windows<3, V>,
      rounded_windows<4, V>,
#if INFUSE_TILE_ROWS >= 6
      rounded_windows<5, V>,  rounded_windows<6, V>,
#endif
#if INFUSE_TILE_ROWS >= 8
      rounded_windows<7, V>,  rounded_windows<8, V>,
#endif
#if INFUSE_TILE_ROWS == 12
      rounded_windows<9, V>,  rounded_windows<10, V>, rounded_windows<11, V>, rounded_windows<12, V>,
#endif
  };
  return tiles[rows - 1];
}

// A whole tile, whose sums go to the sink without leaving the registers. Memory that the sink needs is
// asked for some rows at a time meanwhile.
template <class Sink>
INFUSE_NOINLINE void full_window_tile(const bfloat16* a, RoundedWindows at, const int32_t* b,
                                      isize row, isize col, const Sink& sink) {
  const Sink own = sink;
  const isize part = ceil_div(MR, at.lines);
  rounded_window_sums<MR, 2>(
      a, at, b,
      [&](isize line) __attribute__((always_inline)) {
#pragma GCC unroll 1
        for (isize i = line * part; i < min((line + 1) * part, MR); ++i) {
          own(vf{}, row + i, col, Ahead{});
          own(vf{}, row + i, col + LANES, Ahead{});
        }
      },
      [&](vf x, int i, int j) __attribute__((always_inline)) {
        own(x, row + i, col + j * LANES, Full{});
      });
}

// Rows [m0, m1) and panels [p0, p1) of a convolution whose lines are rounded to `lines`; `line` holds
// one of them before that.
template <class Sink>
inline void conv_rounded_lines(const ConvSizes& s, const float* x, const int32_t* w, isize m0,
                               isize m1, isize p0, isize p1, float* line, bfloat16* lines,
                               const Sink& sink) {
  const RoundedWindows at(s);
  const isize block = line_block(s), panel = at.lines * bf16_pairs(at.width) * NR;
  alignas(64) float out[MR * NR];
  for (isize row = m0, end; row < m1; row = end) {
    const Pixel first(s, row);
    end = min((first.n * s.out_height + min(first.y + block, s.out_height)) * s.out_width, m1);
    const isize top = first.y * s.stride_height - s.pad_top;
    for (isize i = 0; i < line_count(s, Pixel(s, end - 1).y + 1 - first.y); ++i) {
      copy_line(s, x, first.n, top + i, line);
      round_row((int32_t*)(lines + i * rounded_line(s)), line, line_floats(s));
    }
    for (isize i = row, stop; i < end; i = stop) {
      const Pixel start(s, i);
      stop = min(i + s.out_width - start.x, end);
      const bfloat16* windows =
          lines + (start.y - first.y) * s.stride_height * rounded_line(s) + start.x * at.step;
      for (isize p = p0; p < p1; ++p) {
        const bfloat16* a = windows;
        const isize width = s.out_channels - p * NR;
        for (isize j = i, count; j < stop; j += count, a += count * at.step) {
          count = tile_rows(stop - j);
          if (count == MR && width >= NR) {
            full_window_tile(a, at, w + p * panel, j, p * NR, sink);
            continue;
          }
          const WindowTile run =
              width > LANES ? window_tile_of<2>(count) : window_tile_of<1>(count);
          run(a, at, w + p * panel, out);
          drain(out, count, j, p * NR, s.out_channels, sink);
        }
      }
    }
  }
}

// Bytes of a line before it is rounded.
constexpr isize whole_line_bytes(const ConvSizes& s) {
  return ceil_div(line_floats(s), 16) * 16 * isize(sizeof(float));
}

}  // namespace detail

// Bytes of scratch that a worker needs for conv_lines_bf16.
constexpr isize conv_lines_bf16_scratch(const ConvSizes& s) {
  return detail::whole_line_bytes(s) + detail::line_count(s, detail::line_block(s)) *
                                           detail::rounded_line(s) * isize(sizeof(bfloat16));
}

// As conv() of conv.hpp where conv_takes_planar(s), but for weights packed in pairs.
template <class Sink>
void conv_lines_bf16(Context& ctx, ConvSizes s, const float* x, const bfloat16* packed_w,
                     const Sink& sink) {
  const isize m = s.batch * s.out_height * s.out_width;
  if (m <= 0 || s.out_channels <= 0) return;
  const isize pairs = s.kernel_height * bf16_pairs(s.kernel_width * s.channels);
  detail::gemm_parallel(
      ctx, m, detail::conv_panels(s), 2 * pairs,
      [&](isize m0, isize m1, isize p0, isize p1, int worker) {
        char* scratch = (char*)ctx.scratch(worker);
        detail::conv_rounded_lines(s, x, (const int32_t*)packed_w, m0, m1, p0, p1, (float*)scratch,
                                   (bfloat16*)(scratch + detail::whole_line_bytes(s)), sink);
      });
}

}  // namespace infuse
