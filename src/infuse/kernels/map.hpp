// Elementwise work over a matrix of rows and columns.
#pragma once
#include "simd.hpp"
#include "threads.hpp"

namespace infuse {

constexpr isize MAP_GRAIN = 16384;  // cheap elements that are worth a thread

namespace map_detail {

/** Calls part(row, begin, end) so that all columns of all rows are covered, over the threads. */
template <class Part>
INFUSE_INLINE void each_part(Context& context, isize rows, isize cols, isize cost, const Part& part) {
  if (rows <= 0 || cols <= 0) return;
  bool alone = context.threads == 1 || rows * cols * cost < 2 * MAP_GRAIN;
  bool whole = alone || rows >= 4 * context.threads;
  isize pieces = whole ? 1 : (isize(4) * context.threads + rows - 1) / rows;
  isize piece = whole ? cols : round_up((cols + pieces - 1) / pieces, CACHE_LINE);
  pieces = (cols + piece - 1) / piece;
  // One copy of the body in the code, however it is run.
  const auto run = [&](isize first, isize last, int) INFUSE_NOINLINE {
    isize row = first / pieces, at = first % pieces;
    for (isize unit = first; unit < last; ++unit) {
      isize begin = at * piece;
      part(row, begin, begin + piece < cols ? begin + piece : cols);
      if (++at == pieces) at = 0, ++row;
    }
  };
  if (alone) return run(0, rows * pieces, 0);
  context.parallel(rows * pieces, run, 1 + MAP_GRAIN / ((piece < cols ? piece : cols) * cost));
}

}  // namespace map_detail

/**
 * Calls body(row, col, lanes) for every vector of LANES columns, with Tail for the rest of a row.
 * The body loads and stores its floats itself; `cost` is its price in cheap operations.
 */
template <class Body>
inline void map2d(Context& context, isize rows, isize cols, const Body& body, isize cost = 1) {
  map_detail::each_part(context, rows, cols, cost, [&](isize row, isize begin, isize end) {
    sweep(begin, end,
          [&](isize col, auto lanes) __attribute__((always_inline)) { body(row, col, lanes); });
  });
}

/** Calls body(row, col) for every element: for other types than float. */
template <class Body>
inline void map_scalar(Context& context, isize rows, isize cols, const Body& body, isize cost = 1) {
  map_detail::each_part(context, rows, cols, cost, [&](isize row, isize begin, isize end) {
    const Body own = body;
#pragma GCC ivdep
    for (isize col = begin; col < end; ++col) own(row, col);
  });
}

}  // namespace infuse
