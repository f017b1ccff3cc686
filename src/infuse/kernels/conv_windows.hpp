// Windows of an image as rows of a product: where they lie, and products of them in blocks of the
// depth (gemm_blocks.hpp).
//
// x[n][h][w][c], its pixels `pitch` floats apart.
#pragma once

#include "copy.hpp"
#include "gemm.hpp"

namespace infuse {

struct ConvSizes {
  isize batch, height, width, channels;
  isize out_height, out_width, out_channels;
  isize kernel_height, kernel_width;
  isize stride_height, stride_width, dilation_height, dilation_width;
  isize pad_top, pad_left;
  isize groups;
  isize pitch;           // floats from one pixel of x to the next
  bool planar = false;  // x is [batch][channels][height][width]; only where conv_takes_planar
  bool taps = false;    // TAPS also where LINES would do
};

constexpr ConvSizes as_planar(ConvSizes s) {
  s.planar = true;
  return s;
}

constexpr ConvSizes as_taps(ConvSizes s) {
  s.taps = true;
  return s;
}

// How the rows of the product are found.
//   PLAIN     the image is the matrix
//   GATHERED  one pixel a row, some left out
//   TAPS      one segment of k per number of the window; outside the image lies a row of zeros
//   LINES     few channels: lines are copied with their padding, then windows one after another
enum ConvMode { PLAIN, GATHERED, TAPS, LINES };

// Whether conv can read an image whose channels are planes.
constexpr bool conv_takes_planar(const ConvSizes& s) {
  return s.groups == 1 && s.dilation_width == 1 && s.channels < 32;
}

namespace detail {

constexpr ConvMode conv_mode(const ConvSizes& s) {
  const bool point = s.kernel_height == 1 && s.kernel_width == 1 && s.groups == 1 &&
                     s.pad_top == 0 && s.pad_left == 0;
  const bool inside = (s.out_height - 1) * s.stride_height < s.height &&
                      (s.out_width - 1) * s.stride_width < s.width;
  const bool all = s.stride_height == 1 && s.stride_width == 1 && s.out_height == s.height &&
                   s.out_width == s.width;
  if (s.planar) return LINES;
  if (s.taps) return TAPS;
  if (point && inside) return all ? PLAIN : GATHERED;
  return conv_takes_planar(s) && s.kernel_width > 1 ? LINES : TAPS;
}

// Where an output pixel lies.
struct Pixel {
  isize n, y, x;

  Pixel(const ConvSizes& s, isize row)
      : n(row / (s.out_height * s.out_width)),
        y(row / s.out_width % s.out_height),
        x(row % s.out_width) {}

  void next(const ConvSizes& s) {
    if (++x < s.out_width) return;
    x = 0;
    if (++y < s.out_height) return;
    y = 0, ++n;
  }
};

// table[tap * count + i] = where the window of row + i reads tap.
INFUSE_NOINLINE inline void tap_pointers(const ConvSizes& s, const float* x, const float* zeros,
                                         isize row, isize count, const float** table) {
  Pixel at(s, row);
  for (isize i = 0; i < count; ++i, at.next(s)) {
    const float** to = table + i;
    for (isize ky = 0; ky < s.kernel_height; ++ky) {
      const isize y = at.y * s.stride_height - s.pad_top + ky * s.dilation_height;
      const float* line = x + (at.n * s.height + y) * s.width * s.pitch;
      for (isize kx = 0; kx < s.kernel_width; ++kx, to += count) {
        const isize j = at.x * s.stride_width - s.pad_left + kx * s.dilation_width;
        const bool inside =
            (usize)y < (usize)s.height && (usize)j < (usize)s.width;
        *to = inside ? line + j * s.pitch : zeros;
      }
    }
  }
}

// Whether the windows are worth tiles of blocks (gemm_blocks.hpp).
constexpr bool conv_blocks(const ConvSizes& s) {
  const isize depth = s.kernel_height * s.kernel_width * s.channels;
  return s.groups == 1 && s.channels >= BLOCK_STEP &&
         takes_blocks({BLOCK_ROWS, s.out_channels, depth, s.pitch});
}

// Rows that pass by before the next panels: those of gemm, of which numbers lie in many windows.
constexpr isize conv_block_chunk(const ConvSizes& s) {
  return block_chunk(s.stride_height * s.stride_width * s.channels);
}

// Rows whose pointers lie in a table, those of a segment one after another.
struct RowsInTable {
  const float* const* table;
  isize first, rows;

  INFUSE_INLINE isize step() const { return rows; }
  INFUSE_INLINE const float* const* at(isize row, isize, const float**) const {
    return table + (row - first);
  }
};

template <class Sink>
inline void conv_taps_in_blocks(const ConvSizes& s, const float* x, const float* w, isize m0,
                                isize m1, isize p0, isize p1, char* scratch, const Sink& sink) {
  const isize taps = s.kernel_height * s.kernel_width, chunk = conv_block_chunk(s);
  const DepthBlocks depth(taps, s.channels);
  float* zeros = (float*)scratch;
  memset(zeros, 0, size_t(s.channels) * sizeof(float));
  const float** table = (const float**)(zeros + ceil_div(s.channels, 16) * 16);
  float* sums = (float*)(table + ceil_div(taps * min(m1 - m0, chunk), 8) * 8);
  const isize whole = taps * s.channels * NR * isize(sizeof(float));
  const bool passes = (p1 - p0) * whole > INFUSE_BLOCK_BYTES / 2;
  const isize parts = ceil_div(m1 - m0, chunk), tiles = ceil_div(m1 - m0, BLOCK_ROWS);
  for (isize i = 0; i < parts; ++i) {
    const isize row = m0 + split(tiles, parts, i) * BLOCK_ROWS,
               end = min(m0 + split(tiles, parts, i + 1) * BLOCK_ROWS, m1);
    tap_pointers(s, x, zeros, row, end - row, table);
    block_part(RowsInTable{table, row, end - row}, depth, w, row, end, p0, p1, p0 * NR,
               s.out_channels, sums, passes || i == 0, sink);
  }
}

constexpr isize taps_in_blocks_bytes(const ConvSizes& s) {
  const isize taps = s.kernel_height * s.kernel_width,
             rows = min(s.batch * s.out_height * s.out_width, conv_block_chunk(s)),
             word = sizeof(float);
  const isize sums = DepthBlocks(taps, s.channels).count > 1 ? rows * BLOCK_COLUMNS : 0;
  return ceil_div(s.channels, 16) * 64 + (ceil_div(taps * rows, 8) * 8) * isize(sizeof(float*)) +
         sums * word;
}

}  // namespace detail
}  // namespace infuse
