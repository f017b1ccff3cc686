// Axes that only the run tells.
#pragma once
#include "sizes.hpp"

namespace infuse {

/**
 * Sizes of the axes that a reduction keeps and of those that it reduces, 1 for the others; `none` means none where no
 * axis is listed, else all are meant. `out` gets the sizes of the result. False when an axis is wrong.
 */
inline bool reduced_sizes(const long* in, int rank, const long* axes, int given, bool none,
                          bool keep, int want, long* kept, long* reduced, long* out) {
  bool gone[MOST_AXES] = {};
  for (int i = 0; i < given; ++i) {
    const int axis = axis_index(axes[i], rank);
    if (axis < 0) return false;
    gone[axis] = true;
  }
  int n = 0;
  for (int a = 0; a < rank; ++a) {
    const bool is_gone = given ? gone[a] : !none;
    kept[a] = is_gone ? 1 : in[a];
    reduced[a] = is_gone ? in[a] : 1;
    if (is_gone && !keep) continue;
    if (n == want) return false;
    out[n++] = kept[a];
  }
  return n == want;
}

}  // namespace infuse
