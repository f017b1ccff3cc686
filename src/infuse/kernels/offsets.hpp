// Where the matrices of a batch begin.
#pragma once

namespace infuse {

/** Where matrix i begins: the sum over axes of i / below % size · stride, the three numbers of each
 *  axis lying side by side. */
constexpr long matrix_offset(long i, const long* axes, long count) {
  long offset = 0;
  for (long axis = 0; axis < count; ++axis) {
    const long* part = axes + 3 * axis;
    offset += i / part[0] % part[1] * part[2];
  }
  return offset;
}

}  // namespace infuse
