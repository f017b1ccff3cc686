// Sizes and places that follow from the elements of tensors, of any type.
#pragma once
#include "platform.hpp"
#include "sizes.h"

namespace infuse {

/** How many numbers a Range has; negative when the step is zero or there are too many. */
template <class T>
inline long range_count(T start, T limit, T delta) {
  if (delta == T(0)) return -1;
  const double exact = (static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta);
  if (!(exact > 0)) return 0;
  if (exact > 1e15) return -1;
  const long whole = static_cast<long>(exact);
  return whole + (static_cast<double>(whole) < exact);
}

/** The same for numbers that double does not hold exactly. */
template <>
inline long range_count<int64_t>(int64_t start, int64_t limit, int64_t delta) {
  if (delta == 0) return -1;
  const __int128 span = delta > 0 ? __int128(limit) - start : __int128(start) - limit;
  const __int128 step = delta > 0 ? __int128(delta) : -__int128(delta);
  if (span <= 0) return 0;
  const __int128 count = (span + step - 1) / step;
  return count > 1000000000000000 ? -1 : static_cast<long>(count);
}

/** How many elements are not zero. */
template <class T>
inline long count_nonzero(const T* x, long n) {
  long found = 0;
  for (long i = 0; i < n; ++i) found += x[i] != T(0);
  return found;
}

/** The places of elements other than zero: `count` columns, a row per axis. */
template <class T>
inline void nonzero(const T* x, const long* sizes, int rank, long n, long count, int64_t* y) {
  long at[MOST_AXES] = {};
  long column = 0;
  for (long i = 0; i < n && column < count; ++i) {
    if (x[i] != T(0)) {
      for (int a = 0; a < rank; ++a) y[a * count + column] = at[a];
      ++column;
    }
    for (int a = rank - 1; a >= 0 && ++at[a] == sizes[a]; --a) at[a] = 0;
  }
}

/** The parts whose condition holds: of each of `outer` rows of `size` parts of `bytes` bytes. */
inline void compress(const char* x, const bool* condition, long conditions, long outer, long size,
                     long bytes, char* y) {
  for (long row = 0; row < outer; ++row)
    for (long i = 0; i < size && i < conditions; ++i)
      if (condition[i]) {
        memcpy(y, x + (row * size + i) * bytes, static_cast<size_t>(bytes));
        y += bytes;
      }
}

/** One-hot rows: `on` at the index (negative ones count from the end), `off` elsewhere and for indices outside. */
template <class I, class T>
inline void one_hot(const I* index, long outer, long depth, long inner, const T* values, T* y) {
  for (long o = 0; o < outer; ++o)
    for (long k = 0; k < depth; ++k)
      for (long i = 0; i < inner; ++i) {
        long place = static_cast<long>(index[o * inner + i]);
        if (place < 0) place += depth;
        y[(o * depth + k) * inner + i] = values[place == k];
      }
}

}  // namespace infuse
