// Attention in bfloat16 (attention_bf16.hpp, attention_bf16x2.hpp) whose products are those of tile
// registers.
#pragma once
#include "attention.hpp"
#include "tile_operands.hpp"

namespace infuse {

namespace attention_detail {

/**
 * Rows of pairs for queries and weights, panels of tiles.hpp for keys and values. Products are a
 * TiledPairs or SplitPairs, and so are operands rounded or split.
 */
template <class Products>
struct InTiles {
  typedef detail::TileOperands<Products> Operands;
  typedef int32_t Word;
  typedef TileRegisters Registers;
  static constexpr isize TOGETHER = TILED_ROWS;

  static INFUSE_INLINE isize words(isize n) { return Operands::words(n); }
  static INFUSE_INLINE void as_words(float* weights, isize keys) {
    Operands::row((int32_t*)weights, weights, keys);
  }

  static void pack_queries(const AttentionShape& shape, const Unit& unit, const HeadRows& q) {
    const float* from = q.at(unit.batch, unit.head, unit.first);
    for (isize i = 0; i < unit.queries; ++i)
      Operands::row((int32_t*)unit.space.q + i * words(shape.dim), from + i * q.row, shape.dim);
  }

  static void pack_block(const AttentionShape& shape, const Unit& unit, const HeadRows& k,
                         const HeadRows& v, KeyBlock* block) {
    const isize kv_head = unit.head / (shape.heads / shape.kv_heads), count = block->count;
    const float* keys = k.at(unit.batch, kv_head, block->first);
    const float* values = v.at(unit.batch, kv_head, block->first);
    for (isize j = 0; j < count; j += TILE_SIDE) {
      int32_t* panel = (int32_t*)unit.space.k + j / PANEL * PANEL * words(shape.dim);
      Operands::columns(keys + j * k.row, k.row, min(count - j, TILE_SIDE), shape.dim,
                        panel + j % PANEL / TILE_SIDE * TILE_WORDS, (int32_t*)unit.space.scores);
    }
    for (isize d = 0; d < shape.value_dim; d += PANEL)
      Operands::rows(values + d, v.row, count, min(shape.value_dim - d, PANEL),
                     (int32_t*)unit.space.v + d * words(count));
    block->k = unit.space.k;
    block->v = unit.space.v;
    block->v_panel = words(count) * PANEL;
  }

  static void score(const AttentionShape& shape, const Unit& unit, const KeyBlock& block, isize row,
                    isize rows, isize seen) {
    alignas(64) float sums[TILED_ROWS * PANEL];
    const isize depth = words(shape.dim);
    const TiledRows q = strided_rows((const int32_t*)unit.space.q + row * depth, depth * 4);
    for (isize j = 0; j < seen; j += PANEL) {
      tile_product<Products>(q, (const int32_t*)block.k + j * depth, depth / TILE_SIDE, rows,
                               seen - j, sums);
      for (isize i = 0; i < rows; ++i)
        sweep(0, min(seen - j, PANEL), [&](isize c, auto) {
          store(unit.space.scores + i * MOST_KEYS + j + c,
                load(sums + i * PANEL + c, Full{}) * shape.scale, Full{});
        });
    }
  }

  static void mix(const AttentionShape& shape, const Unit& unit, const KeyBlock& block, isize row,
                  isize rows, isize seen) {
    alignas(64) float sums[TILED_ROWS * PANEL];
    const TiledRows weights = strided_rows(unit.space.scores, MOST_KEYS * 4);
    const int32_t* panel = (const int32_t*)block.v;
    for (isize d = 0; d < shape.value_dim; d += PANEL, panel += block.v_panel) {
      tile_product<Products>(weights, panel, words(seen) / TILE_SIDE, rows, shape.value_dim - d,
                               sums);
      for (isize i = 0; i < rows; ++i) {
        float* out = unit.space.out + (row + i) * unit.out_step + d;
        sweep(0, min(shape.value_dim - d, PANEL), [&](isize c, auto) {
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
