// Attention in bfloat16 (attention_bf16.hpp, attention_bf16x2.hpp) whose products are those of tile
// registers.
#pragma once
#include "attention.hpp"
#include "gemm_bf16x2.hpp"

namespace infuse {

namespace attention_detail {

/**
 * Rows of pairs for queries and weights, panels of tiles.hpp for keys and values. Products are a
 * TiledPairs or SplitPairs, and so are operands rounded or split.
 */
template <class Products>
struct InTiles {
  typedef int32_t Word;
  typedef TileRegisters Registers;
  static constexpr bool SPLITS = Products::BLOCKS == 2;
  static constexpr long TOGETHER = TILED_ROWS;
  static constexpr long CHUNK = 64 * Products::BLOCKS;  // words of a row that are made at once

  static INFUSE_INLINE long words(long n) {
    return Products::BLOCKS * panel_words(bf16_pairs(n), true);
  }
  static INFUSE_INLINE void row_words(int32_t* to, const float* from, long n) {
    if constexpr (SPLITS)
      detail::split_row(to, from, n);
    else
      detail::round_row(to, from, n);
  }
  static INFUSE_INLINE void as_words(float* weights, long keys) {
    row_words((int32_t*)weights, weights, keys);
  }

  static void pack_queries(const AttentionShape& shape, const Unit& unit, const HeadRows& q) {
    const float* from = q.at(unit.batch, unit.head, unit.first);
    for (long i = 0; i < unit.queries; ++i)
      row_words((int32_t*)unit.space.q + i * words(shape.dim), from + i * q.row, shape.dim);
  }

  /** Up to 16 keys become columns of one half of a panel, their size lies along its words. */
  static void turn(const float* from, long row, long rows, long dim, int32_t* to, int32_t* held) {
    constexpr long numbers = 2 * CHUNK / Products::BLOCKS;
    for (long d = 0; d < dim; d += numbers) {
      const long width = min(dim - d, numbers);
      for (long i = 0; i < rows; ++i) row_words(held + i * CHUNK, from + i * row + d, width);
      for (long p = 0; p < words(width); p += TILE_SIDE, to += 2 * TILE_WORDS) {
        const long block = SPLITS ? p ^ TILE_SIDE : p;  // panels have high halves first
        copying::turn_block<uint32_t>((uint32_t*)to, TILE_SIDE, (const uint32_t*)held + block,
                                      CHUNK, TILE_SIDE, rows);
      }
    }
  }

  /** The upper halves of two vectors of words, side by side. */
  static INFUSE_INLINE vi joined(vi first, vi second) {
    return (vi)((vu)first >> 16) | (second & int32_t(0xffff0000));
  }

  /** Two rows of values, the second perhaps none, become a word of each of their columns. */
  static void join(const float* low, const float* high, long width, int32_t* to) {
    sweep(0, width, [&](long i, auto lanes) {
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
      for (long j = 0; j < words(count) / Products::BLOCKS; ++j) {
        const float* low = 2 * j < count ? values + 2 * j * v.row + d : nullptr;
        const float* high = 2 * j + 1 < count ? values + (2 * j + 1) * v.row + d : nullptr;
        join(low, high, min(shape.value_dim - d, PANEL),
             panel + (j % TILE_SIDE + (j & -TILE_SIDE) * 2 * Products::BLOCKS) * TILE_SIDE);
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
      tile_product<Products>(q, (const int32_t*)block.k + j * depth, depth / TILE_SIDE, rows,
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
      tile_product<Products>(weights, panel, words(seen) / TILE_SIDE, rows, shape.value_dim - d,
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

typedef InTiles<TiledPairs> PairsInTiles;
typedef InTiles<SplitPairs> SplitInTiles;

}  // namespace attention_detail

}  // namespace infuse
