// Convolution of channels-last images in operands rounded to bfloat16.
//
// The window of a pixel is copied to a row of pairs, rounded. Numbers that lie side by side in the image form a
// segment, which ends with half a pair where their count is odd: a line of the window, or the channels of a group where
// a line has gaps. Weights are packed as [group][panel][pair][NR] pairs in the order of the segments.
#pragma once

#include "conv.hpp"
#include "conv_tiles.hpp"
#include "gemm_bf16.hpp"

namespace infuse {

namespace detail {

// How the windows of a convolution are cut: `count` segments of `width` numbers, `in_line` of them in a line.
struct Segments {
  isize count, in_line, width, pairs;
};

constexpr Segments conv_segments(const ConvSizes& s) {
  const bool whole = s.groups == 1 && s.dilation_width == 1;
  const isize in_line = whole ? 1 : s.kernel_width,
             width = (whole ? s.kernel_width : 1) * (s.channels / s.groups);
  const isize pairs = bf16_pairs(width);
  return {s.kernel_height * in_line, in_line, width,
          whole && BF16_TILES ? round_up(pairs, TILE_SIDE) : pairs};
}

// One segment of a line: `steps` columns of the image from x on, those outside of it zeros.
template <class T>
INFUSE_INLINE void round_segment(const ConvSizes& s, const T* line, isize x, isize steps,
                                 const Segments& cut, T* held, int32_t* to) {
  const bool apart = steps > 1 && s.pitch != s.channels;
  if (x >= 0 && x + steps <= s.width && !apart)
    return round_row(to, line + x * s.pitch, cut.width);
  const isize c = cut.width / steps, first = min(max(-x, isize(0)), steps);
  const isize last = max(min(s.width - x, steps), first);
  memset(held, 0, size_t(cut.width) * sizeof(T));
  const isize pixels = apart ? 1 : last - first;
  for (isize i = first; i < last; i += pixels)
    memcpy(held + i * c, line + (x + i) * s.pitch, size_t(pixels * c) * sizeof(T));
  round_row(to, held, cut.width);
}

// Writes the windows of one pixel after another, from `at` on. The vector that ends a segment may go past it: the next
// one, or the next row, is written over that.
template <class T>
struct WindowRows {
  const ConvSizes& s;
  Segments cut;
  const T* x;
  T* held;
  Pixel at;

