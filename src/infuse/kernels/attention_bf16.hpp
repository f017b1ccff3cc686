// Attention (attention.hpp) whose two products take operands rounded to bfloat16; the softmax stays in float32.
#pragma once
#include "attention.hpp"
#include "gemm_bf16.hpp"
#if defined(INFUSE_BF16_TILES)
#include "attention_tiles.hpp"
#endif

namespace infuse {

namespace attention_detail {

/** Pairs of neighbours: along the size of a head in queries and keys, along the keys in weights and values. */
struct Pairs : ByVectors<Pairs> {
  static constexpr bool FLOATS = false;
  typedef int32_t Word;
  static constexpr isize CHUNK = 64;  // pairs of a row that are rounded at once

  static INFUSE_INLINE isize depth(isize n) { return bf16_pairs(n); }
  static INFUSE_INLINE vf add(vf sum, vi a, vi b) { return detail::dot_pairs(sum, a, b); }
  static INFUSE_INLINE void as_words(float* weights, isize keys) {
    detail::round_row((int32_t*)weights, weights, keys);
  }

  /** Rows of numbers become columns of pairs `step` apart; `held` has room for CHUNK pairs of each. */
  static void turn(const float* from, isize row, isize rows, isize dim, int32_t* to, isize step,
                   float* held) {
    for (isize d = 0; d < dim; d += 2 * CHUNK) {
      const isize width = min(dim - d, 2 * CHUNK);
      for (isize i = 0; i < rows; ++i)
        detail::round_row((int32_t*)held + i * CHUNK, from + i * row + d, width);
      copying::turn_words(to + d / 2 * step, step, held, CHUNK, bf16_pairs(width), rows);
    }
  }

  static void pack_queries(const AttentionShape& shape, const Unit& unit, const HeadRows& q) {
    for (isize row = 0; row < unit.queries; row += ROWS)
      turn(q.at(unit.batch, unit.head, unit.first + row), q.row, min(unit.queries - row, isize(ROWS)),
           shape.dim, (int32_t*)unit.space.q + row * depth(shape.dim), ROWS, unit.space.scores);
  }

  /** Panels [pair of the size][PANEL] of keys, [pair of keys][PANEL] of values. */
  static void pack_block(const AttentionShape& shape, const Unit& unit, const HeadRows& k,
                         const HeadRows& v, KeyBlock* block) {
    const isize kv_head = unit.head / (shape.heads / shape.kv_heads), pairs = depth(block->count);
    const float* keys = k.at(unit.batch, kv_head, block->first);
    const float* values = v.at(unit.batch, kv_head, block->first);
    for (isize j = 0; j < block->count; j += PANEL)
      turn(keys + j * k.row, k.row, min(block->count - j, PANEL), shape.dim,
           (int32_t*)unit.space.k + j * depth(shape.dim), PANEL, unit.space.scores);
    for (isize d = 0; d < shape.value_dim; d += PANEL) {
      int32_t* panel = (int32_t*)unit.space.v + d * pairs;
      for (isize j = 0; j < pairs; ++j) {
        const float* low = values + 2 * j * v.row + d;
        const float* high = 2 * j + 1 < block->count ? low + v.row : nullptr;
        sweep(0, min(shape.value_dim - d, PANEL), [&](isize i, auto lanes) {
          const vi first = half_detail::rounded(load(low + i, lanes));
          const vi second = high ? half_detail::rounded(load(high + i, lanes)) : vi{};
          store(panel + j * PANEL + i, (vi)((vu)first >> 16) | (second & int32_t(0xffff0000)),
                Full{});
        });
      }
    }
    block->k = unit.space.k;
    block->v = unit.space.v;
    block->v_step = PANEL;
    block->v_panel = pairs * PANEL;
  }
};

#if defined(INFUSE_BF16_TILES)
typedef PairsInTiles Rounded;
#else
typedef Pairs Rounded;
#endif

}  // namespace attention_detail

/** attention(), rounded. Few queries stay in float32: they wait for memory, not for products. */
template <class Mask, class Sink>
inline void attention_bf16(Context& context, const AttentionShape& shape, const HeadRows& q,
                           const HeadRows& k, const HeadRows& v, const Mask& mask,
                           const Sink& sink) {
  if (shape.queries <= shape.few)
    attention(context, shape, q, k, v, mask, sink);
  else
    attention<attention_detail::Rounded>(context, shape, q, k, v, mask, sink);
}

}  // namespace infuse
