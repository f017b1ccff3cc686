// Matrix multiplication of operands that are split into two bfloat16 each, on tile registers
// (tiles.hpp): float32's range and twice the bits of bfloat16, for three products in place of one.
//
// x is high + low, high = bfloat16(x), low = bfloat16(x - high), off by at most 2^-16 |x|. C sums
// low · high + high · high + high · low in float32; low · low, at most 2^-16 of a product, is left
// out. So an element of C is off by at most 3 · 2^-16 times the sum of its products' magnitudes,
// beside what float32 itself loses. Numbers that bfloat16 does not hold (infinite, NaN, above
// 3.39e38) make NaN of all sums that they are part of.
#pragma once

#include "gemm_bf16.hpp"

namespace infuse {
namespace detail {

// Asked where a kernel is used: headers are read for every target.
template <class>
constexpr bool has_tiles = BF16_TILES;

constexpr isize SPLIT_NUMBERS = 2 * TILE_SIDE;  // that share a block of low and one of high halves

// 16-word blocks of k numbers, low and high ones.
constexpr isize split_blocks(isize k) { return 2 * ceil_div(k, SPLIT_NUMBERS); }

// Up to 32 numbers: their low halves to `to`, their high ones `step` words behind.
INFUSE_INLINE void split_block(int32_t* to, isize step, vf first, vf second) {
  const bfloat16* high = (const bfloat16*)(to + step);
  store_pairs(to + step, first, second);
  store_pairs(to, first - load(high, Full{}), second - load(high + LANES, Full{}));
}

// Numbers of a row as blocks, `step` words from one to the next: low and high halves of 32 after
// another, zeros up to whole blocks.
INFUSE_INLINE void split_row(int32_t* to, const float* from, isize k, isize step = TILE_SIDE) {
  isize p = 0;
#pragma GCC unroll 2
  for (; p + SPLIT_NUMBERS <= k; p += SPLIT_NUMBERS, to += 2 * step)
    split_block(to, step, load(from + p, Full{}), load(from + p + LANES, Full{}));
  if (p == k) return;
  const isize left = k - p;
  const vf first = load(from + p, Tail{int(min(left, isize(LANES)))});
  const vf second = left > LANES ? load(from + p + LANES, Tail{int(left - LANES)}) : vf{};
  split_block(to, step, first, second);
}

}  // namespace detail

// Bytes of scratch that a worker needs for gemm_bf16x2.
constexpr isize gemm_bf16x2_scratch(GemmSizes s) {
  return detail::tiled_gemm_scratch(s.m, detail::split_blocks(s.k), detail::ceil_div(s.n, NR));
}

// C[m][n] = A B with A[m][k] of row stride lda and B packed, k > 0; row and col of the sink count in
// C. Packed as for gemm_bf16 in tiles, each 32 rows of high halves before those of their low ones.
template <class Sink>
void gemm_bf16x2(Context& ctx, GemmSizes s, const float* a, const bfloat16* packed_b,
                 const Sink& sink) {
  static_assert(detail::has_tiles<Sink>, "numbers are split for tile registers");
  if (s.m <= 0 || s.n <= 0) return;
  const auto fill = [&](isize i, int32_t* to) {
    detail::split_row(to, a + i * s.lda, s.k, TILE_WORDS);
  };
  detail::tiled_gemm<SplitPairs>(ctx, s, detail::split_blocks(s.k), fill, packed_b, sink);
}

// The same where value(row, k, lanes) computes A, once for every part of the columns that a thread
// of its own works on.
template <class Value, class Sink>
void gemm_made_bf16x2(Context& ctx, GemmSizes s, const Value& value, const bfloat16* packed_b,
                      const Sink& sink) {
  static_assert(detail::has_tiles<Sink>, "numbers are split for tile registers");
  if (s.m <= 0 || s.n <= 0) return;
  const auto fill = [&](isize i, int32_t* to) {
    detail::made_row(value, i, s.k, [&](isize p, vf first, vf second) {
      detail::split_block(to + p / LANES * TILE_WORDS, TILE_WORDS, first, second);
    });
  };
  detail::tiled_gemm<SplitPairs>(ctx, s, detail::split_blocks(s.k), fill, packed_b, sink);
}

}  // namespace infuse
