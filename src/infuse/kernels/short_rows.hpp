// Rows that are shorter than some vectors, turned so that vectors go across rows.
#pragma once
#include "threads.hpp"
#include "transpose.hpp"

namespace infuse {
namespace short_rows {

constexpr isize MOST = 2 * LANES;   // columns of a row that is short
constexpr isize BLOCK = 4 * LANES;  // rows that are turned at once

/** Columns of a block of rows, each of BLOCK elements. */
struct Block {
  alignas(64) float columns[MOST * BLOCK];
};

/** columns[c][row] = x[row][c] for `rows` rows, at most BLOCK, of `width` columns, at most MOST. */
INFUSE_INLINE const float* turned(Block& block, const float* x, isize rows, isize width) {
  if (width == 1 && rows == BLOCK) return x;
  if (width == 1)
    memcpy(block.columns, x, size_t(rows) * sizeof(float));
  else if (width <= 4)
    copying::separate_any(block.columns, BLOCK, x, rows, width);
  else
    copying::turn_words(block.columns, BLOCK, x, width, width, rows);
  return block.columns;
}

/** x[row][c] = columns[c][row], the reverse. */
INFUSE_INLINE void turn_back(float* x, const float* columns, isize rows, isize width) {
  if (width == 1)
    memcpy(x, columns, size_t(rows) * sizeof(float));
  else if (width <= 4)
    copying::interleave_any(x, columns, BLOCK, rows, width);
  else
    copying::turn_words(x, width, columns, BLOCK, rows, width);
}

/** Calls body(columns, first row, rows) for blocks of dense rows, over the threads. */
template <class Body>
inline void each_block(Context& context, isize rows, isize width, const float* x, isize grain,
                       const Body& body) {
  context.parallel(
      (rows + BLOCK - 1) / BLOCK,
      [&](isize begin, isize end, int) {
        Block block;
        for (isize unit = begin; unit < end; ++unit) {
          const isize first = unit * BLOCK, count = rows - first < BLOCK ? rows - first : BLOCK;
          body(turned(block, x + first * width, count, width), first, count);
        }
      },
      1 + grain / (BLOCK * (width + 1)));
}

/** Hands results [first, first + count) to a sink in rows of `cols`. */
template <class Sink>
INFUSE_INLINE void hand_on(const float* results, isize first, isize count, isize cols,
                           const Sink& sink) {
  isize row = first / cols, col = first % cols;
  for (isize i = 0; i < count; ++row, col = 0) {
    const isize end = cols - col < count - i ? cols : col + count - i;
    const float* from = results + i - col;
    i += end - col;
    sweep(col, end, [&](isize c, auto lanes) __attribute__((always_inline)) {
      sink(load(from + c, lanes), row, c, lanes);
    });
  }
}

}  // namespace short_rows
}  // namespace infuse
