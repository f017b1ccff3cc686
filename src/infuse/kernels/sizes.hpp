// Sizes and places that follow from the elements of tensors, of any type.
#pragma once
#include "platform.hpp"
#include "sizes.h"

namespace infuse {

/** How many numbers a Range has; negative when the step is zero or there are too many. */
template <class T>
inline isize range_count(T start, T limit, T delta) {
  if (delta == T(0)) return -1;
  const double exact = (static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta);
  if (!(exact > 0)) return 0;
  if (exact > double(MOST_BYTES)) return -1;
  const isize whole = static_cast<isize>(exact);
  return whole + (static_cast<double>(whole) < exact);
}

/** The same for numbers that double does not hold exactly. */
template <>
inline isize range_count<int64_t>(int64_t start, int64_t limit, int64_t delta) {
  if (delta == 0) return -1;
  if (delta > 0 ? limit <= start : limit >= start) return 0;
  const auto from = static_cast<uint64_t>(start), to = static_cast<uint64_t>(limit);
  const uint64_t span = delta > 0 ? to - from : from - to;
  const uint64_t step = delta > 0 ? uint64_t(delta) : 0 - uint64_t(delta);
  const uint64_t count = span / step + (span % step != 0);
  return count > uint64_t(MOST_BYTES) ? -1 : static_cast<isize>(count);
}

/** How many elements are not zero. */
template <class T>
inline isize count_nonzero(const T* x, isize n) {
  isize found = 0;
  for (isize i = 0; i < n; ++i) found += x[i] != T(0);
  return found;
}

/** The places of elements other than zero: `count` columns, a row per axis. */
template <class T>
inline void nonzero(const T* x, const isize* sizes, int rank, isize n, isize count, int64_t* y) {
  isize at[MOST_AXES] = {};
  isize column = 0;
  for (isize i = 0; i < n && column < count; ++i) {
    if (x[i] != T(0)) {
      for (int a = 0; a < rank; ++a) y[a * count + column] = at[a];
      ++column;
    }
    for (int a = rank - 1; a >= 0 && ++at[a] == sizes[a]; --a) at[a] = 0;
  }
}

/** The parts whose condition holds: of each of `outer` rows of `size` parts of `bytes` bytes. */
inline void compress(const char* x, const bool* condition, isize conditions, isize outer, isize size,
                     isize bytes, char* y) {
  for (isize row = 0; row < outer; ++row)
    for (isize i = 0; i < size && i < conditions; ++i)
      if (condition[i]) {
        memcpy(y, x + (row * size + i) * bytes, static_cast<size_t>(bytes));
        y += bytes;
      }
}

/** One-hot rows: `on` at the index (negative ones count from the end), `off` elsewhere and for indices outside. */
template <class I, class T>
inline void one_hot(const I* index, isize outer, isize depth, isize inner, const T* values, T* y) {
  for (isize o = 0; o < outer; ++o)
    for (isize k = 0; k < depth; ++k)
      for (isize i = 0; i < inner; ++i) {
        isize place = static_cast<isize>(index[o * inner + i]);
        if (place < 0) place += depth;
        y[(o * depth + k) * inner + i] = values[place == k];
      }
}

}  // namespace infuse
