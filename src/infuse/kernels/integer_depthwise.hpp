// Depthwise convolution of 8-bit integers, channels last, summed up in 32 bits.
//
// Rows of the window are taken H at a time: their elements at one column and channel fill a lane, which
// all windows over that column share. Weights are packed as [ceil(kh / H)][kw][channels][GROUP].
#pragma once
#include "depthwise_sizes.hpp"
#include "integer_layouts.hpp"
#include "threads.hpp"
#include "windows.hpp"

namespace infuse {

namespace integer_detail {

/** One line of the result and where it reads. */
struct ChannelLine {
  isize out;             // number of its first pixel
  isize begin, end;      // channels
  const void* lines[16];  // for each row of the window its first pixel
};

/** The elements of H rows at one column as lanes. */
template <class Layout, int H, class T, class L>
INFUSE_INLINE vi column(const T* const* lines, isize at, int zero, L lanes) {
  vi all = {};
#pragma GCC unroll 4
  for (int y = 0; y < H; ++y) {
    vi x = load_wide(lines[y] + at, lanes);
    if (Layout::GROUP == 2) {
      x = x - zero;
      all |= y == 0 ? x & 0xffff : x << 16;
    } else {
      if (SIGNED<T>) x &= 255;
      if (FLIP<T> != 0) x ^= FLIP<T>;
      all |= x << (8 * y);
    }
  }
  return all;
}

/** The same where nothing is. */
template <class Layout, class T>
INFUSE_INLINE vi no_column(int zero) {
  const int one = Layout::template nothing<T>(zero);
  return splat(Layout::GROUP == 2 ? 0 : int32_t(uint32_t(one) * 0x01010101u));
}

/** The elements of H rows at one column as lanes of two vectors, of a layout that multiplies bytes. */
template <int H, class T>
INFUSE_INLINE void two_columns(const T* const* lines, isize at, vi (&to)[2]) {
  typedef uint8_t part __attribute__((vector_size(8)));
  typedef int16_t pairs __attribute__((vector_size(16)));
  static_assert(sizeof(T) == 1, "they are bytes");
  part row[4] = {};
#pragma GCC unroll 4
  for (int y = 0; y < H; ++y) memcpy(&row[y], lines[y] + at, sizeof(part));
  const auto mixed = [](part a, part b) __attribute__((always_inline)) {
    return (pairs)__builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
  };
  const pairs low = mixed(row[0], row[1]), high = mixed(row[2], row[3]);
  const pairs first = __builtin_shufflevector(low, high, 0, 8, 1, 9, 2, 10, 3, 11);
  const pairs second = __builtin_shufflevector(low, high, 4, 12, 5, 13, 6, 14, 7, 15);
  memcpy(&to[0], &first, sizeof first), memcpy(&to[1], &second, sizeof second);
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) to[v] ^= int32_t(uint32_t(FLIP<T>) * 0x01010101u);
}

/** `neighbours` of the 2 · LANES channels from c on. */
template <class Layout, int H, int KW, int S, int P, bool Edge, class T, class Sink>
INFUSE_INLINE void two_neighbours(const DepthwiseSizes& s, const ChannelLine& line, isize ox, isize c,
                                  int zero, const typename Layout::Right* weights,
                                  const int32_t* sums, const Sink& sink) {
  const isize left = ox * S - s.pad_left;
  vi sum[P][2];
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p)
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v)
      sum[p][v] = load(sums + c + v * LANES, Full{}) * splat(-Layout::template excess<T>(zero));
  const int32_t* taps = (const int32_t*)weights + c;
  for (isize y = 0; y < s.kernel_height; y += H) {
    vi tap[KW][2];
#pragma GCC unroll 8
    for (int kx = 0; kx < KW; ++kx, taps += s.channels)
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) tap[kx][v] = load(taps + v * LANES, Full{});
    const T* rows[H];
#pragma GCC unroll 4
    for (int i = 0; i < H; ++i) rows[i] = (const T*)line.lines[y + i];
#pragma GCC unroll 32
    for (int q = 0; q < (P - 1) * S + KW; ++q) {
      vi value[2];
      if (!Edge || (left + q >= 0 && left + q < s.width))
        two_columns<H>(rows, (left + q) * s.channels + c, value);
      else
        value[0] = value[1] = no_column<Layout, T>(zero);
#pragma GCC unroll 8
      for (int kx = 0; kx < KW; ++kx) {
        const int at = q - kx;
        if (at < 0 || at % S != 0 || at / S >= P) continue;
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v)
          sum[at / S][v] = Layout::add(sum[at / S][v], value[v], tap[kx][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p)
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v)
      if (!Edge || ox + p < s.out_width)
        sink(sum[p][v], line.out + ox + p, c + v * LANES, Full{});
}

/** P neighbouring pixels of the channels of a line; with Edge some inputs and outputs are absent.
 */