  INFUSE_INLINE void operator()(int32_t* to) {
    const isize steps = cut.in_line == 1 ? s.kernel_width : 1;
    for (isize ky = 0; ky < s.kernel_height; ++ky) {
      const isize y = at.y * s.stride_height - s.pad_top + ky * s.dilation_height;
      const T* line = x + (at.n * s.height + y) * s.width * s.pitch;
      for (isize i = 0; i < cut.in_line; ++i, to += cut.pairs)
        if ((usize)y < (usize)s.height)
          round_segment(s, line, at.x * s.stride_width - s.pad_left + i * s.dilation_width, steps,
                        cut, held, to);
        else
          memset(to, 0, size_t(cut.pairs) * sizeof(int32_t));
    }
    at.next(s);
  }
};

// Bytes of the segment that is put together before it is rounded.
constexpr isize held_bytes(const ConvSizes& s) {
  return ceil_div(conv_segments(s).width, 16) * 16 * isize(sizeof(float));
}

constexpr PhasedImage phased_pairs(const ConvSizes& s) {
  const isize depth = s.channels / s.groups;
  return {{s.height, s.out_height, s.kernel_height, s.stride_height, s.dilation_height, s.pad_top},
          {s.width, s.out_width, s.kernel_width, s.stride_width, s.dilation_width, s.pad_left},
          depth * 2,
          depth * 2 % TILE_BLOCK != 0 && s.groups == 1};
}

constexpr bool takes_phases(const ConvSizes& s) {
  return takes_tiles(s.batch * s.out_height * s.out_width, 1) && phased_pairs(s).worth();
}

// A convolution of windows that registers read in place: fill(to, from, count) writes numbers of
// pixels side by side as registers take them.
template <class Unit, class T, class Fill, class Sink>
void conv_phases(Context& ctx, ConvSizes s, const PhasedImage& image, const T* x,
                 const bfloat16* packed_w, const Fill& fill, const Sink& sink) {
  const int32_t* w = (const int32_t*)packed_w;
  const isize own = s.out_channels / s.groups, depth = s.channels / s.groups;
  const isize panels = ceil_div(own, NR);
  const isize area = s.out_height * s.out_width;
  const auto part = [&](isize m0, isize m1, isize p0, isize p1, int worker) {
    char* scratch = (char*)ctx.scratch(worker);
    for (isize p = p0, end; p < p1; p = end) {
      const isize g = p / panels;
      end = min(p1, (g + 1) * panels);
      const isize n = (g + 1) * own, col = g * own + p % panels * NR;
      each_image(image, m0, m1, [&](isize number, isize first, isize last) {
        const T* plane = x + number * s.height * s.width * s.pitch + g * depth;
        phased_part<Unit>(
            image, scratch, w, first, last, p, end, n - col,
            [&](char* to, isize y, isize at, isize count) {
              const T* from = plane + (y * s.width + at) * s.pitch;
              if (s.pitch == depth) return fill((int32_t*)to, from, count * depth);
              for (isize i = 0; i < count; ++i, to += image.bytes, from += s.pitch)
                fill((int32_t*)to, from, depth);
            },
            [&](char* to, isize count) { memset(to, 0, size_t(count * image.bytes)); },
            [&](const int32_t* sums, isize count, isize row, isize panel) {
              const isize at = col + (panel - p) * NR;
              drain((const float*)sums, count, number * area + row, at, n, sink);
            });
      });
    }
  };
  const isize k = image.blocks() * TILE_BLOCK / 2;
  tiled_parallel(ctx, s.batch * area, conv_panels(s), k, s.out_width, part);
}

}  // namespace detail

// Bytes of scratch that a worker needs for conv_bf16.
constexpr isize conv_bf16_scratch(const ConvSizes& s) {
  if (detail::takes_phases(s)) return detail::phased_pairs(s).scratch();
  const detail::Segments cut = detail::conv_segments(s);
  const isize panels = detail::ceil_div(s.out_channels / s.groups, NR);
  const isize m = s.batch * s.out_height * s.out_width, pairs = cut.count * cut.pairs;
  // The vector that ends the last segment of the last row may go past it.
  return detail::held_bytes(s) + 64 +
         (detail::takes_tiles(m, pairs) ? detail::tiled_bytes(m, detail::gemm_pitch(pairs), panels)
                                 : detail::pair_bytes(m, pairs, panels));
}

// As conv() of conv.hpp, but for weights packed in pairs; not for planar images. T: float, or
// bfloat16 of an image that is rounded already.
template <class T, class Sink>
void conv_bf16(Context& ctx, ConvSizes s, const T* x, const bfloat16* packed_w,
               const Sink& sink) {
  const detail::Segments cut = detail::conv_segments(s);
  const isize m = s.batch * s.out_height * s.out_width, pairs = cut.count * cut.pairs,
             own = s.out_channels / s.groups;
  const bool tiled = detail::takes_tiles(m, pairs);
  const isize panels = detail::ceil_div(own, NR), pitch = detail::gemm_pitch(pairs);
  const isize chunk =
      tiled ? detail::tiled_chunk(m, pitch, panels) : detail::pair_chunk(pairs, panels);
  if (m <= 0 || s.out_channels <= 0) return;
  const int32_t* w = (const int32_t*)packed_w;
  if constexpr (BF16_TILES)
    if (detail::takes_phases(s))
      return detail::conv_phases<TiledPairs>(
          ctx, s, detail::phased_pairs(s), x, packed_w,
          [](int32_t* to, const T* from, isize count) { detail::round_row(to, from, count); }, sink);
  detail::gemm_parallel(
      ctx, m, detail::conv_panels(s), 2 * pairs,
      [&](isize m0, isize m1, isize p0, isize p1, int worker) {
        T* held = (T*)ctx.scratch(worker);
        int32_t* rows = (int32_t*)(ctx.scratch(worker) + detail::held_bytes(s));
        for (isize p = p0, end; p < p1; p = end) {
          const isize g = p / panels;
          end = min(p1, (g + 1) * panels);
          detail::WindowRows<T> fill = {s, cut, x + g * (s.channels / s.groups), held, {s, m0}};
          const auto windows = [&](isize row, isize last) {
            for (isize i = 0; i < last - row; ++i) fill(rows + i * pitch);
            return rows;
          };
          const isize col = g * own + p % panels * NR, n = (g + 1) * own;
          if constexpr (BF16_TILES)
            if (tiled) {
              const auto whole = [&](isize row, isize last) {
                for (isize i = 0; i < last - row; ++i) {
                  fill(rows + i * pitch);
                  fill_up(rows + i * pitch, pairs);
                }
                return strided_rows(rows, pitch * 4);
              };
              detail::tiled_pair_part<TiledPairs>(detail::tiled_blocks(pairs), whole, w, m0, m1, p,
                                                  end, col, n, {chunk}, sink);
              continue;
            }
          detail::pair_part(pairs, pitch, windows, w, m0, m1, p, end, col, n, chunk, sink);
        }
      });
}

}  // namespace infuse
