// Depthwise convolution, channels last: every channel has its own filter.
#pragma once
#include "depthwise_sizes.hpp"
#include "simd.hpp"
#include "threads.hpp"

namespace infuse {

namespace depthwise_detail {

/** One output row of one block of channels. */
struct Row {
  const DepthwiseSizes* shape;
  const float* weights;  // [kh][kw][channels]
  isize out;              // index of the first pixel of the output row
  isize top;              // input row of the first kernel row
  isize first_ky, last_ky;
  isize channels, begin, end;
};

inline Row row_of(const DepthwiseSizes& shape, const float* weights, isize channels, isize index) {
  Row row;
  isize oy = index % shape.out_height;
  row.shape = &shape;
  row.weights = weights;
  row.out = index * shape.out_width;
  row.top = oy * shape.stride_height - shape.pad_top;
  row.first_ky = row.top < 0 ? (-row.top + shape.dilation_height - 1) / shape.dilation_height : 0;
  row.last_ky = shape.kernel_height;
  while (row.last_ky > 0 && row.top + (row.last_ky - 1) * shape.dilation_height >= shape.height)
    --row.last_ky;
  row.channels = channels;
  return row;
}

/** The input lines of a row's kernel rows in an image whose pixels lie one after another. */
struct ImageLines {
  const float* image;
  isize line, pixel;  // floats from one line and one pixel to the next

  INFUSE_INLINE const float* operator()(const Row& row, isize ky) const {
    return image + (row.top + ky * row.shape->dilation_height) * line;
  }
};

inline ImageLines image_lines(const DepthwiseSizes& shape, const float* x, isize index) {
  return {x + index / shape.out_height * shape.height * shape.width * shape.channels,
          shape.width * shape.channels, shape.channels};
}

/** Pixels computed at once: they, one row of taps and one input fit the vector registers. Code for
 * size, which has this several times, takes half. */
constexpr int pixels(int kw) {
#if defined(__OPTIMIZE_SIZE__)
  return kw > 0 ? 4 : 0;
#else
  return LANES == 16 || kw <= 5 ? 8 : 7;
#endif
}

/**
 * P neighbouring pixels of the channels of a row; with Edge some inputs and outputs are absent.
 * lines(row, ky) is where the first pixel of the input line of a kernel row lies.
 */
template <int KW, int S, int P, bool Edge, class Lines, class Sink>
INFUSE_INLINE void neighbours(const Row& row, isize ox, const Lines& lines, const Sink& sink) {
  constexpr int INPUTS = (P - 1) * S + KW;
  const isize channels = row.channels, step = lines.pixel;
  const isize width = row.shape->width, out_width = row.shape->out_width;
  const isize left = ox * S - row.shape->pad_left, corner = left * step;
  const isize first_ky = row.first_ky, last_ky = row.last_ky, out = row.out + ox;
  const float* filter = row.weights + first_ky * KW * channels;
  // Copies, as compilers must expect that a result is stored over what references lead to.
  const Lines from = lines;
  const Sink own = sink;
  sweep(row.begin, row.end, [&](isize c, auto lanes) __attribute__((always_inline)) {
    vf sum[P];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) sum[p] = vf{};
    const float* taps = filter + c;
    for (isize ky = first_ky; ky < last_ky; ++ky) {
      vf tap[KW];
#pragma GCC unroll 8
      for (int kx = 0; kx < KW; ++kx) {
        tap[kx] = load(taps, lanes);
        taps += channels;
      }
      const float* pixel = from(row, ky) + corner + c;
#pragma GCC unroll 32
      for (int q = 0; q < INPUTS; ++q) {
        if (!Edge || (left + q >= 0 && left + q < width)) {
          vf value = load(pixel, lanes);
          INFUSE_HOLD(value);
#pragma GCC unroll 8
          for (int kx = 0; kx < KW; ++kx) {
            const int at = q - kx;
            if (at >= 0 && at % S == 0 && at / S < P)
              sum[at / S] = fma(value, tap[kx], sum[at / S]);
          }
        }
        pixel += step;
      }
    }
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p)
      if (!Edge || ox + p < out_width) own(sum[p], out + p, c, lanes);
  });
}

template <int KW, int S, class Lines, class Sink>
INFUSE_NOINLINE void whole_row(const Row& row, const Lines& lines, const Sink& sink) {
  constexpr int P = pixels(KW);
  const DepthwiseSizes& shape = *row.shape;
  for (isize ox = 0; ox < shape.out_width; ox += P) {
    isize left = ox * S - shape.pad_left;
    bool inside = left >= 0 && left + (P - 1) * S + KW <= shape.width && ox + P <= shape.out_width;
    if (inside)
      neighbours<KW, S, P, false>(row, ox, lines, sink);
    else
      neighbours<KW, S, P, true>(row, ox, lines, sink);
  }
}

/** Blocks of channels that keep all threads busy although there are few rows. */
inline isize channel_blocks(const Context& context, isize rows, isize channels) {
  isize wanted = context.threads > 1 ? (isize(8) * context.threads + rows - 1) / rows : 1;
  isize most = channels / 64;
  return wanted < most ? wanted : most > 1 ? most : 1;
}

template <class Body>
inline void each_row(Context& context, const DepthwiseSizes& shape, const float* weights,
                     isize channels, const Body& body) {
  isize rows = shape.batch * shape.out_height, blocks = channel_blocks(context, rows, channels);
  isize step = round_up((channels + blocks - 1) / blocks, LANES);
  isize work = shape.out_width * shape.kernel_height * shape.kernel_width * step;
  context.parallel(
      rows * blocks,
      [&](isize first, isize last, int) {
        for (isize unit = first; unit < last; ++unit) {
          Row row = row_of(shape, weights, channels, unit % rows);
          row.begin = unit / rows * step;
          row.end = row.begin + step < channels ? row.begin + step : channels;
          if (row.begin < row.end) body(row, unit % rows);
        }
      },
      1 + 65536 / (work + 1));
}

}  // namespace depthwise_detail

/**
 * Convolves x [n, h, w, c] with weights [kh][kw][c]; row = (image, oy, ox), col = channel.
 * KW and STRIDE are shape.kernel_width and shape.stride_width, and shape.dilation_width is 1.
 */
template <int KW, int STRIDE, class Sink>
inline void depthwise(Context& context, const DepthwiseSizes& shape, const float* x,
                      const float* weights, const Sink& sink) {
  using namespace depthwise_detail;
  each_row(context, shape, weights, shape.channels, [&](const Row& row, isize index) {
    whole_row<KW, STRIDE>(row, image_lines(shape, x, index), sink);
  });
}

}  // namespace infuse