template <class Layout, int H, int KW, int S, int P, bool Edge, class T, class Sink>
INFUSE_INLINE void neighbours(const DepthwiseSizes& s, const ChannelLine& line, isize ox, int zero,
                              const typename Layout::Right* weights, const int32_t* sums,
                              const Sink& sink) {
  constexpr int INPUTS = (P - 1) * S + KW;
  const isize left = ox * S - s.pad_left;
  isize first = line.begin;
  if constexpr (Layout::BY_LANE && LANES == 4) {
    // Copies, as compilers must expect that a byte is stored over what a reference leads to.
    const Sink own = sink;
    const DepthwiseSizes sizes = s;
    const ChannelLine lines = line;
    for (; first + 2 * LANES <= lines.end; first += 2 * LANES)
      two_neighbours<Layout, H, KW, S, P, Edge, T>(sizes, lines, ox, first, zero, weights, sums,
                                                   own);
  }
  sweep(first, line.end, [&](isize c, auto lanes) __attribute__((always_inline)) {
    vi sum[P];
    vi start = {};
    if (Layout::GROUP == 4)
      start = load(sums + c, lanes) * splat(-Layout::template excess<T>(zero));
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) sum[p] = start;
    const int32_t* taps = (const int32_t*)weights + c;
    for (isize y = 0; y < s.kernel_height; y += H) {
      vi tap[KW];
#pragma GCC unroll 8
      for (int kx = 0; kx < KW; ++kx, taps += s.channels) tap[kx] = load(taps, lanes);
      const T* rows[H];
#pragma GCC unroll 4
      for (int i = 0; i < H; ++i) rows[i] = (const T*)line.lines[y + i];
#pragma GCC unroll 32
      for (int q = 0; q < INPUTS; ++q) {
        const bool inside = !Edge || (left + q >= 0 && left + q < s.width);
        const vi value = inside ? column<Layout, H>(rows, (left + q) * s.channels + c, zero, lanes)
                                : no_column<Layout, T>(zero);
#pragma GCC unroll 8
        for (int kx = 0; kx < KW; ++kx) {
          const int at = q - kx;
          if (at >= 0 && at % S == 0 && at / S < P)
            sum[at / S] = Layout::add(sum[at / S], value, tap[kx]);
        }
      }
    }
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p)
      if (!Edge || ox + p < s.out_width) sink(sum[p], line.out + ox + p, c, lanes);
  });
}

template <class Layout, int H, int KW, int S, class T, class Sink>
INFUSE_NOINLINE void whole_line(const DepthwiseSizes& s, const ChannelLine& line, int zero,
                                const typename Layout::Right* weights, const int32_t* sums,
                                const Sink& sink) {
  constexpr int P = LANES == 16 && S == 1 ? 8 : 4;
  for (isize ox = 0; ox < s.out_width; ox += P) {
    const isize left = ox * S - s.pad_left;
    const bool inside = left >= 0 && left + (P - 1) * S + KW <= s.width && ox + P <= s.out_width;
    if (inside)
      neighbours<Layout, H, KW, S, P, false, T>(s, line, ox, zero, weights, sums, sink);
    else
      neighbours<Layout, H, KW, S, P, true, T>(s, line, ox, zero, weights, sums, sink);
  }
}

}  // namespace integer_detail

/** Bytes of scratch: a line of zero points. */
inline isize integer_depthwise_scratch(isize w, isize c) { return w * c; }

/**
 * Convolves x − zero [n, h, w, c] with filters of one channel each; row = (image, oy, ox), col = channel.
 * KW, STRIDE are shape.kw and shape.stride_w; shape.dil_w is 1, shape.kh at most 16 - H.
 */
template <class Layout, int H, int KW, int STRIDE, class T, class Sink>
inline void integer_depthwise(Context& context, const DepthwiseSizes& shape, const T* x,
                              const T* zero, const typename Layout::Right* weights,
                              const int32_t* sums, const Sink& sink) {
  using namespace integer_detail;
  const DepthwiseSizes s = shape;
  const int off = zero ? *zero : 0;
  const isize rows = s.batch * s.out_height, most = s.channels / (4 * LANES);
  const isize wanted = context.threads > 1 ? (isize(4) * context.threads + rows - 1) / rows : 1;
  const isize blocks = wanted < most ? wanted : most > 1 ? most : 1;
  const isize step = round_up((s.channels + blocks - 1) / blocks, LANES);
  context.parallel(
      rows * blocks,
      [&](isize first, isize last, int worker) {
        T* blank = (T*)context.scratch(worker);
        memset(blank, off, size_t(s.width * s.channels));
        for (isize unit = first; unit < last; ++unit) {
          const isize row = unit % rows, begin = unit / rows * step;
          ChannelLine line;
          line.out = row * s.out_width, line.begin = begin,
          line.end = begin + step < s.channels ? begin + step : s.channels;
          const T* image = x + row / s.out_height * s.height * s.width * s.channels;
          for (isize ky = 0; ky < (s.kernel_height + H - 1) / H * H; ++ky) {
            const isize y =
                row % s.out_height * s.stride_height - s.pad_top + ky * s.dilation_height;
            line.lines[ky] = ky < s.kernel_height && y >= 0 && y < s.height
                                 ? image + y * s.width * s.channels
                                 : blank;
          }
          if (line.begin < line.end)
            whole_line<Layout, H, KW, STRIDE, T>(s, line, off, weights, sums, sink);
        }
      },
      1 + 65536 / (s.out_width * s.kernel_height * s.kernel_width * step + 1));
}

/** The same for windows over any number of axes; weights [taps, c] as 16-bit integers. */
template <class T, class Sink>
inline void integer_depthwise_any(Context& context, const Windows& shape, const T* x, const T* zero,
                                  const int16_t* weights, const Sink& sink) {
  using namespace window_detail;
  const isize all = outputs(shape), pixels = inputs(shape), count = taps(shape);
  const int off = zero ? *zero : 0;
  context.parallel(
      shape.n * all,
      [&](isize begin, isize end, int) {
        for (isize row = begin; row < end; ++row) {
          const Place p = place(shape, row % all);
          const T* image = x + row / all * pixels * shape.c;
          sweep(0, shape.c, [&](isize c, auto lanes) {
            vi sum = {};
            each_tap(shape, p, [&](isize tap, isize pixel, isize) {
              sum += (load_wide(image + pixel * shape.c + c, lanes) - off) *
                     load_wide(weights + tap * shape.c + c, lanes);
            });
            sink(sum, row, c, lanes);
          });
        }
      },
      1 + window_detail::GRAIN / (count * shape.c + 1));
}

}  // namespace infuse
