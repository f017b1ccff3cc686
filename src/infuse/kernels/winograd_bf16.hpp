// Winograd convolution (winograd.hpp) whose tiles and weights are rounded to bfloat16 after their transforms.
//
// The root of the mean square of its errors is that of rounded operands without Winograd 1.45 times for 2 x 2 results,
// 2.4 times for 2 x 4 and 4.2 times for 4 x 4.
#pragma once

#include "gemm_bf16.hpp"
#include "winograd.hpp"

namespace infuse {

// Tiles and weights of pairs.
struct WinogradPairs {
  typedef int32_t Word, Weight;
#if defined(INFUSE_BF16_TILES)
  typedef TileRegisters Registers;
  static constexpr isize ROWS_BEHIND = TILE_SIDE - 1;
#else
  typedef NoRegisters Registers;
  static constexpr isize ROWS_BEHIND = 0;
#endif

  static constexpr isize depth(isize c) { return panel_words(bf16_pairs(c), BF16_TILES); }
  static INFUSE_INLINE void store(int32_t* to, isize c, vf x) {
    detail::store_rounded(to + c / 2, x);
  }
  // Behind the vectors of c channels that were stored.
  static INFUSE_INLINE void fill_up(int32_t* to, isize c) {
    if constexpr (BF16_TILES) infuse::fill_up(to, round_up(c, LANES) / 2);
  }
  static INFUSE_NOINLINE void product(const int32_t* a, isize pitch, isize pairs, isize count,
                                      const int32_t* panel, isize width, float* out) {
#if defined(INFUSE_BF16_TILES)
    if (detail::takes_tiles(count, pairs)) return tiled(a, pitch, pairs, panel, count, width, out);
#endif
    for (isize rows; count > 0; count -= rows, a += rows * pitch, out += rows * NR) {
      rows = detail::tile_rows(count);
      if (rows == MR && width >= NR)
        detail::full_pair_tile(a, pitch, pairs, panel, 0, 0, detail::StoreTile{out});
      else
        detail::edge_pair_tile(a, pitch, pairs, panel, rows, width, out);
    }
  }

#if defined(INFUSE_BF16_TILES)
 private:
  static void tiled(const int32_t* a, isize pitch, isize pairs, const int32_t* panel, isize count,
                    isize width, float* out) {
    alignas(64) float last[TILED_ROWS * NR];
    const TiledRows rows = strided_rows(a, pitch * 4);
    for (isize i = 0; i < count; i += TILED_ROWS, out += TILED_ROWS * NR) {
      const isize left = count - i;
      float* to = left < TILED_ROWS ? last : out;
      tile_product<TiledPairs>(rows.from(i), panel, pairs / TILE_SIDE, left, width, to);
      if (to == last) memcpy(out, last, size_t(left * NR) * sizeof(float));
    }
  }
#endif
};

}  // namespace infuse
