// Chains (chain.hpp) whose 1 x 1 convolutions split their operands into two bfloat16 each.
#pragma once

#include "chain.hpp"
#include "gemm_bf16x2.hpp"

namespace infuse {

// Rows are split some at a time, beside the band that they come from.
struct SplitProducts {
  typedef bfloat16 Weight;
  static constexpr isize ROWS = 2 * TILED_ROWS;

  static constexpr isize bytes(isize k) {
    return detail::split_blocks(k) * detail::TILE_BLOCK * ROWS;
  }

  template <class Sink>
  static INFUSE_INLINE void part(GemmSizes s, const float* a, const bfloat16* packed_b, isize m0,
                                 char* held, const Sink& sink) {
    static_assert(detail::has_tiles<Sink>, "numbers are split for tile registers");
    const auto fill = [&](isize i, int32_t* to) {
      detail::split_row(to, a + i * s.lda, s.k, TILE_WORDS);
    };
    detail::filled_part<SplitPairs>(detail::split_blocks(s.k), fill, packed_b, m0, s.m, 0,
                                    detail::ceil_div(s.n, NR), s.n, (int32_t*)held, {ROWS}, sink);
  }
};

}  // namespace infuse
