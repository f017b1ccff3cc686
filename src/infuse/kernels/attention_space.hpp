// The memory of attention (attention.hpp), and the queries and keys that are in work in it.
#pragma once
#include "attention_masks.hpp"
#include "platform.hpp"
#include "row_steps.hpp"
#include "tiles.hpp"

namespace infuse {

namespace attention_detail {

// Queries that share the loads of a panel.
constexpr int ROWS = INFUSE_ORDERED   ? detail::ORDERED_ROWS
                     : INFUSE_BY_LANE ? INFUSE_REGISTERS / 4
                                      : INFUSE_REGISTERS * 3 / 8;
constexpr isize PANEL = 2 * LANES;
constexpr isize MOST_KEYS = 256;
constexpr isize MOST_ROWS = BF16_TILES ? TILED_ROWS : ROWS;  // queries in work at once
constexpr isize MOST_QUERIES = 2040, LEAST_QUERIES = 252;
constexpr isize QUERY_BYTES = INFUSE_BLOCK_BYTES / 2;  // of queries and results, which stay in it

/** Queries of one unit of work, which share packed keys: few where each sees a window of its own. */
inline isize query_block(const AttentionShape& shape) {
  isize most = shape.left < 0 ? QUERY_BYTES / 4 / (shape.dim + shape.value_dim + 1) : 0;
  most = most < LEAST_QUERIES ? LEAST_QUERIES : most < MOST_QUERIES ? most : MOST_QUERIES;
  const isize blocks = shape.queries > 0 ? (shape.queries + most - 1) / most : 1;
  return round_up((shape.queries + blocks - 1) / blocks, ROWS);
}

/** Keys of one block, so that all blocks are alike. */
inline isize key_block(const AttentionShape& shape) {
  isize blocks = (shape.keys + shape.block - 1) / shape.block;
  return blocks <= 1 ? shape.block : round_up((shape.keys + blocks - 1) / blocks, PANEL);
}

/** The scratch memory of one worker. */
struct Space {
  float *q, *k, *v, *scores, *out, *top, *sum;
};

/** Words of a row of queries or keys: floats, or tile registers that two halves of each fill. */
inline isize row_words(isize dim) {
  return BF16_TILES ? 2 * panel_words((dim + 1) / 2, true) : dim;
}

inline isize divide(const AttentionShape& shape, char* memory, Space* space) {
  isize queries = query_block(shape), values = round_up(shape.value_dim, PANEL);
  const isize dim = row_words(shape.dim);
  float* next = reinterpret_cast<float*>(memory);
  auto take = [&](isize count) {
    float* part = next;
    next += round_up(count, CACHE_LINE / 4);
    return part;
  };
  space->q = take(queries * dim);  // a product may read rows behind them: those of keys
  space->k = take(MOST_KEYS * dim);
  space->v = take(MOST_KEYS * values);
  space->scores = take(MOST_ROWS * MOST_KEYS);
  space->out = take(queries * values);
  space->top = take(queries);
  space->sum = take(queries);
  return (next - reinterpret_cast<float*>(memory)) * isize(4);
}

/** The block of keys and values in work, of floats or of pairs (attention_bf16.hpp). */
struct KeyBlock {
  isize first, count;     // keys
  const void* k;         // panels [dim][PANEL]; rows where there are few queries
  isize k_step;           // words from row to row
  const void* v;         // rows of values
  isize v_step, v_panel;  // words from row to row, from panel to panel
};

/** What one unit of work needs to know. */
struct Unit {
  isize batch, head, first, queries, out_step;
  Space space;
};

}  // namespace attention_detail

}  // namespace infuse
