// Transposed convolution whose windows do not meet, of planes to planes: pixels lie along vectors,
// and what lies between the windows is zero before the sink.
//
// x[n][c][h][w], w[group][channel of the result][kh][kw][channel of the group]; result row = image *
// out_channels + channel, col = pixel. In ConvSizes, the window moves over the result.
#pragma once
#include "conv_windows.hpp"

namespace infuse {
namespace detail {

constexpr isize taps_of(const ConvSizes& s) { return s.kernel_height * s.kernel_width; }

// Channels of the result that are computed at once: their filters fill tiles.
constexpr isize spread_channels(const ConvSizes& s) {
  return min(s.out_channels / s.groups, ceil_div(isize(4) * MR, max(taps_of(s), isize(1))));
}

// Lines of the image whose products stay in a quarter of the second level cache.
constexpr isize spread_lines(const ConvSizes& s) {
  const isize line = spread_channels(s) * taps_of(s) * s.width;
  const isize fits = INFUSE_BLOCK_BYTES / 4 / isize(sizeof(float)) / max(line, isize(1));
  return min(max(fits, isize(1)), s.height);
}

// Stores products as [row][column], counted from a row and a column.
struct StoreProducts {
  float* out;
  isize row, col, pitch;
  template <class L>
  INFUSE_INLINE void operator()(vf acc, isize r, isize c, L lanes) const {
    store(out + (r - row) * pitch + c - col, acc, lanes);
  }
};

// The products of one tap and a line of the image go to every `step`th place from `first` on, as far
// as there are any.
INFUSE_INLINE void spread_line(const float* products, isize width, isize step, isize first, isize out,
                               float* line) {
  const isize begin = first < 0 ? ceil_div(-first, step) : 0,
             end = first < out ? min(width, ceil_div(out - first, step)) : 0;
  float* to = line + first + begin * step;
#pragma GCC unroll 4
  for (isize i = begin; i < end; ++i, to += step) *to = products[i];
}

// The lines of one channel of the result that the image's lines [y0, y1) make; products[tap][pixel].
template <class Sink>
INFUSE_NOINLINE void spread_channel(const ConvSizes& s, const float* products, isize y0, isize y1,
                                    isize row, float* line, const Sink& sink) {
  // A copy, as compilers must expect that a result is stored over what a reference leads to.
  const Sink own = sink;
  const isize width = s.width, out = s.out_width, pitch = (y1 - y0) * width;
  const isize end = y1 == s.height ? s.out_height : y1 * s.stride_height - s.pad_top;
  isize col = y0 == 0 ? 0 : max(y0 * s.stride_height - s.pad_top, isize(0)) * out;
  auto zeros = [&](isize behind) {
    sweep(col, behind, [&](isize i, auto l) { own(vf{}, row, i, l); });
    col = max(col, behind);
  };
  for (isize from = y0; from < y1; ++from, products += width)
    for (isize ky = 0; ky < s.kernel_height; ++ky) {
      const isize y = from * s.stride_height - s.pad_top + ky * s.dilation_height;
      if (y < 0 || y >= s.out_height) continue;
      const float* taps = products + ky * s.kernel_width * pitch;
      for (isize kx = 0; kx < s.kernel_width; ++kx)
        spread_line(taps + kx * pitch, width, s.stride_width,
                    kx * s.dilation_width - s.pad_left, out, line);
      zeros(y * out);
      sweep(0, out, [&](isize i, auto l) { own(load(line + i, l), row, col + i, l); });
      col += out;
    }
  zeros(min(end, s.out_height) * out);
}

constexpr isize spread_products(const ConvSizes& s) {
  return spread_channels(s) * taps_of(s) * spread_lines(s) * s.width;
}

}  // namespace detail

// Bytes of scratch that a worker needs for spread.
constexpr isize spread_scratch(const ConvSizes& s) {
  return (s.channels / s.groups * NR + detail::spread_products(s) + s.out_width + 2 * LANES) *
         isize(sizeof(float));
}

// The transposed convolution: (kernel - 1) * dilation < stride along both axes.
template <class Sink>
void spread(Context& ctx, const ConvSizes& s, const float* x, const float* w, const Sink& sink) {
  const isize k = s.channels / s.groups, out = s.out_channels / s.groups, taps = detail::taps_of(s),
             pixels = s.height * s.width, each = detail::spread_channels(s),
             parts = detail::ceil_div(out, max(each, isize(1))), images = s.batch * s.groups;
  if (images <= 0 || out <= 0 || s.out_height <= 0 || s.out_width <= 0) return;
  const auto body = [&](isize begin, isize end, int worker) {
    float* line = (float*)ctx.scratch(worker);
    float* panel = line + detail::ceil_div(s.out_width, LANES) * LANES;
    float* products = panel + k * NR;
    // Windows leave the same places free in every line.
    memset(line, 0, size_t(s.out_width) * sizeof(float));
    for (isize t = begin; t < end; ++t) {
      const isize image = t / parts, g = image % s.groups, m0 = t % parts * each,
                 m1 = min(m0 + each, out), rows = g * out * taps,
                 first = image / s.groups * s.out_channels + g * out;
      const GemmSizes size = {rows + m1 * taps, pixels, k, k};
      for (isize y0 = 0, y1; y0 < s.height || y0 == 0; y0 = max(y1, isize(1))) {
        y1 = min(y0 + detail::spread_lines(s), s.height);
        const isize p0 = y0 * s.width, p1 = y1 * s.width;
        const GemmSizes block = {size.m, p1, k, k};
        for (isize p = p0; p < p1; p += NR) {
          const isize width = min(NR, p1 - p);
          const float* from = x + image * k * pixels + p;
          for (isize c = 0; c < k; ++c, from += pixels) {
            sweep(0, width, [&](isize j, auto l) { store(panel + c * NR + j, load(from + j, l), l); });
            sweep(width, NR, [&](isize j, auto l) { store(panel + c * NR + j, vf{}, l); });
          }
          detail::gemm_rows(block, w, panel, rows + m0 * taps, rows + m1 * taps, p,
                            detail::StoreProducts{products, rows + m0 * taps, p0, p1 - p0});
        }
        for (isize m = m0; m < m1; ++m)
          detail::spread_channel(s, products + (m - m0) * taps * (p1 - p0), y0, y1, first + m, line,
                                 sink);
      }
    }
  };
  const double worth = 1 + double(images * pixels) * double(out * taps * k) / 16384;
  const isize threads = worth < ctx.threads ? isize(worth) : ctx.threads;
  ctx.parallel(images * parts, body, detail::ceil_div(images * parts, threads));
}

}  // namespace infuse
