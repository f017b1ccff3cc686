// Winograd convolution (winograd.hpp) whose tiles and weights are rounded to bfloat16 after their transforms.
//
// With M = 2 the result is off by about 1.6 times what rounded operands without Winograd give, with M = 4 by 5 times.
#pragma once

#include "gemm_bf16.hpp"
#include "winograd.hpp"

namespace infuse {

// Tiles and weights of pairs.
struct WinogradPairs {
  typedef int32_t Word, Weight;

  static constexpr long depth(long c) { return bf16_pairs(c); }
  static INFUSE_INLINE void store(int32_t* to, long c, vf x) {
    detail::store_rounded(to + c / 2, x);
  }
  static INFUSE_NOINLINE void product(const int32_t* a, long pitch, long pairs, long count,
                                      const int32_t* panel, long width, float* out) {
    for (long rows; count > 0; count -= rows, a += rows * pitch, out += rows * NR) {
      rows = detail::tile_rows(count);
      if (rows == MR && width >= NR)
        detail::full_pair_tile(a, pitch, pairs, panel, 0, 0, detail::StoreTile{out});
      else
        detail::edge_pair_tile(a, pitch, pairs, panel, rows, width, out);
    }
  }
};

}  // namespace infuse
