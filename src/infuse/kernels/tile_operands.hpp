// Computed operands as tile registers take them (tiles.hpp), rounded to bfloat16 (TiledPairs) or
// split into two each (SplitPairs, gemm_bf16x2.hpp).
#pragma once
#include "gemm_bf16x2.hpp"
#include "transpose.hpp"

namespace infuse {
namespace detail {

template <class Products>
struct TileOperands {
  static constexpr bool SPLITS = Products::BLOCKS == 2;
  static constexpr isize CHUNK = 64 * Products::BLOCKS;  // words of a row that are made at once
  static constexpr isize HELD = TILE_SIDE * CHUNK;       // words that `columns` needs

  /** Words that n numbers along k become: whole blocks. */
  static constexpr isize words(isize n) {
    return Products::BLOCKS * panel_words(bf16_pairs(n), true);
  }

  /** Numbers of a row as blocks of words, `step` words from one to the next. */
  static INFUSE_INLINE void row(int32_t* to, const float* from, isize n, isize step = TILE_SIDE) {
    if constexpr (SPLITS)
      split_row(to, from, n, step);
    else
      round_row(to, from, n, step);
  }

  /**
   * Up to 16 columns of `size` numbers side by side, `step` from one column to the next, become one
   * half of a panel.
   */
  static void columns(const float* from, isize step, isize count, isize size, int32_t* to,
                      int32_t* held) {
    constexpr isize numbers = 2 * CHUNK / Products::BLOCKS;
    for (isize d = 0; d < size; d += numbers) {
      const isize width = min(size - d, numbers);
      for (isize i = 0; i < count; ++i) row(held + i * CHUNK, from + i * step + d, width);
      for (isize p = 0; p < words(width); p += TILE_SIDE, to += 2 * TILE_WORDS) {
        const isize block = SPLITS ? p ^ TILE_SIDE : p;  // panels have high halves first
        copying::turn_words(to, TILE_SIDE, held + block, CHUNK, TILE_SIDE, count);
      }
    }
  }

  /** The upper halves of two vectors of words, side by side. */
  static INFUSE_INLINE vi joined(vi first, vi second) {
    return (vi)((vu)first >> 16) | (second & int32_t(0xffff0000));
  }

  /** Rows 2 · pair and 2 · pair + 1, the second perhaps none, become words of a panel's columns. */
  static INFUSE_INLINE void pair_of_rows(const float* low, const float* high, isize width, isize pair,
                                         int32_t* panel) {
    const isize block = pair & -TILE_SIDE;
    int32_t* to = panel + (pair - block + block * 2 * Products::BLOCKS) * TILE_SIDE;
    sweep(0, width, [&](isize i, auto lanes) {
      const vf x = low ? load(low + i, lanes) : vf{}, y = high ? load(high + i, lanes) : vf{};
      const vi first = half_detail::rounded(x), second = half_detail::rounded(y);
      store(to + i * TILE_SIDE, joined(first, second), Full{});
      if constexpr (SPLITS) {
        const int32_t upper = int32_t(0xffff0000);
        const vi rest = half_detail::rounded(x - as_float(first & upper));
        const vi other = half_detail::rounded(y - as_float(second & upper));
        store(to + i * TILE_SIDE + 2 * TILE_WORDS, joined(rest, other), Full{});
      }
    });
  }

  /** `count` rows, `step` apart, of up to 32 numbers side by side become a panel. */
  static void rows(const float* from, isize step, isize count, isize width, int32_t* panel) {
    const isize pairs = words(count) / Products::BLOCKS;
    for (isize j = 0; j < pairs; ++j) {
      const float* low = 2 * j < count ? from + 2 * j * step : nullptr;
      const float* high = 2 * j + 1 < count ? from + (2 * j + 1) * step : nullptr;
      pair_of_rows(low, high, width, j, panel);
    }
  }
};

}  // namespace detail
}  // namespace infuse
