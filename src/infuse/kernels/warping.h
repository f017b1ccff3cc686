// The cheapest path through a table of costs (dynamic time warping), in C and in C++.
#pragma once
#include <math.h>
#include <stdint.h>

#include "isize.h"

#ifdef __cplusplus
namespace infuse {
#endif

/** The steps of the path from the first to the last of costs [rows, columns], row and column of each
 *  in two lines of `limit` numbers; `sums` holds columns + 1 numbers, `steps` rows * columns. Of equal
 *  sums that of the column before is taken, and both before only where it is less than either. */
static inline isize warping_path(isize rows, isize columns, const float* costs, float* sums, uint8_t* steps,
                                isize limit, int32_t* path) {
  isize count = 0, i = rows, j = columns;
  for (isize column = 0; column <= columns; ++column) sums[column] = column ? INFINITY : 0;
  for (isize row = 0; row < rows; ++row) {
    float both = sums[0];
    sums[0] = INFINITY;
    for (isize column = 0; column < columns; ++column) {
      const float above = sums[column + 1], before = sums[column];
      const int step = both < above && both < before ? 0 : above < both && above < before ? 1 : 2;
      const float least = step == 0 ? both : step == 1 ? above : before;
      steps[row * columns + column] = (uint8_t)step;
      sums[column + 1] = costs[row * columns + column] + least;
      both = above;
    }
  }
  while (i > 0 && j > 0) {
    const uint8_t step = steps[(i - 1) * columns + j - 1];
    path[count] = (int32_t)(i - 1);
    path[limit + count] = (int32_t)(j - 1);
    ++count;
    i -= step != 2;
    j -= step != 1;
  }
  for (isize line = 0; line < 2; ++line)
    for (isize k = 0; k < count / 2; ++k) {
      int32_t *first = path + line * limit + k, *last = path + line * limit + count - 1 - k;
      const int32_t other = *first;
      *first = *last;
      *last = other;
    }
  return count;
}

#ifdef __cplusplus
}  // namespace infuse
#endif
