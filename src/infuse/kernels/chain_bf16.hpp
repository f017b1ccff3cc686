// Chains (chain.hpp) whose 1 x 1 convolutions round their operands to bfloat16.
#pragma once

#include "chain.hpp"
#include "gemm_bf16.hpp"

namespace infuse {

// Rows are rounded some at a time, beside the band that they come from.
struct PairProducts {
  typedef bfloat16 Weight;
  static constexpr isize ROWS = 2 * TILED_ROWS;

  static constexpr isize bytes(isize k) {
    const isize pairs = bf16_pairs(k);
    return max(detail::tiled_blocks(pairs) * TILE_SIDE * ROWS,
               detail::gemm_pitch(pairs) * (ROWS + MR)) * 4;
  }

  template <class T, class Sink>
  static INFUSE_INLINE void part(GemmSizes s, const T* a, const bfloat16* packed_b, isize m0,
                                 char* held, const Sink& sink) {
    using namespace detail;
    const isize pairs = bf16_pairs(s.k), panels = ceil_div(s.n, NR), pitch = gemm_pitch(pairs);
    int32_t* start = (int32_t*)held;
    if constexpr (BF16_TILES)
      if (takes_tiles(s.m - m0, pairs)) {
        const auto fill = [&](isize i, int32_t* to) {
          round_row(to, a + i * s.lda, s.k, TILE_WORDS);
        };
        return filled_part<TiledPairs>(tiled_blocks(pairs), fill, packed_b, m0, s.m, 0, panels, s.n,
                                       start, {ROWS}, sink);
      }
    const auto rows = [&](isize row, isize end) {
      for (isize i = row; i < end; ++i) round_row(start + (i - row) * pitch, a + i * s.lda, s.k);
      return start;
    };
    pair_part(pairs, pitch, rows, (const int32_t*)packed_b, m0, s.m, 0, panels, 0, s.n, ROWS, sink);
  }
};

}  // namespace infuse
