// Where the matrices of a batch begin.
#pragma once
#include "isize.h"

namespace infuse {

/** Where matrix i begins: the sum over axes of i / below % size · stride, the three numbers of each
 *  axis lying side by side. */
constexpr isize matrix_offset(isize i, const isize* axes, isize count) {
  isize offset = 0;
  for (isize axis = 0; axis < count; ++axis) {
    const isize* part = axes + 3 * axis;
    offset += i / part[0] % part[1] * part[2];
  }
  return offset;
}

}  // namespace infuse
