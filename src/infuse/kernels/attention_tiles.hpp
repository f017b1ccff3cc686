// Attention in bfloat16 (attention_bf16.hpp) whose products are those of tile registers.
#pragma once
#include "attention.hpp"
#include "gemm_bf16.hpp"

namespace infuse {

namespace attention_detail {

/** Rows of pairs for queries and weights, panels of tiles.hpp for keys and values. */
struct PairsInTiles {
  typedef int32_t Word;
  typedef TileRegisters Registers;
  static constexpr long TOGETHER = TILED_ROWS;
  static constexpr long CHUNK = 64;  // pairs of a row that are rounded at once

  static INFUSE_INLINE long words(long n) { return panel_words(bf16_pairs(n), true); }
  static INFUSE_INLINE void as_words(float* weights, long keys) {
    detail::round_row((int32_t*)weights, weights, keys);
  }

  static void pack_queries(const AttentionShape& shape, const Unit& unit, const HeadRows& q) {
    const float* from = q.at(unit.batch, unit.head, unit.first);
    for (long i = 0; i < unit.queries; ++i)
      detail::round_row((int32_t*)unit.space.q + i * words(shape.dim), from + i * q.row, shape.dim);
  }

  /** Up to 16 keys become columns of one half of a panel, their size lies along its words. */
  static void turn(const float* from, long row, long rows, long dim, int32_t* to, int32_t* held) {
    for (long d = 0; d < dim; d += 2 * CHUNK) {
      const long width = min(dim - d, 2 * CHUNK);
      for (long i = 0; i < rows; ++i)
        detail::round_row(held + i * CHUNK, from + i * row + d, width);
      for (long p = 0; p < words(width); p += TILE_SIDE, to += 2 * TILE_WORDS)
        copying::turn_block<uint32_t>((uint32_t*)to, TILE_SIDE, (const uint32_t*)held + p, CHUNK,
                                      TILE_SIDE, rows);
    }
  }

  /** Two rows of values, the second perhaps none, become a word of each of their columns. */
  static void join(const float* low, const float* high, long width, int32_t* to) {
    sweep(0, width, [&](long i, auto lanes) {
      const vi first = low ? half_detail::rounded(load(low + i, lanes)) : vi{};
      const vi second = high ? half_detail::rounded(load(high + i, lanes)) : vi{};
      store(to + i * TILE_SIDE, (vi)((vu)first >> 16) | (second & int32_t(0xffff0000)), Full{});
    });
  }

  static void pack_block(const AttentionShape& shape, const Unit& unit, const HeadRows& k,
                         const HeadRows& v, KeyBlock* block) {
    const long kv_head = unit.head / (shape.heads / shape.kv_heads), count = block->count;
    const float* keys = k.at(unit.batch, kv_head, block->first);
    const float* values = v.at(unit.batch, kv_head, block->first);
    for (long j = 0; j < count; j += TILE_SIDE) {
      int32_t* panel = (int32_t*)unit.space.k + j / PANEL * PANEL * words(shape.dim);
      turn(keys + j * k.row, k.row, min(count - j, TILE_SIDE), shape.dim,
           panel + j % PANEL / TILE_SIDE * TILE_WORDS, (int32_t*)unit.space.scores);
    }
    for (long d = 0; d < shape.value_dim; d += PANEL) {
      int32_t* panel = (int32_t*)unit.space.v + d * words(count);
      for (long j = 0; j < words(count); ++j) {
        const float* low = 2 * j < count ? values + 2 * j * v.row + d : nullptr;
        const float* high = 2 * j + 1 < count ? values + (2 * j + 1) * v.row + d : nullptr;
        join(low, high, min(shape.value_dim - d, PANEL),
             panel + (j + (j & -TILE_SIDE)) * TILE_SIDE);
      }
    }
    block->k = unit.space.k;
    block->v = unit.space.v;
    block->v_panel = words(count) * PANEL;
  }

  static void score(const AttentionShape& shape, const Unit& unit, const KeyBlock& block, long row,
                    long rows, long seen) {
    alignas(64) float sums[TILED_ROWS * PANEL];
    const long depth = words(shape.dim);
    const TiledRows q = strided_rows((const int32_t*)unit.space.q + row * depth, depth * 4);
    for (long j = 0; j < seen; j += PANEL) {
      tile_product<TiledPairs>(q, (const int32_t*)block.k + j * depth, depth / TILE_SIDE, rows,
                               seen - j, sums);
      for (long i = 0; i < rows; ++i)
        sweep(0, min(seen - j, PANEL), [&](long c, auto) {
          store(unit.space.scores + i * MOST_KEYS + j + c,
                load(sums + i * PANEL + c, Full{}) * shape.scale, Full{});
        });
    }
  }

  static void mix(const AttentionShape& shape, const Unit& unit, const KeyBlock& block, long row,
                  long rows, long seen) {
    alignas(64) float sums[TILED_ROWS * PANEL];
    const TiledRows weights = strided_rows(unit.space.scores, MOST_KEYS * 4);
    const int32_t* panel = (const int32_t*)block.v;
    for (long d = 0; d < shape.value_dim; d += PANEL, panel += block.v_panel) {
      tile_product<TiledPairs>(weights, panel, words(seen) / TILE_SIDE, rows, shape.value_dim - d,
                               sums);
      for (long i = 0; i < rows; ++i) {
        float* out = unit.space.out + (row + i) * unit.out_step + d;
        sweep(0, min(shape.value_dim - d, PANEL), [&](long c, auto) {
          store(out + c, load(out + c, Full{}) + load(sums + i * PANEL + c, Full{}), Full{});
        });
      }
    }
  }
};

}  // namespace attention_detail

}  // namespace infuse
