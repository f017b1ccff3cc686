// Sizes and places that follow from the elements of tensors.
#pragma once
#include "platform.hpp"

namespace infuse {

constexpr int MOST_AXES = 16;

/** A possibly negative axis as an index, -1 when it lies outside. */
inline int axis_index(long axis, int rank) {
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? static_cast<int>(axis) : -1;
}

/** Whether a tensor may have these sizes: none below zero, and as many bytes as addresses can count. */
inline bool is_possible(const long* sizes, int rank) {
  long total = 1;
  for (int i = 0; i < rank; ++i) {
    if (sizes[i] < 0) return false;
    const long factor = sizes[i] > 0 ? sizes[i] : 1;
    if (__builtin_mul_overflow(total, factor, &total) || total > 1L << 46) return false;
  }
  return true;
}

/** The sizes of a Reshape of `in`: 0 copies a size (unless `zeros` are meant), -1 takes what is left. */
inline bool reshape_sizes(const long* in, int rank, const long* wanted, int count, bool zeros,
                          long* out) {
  long total = 1, known = 1;
  int open = -1;
  for (int i = 0; i < rank; ++i) total *= in[i];
  for (int i = 0; i < count; ++i) {
    out[i] = wanted[i];
    if (wanted[i] == 0 && !zeros) {
      if (i >= rank) return false;
      out[i] = in[i];
    }
    if (out[i] == -1) {
      if (open >= 0) return false;
      open = i;
    } else if (out[i] < 0) {
      return false;
    } else if (__builtin_mul_overflow(known, out[i], &known)) {
      return false;
    }
  }
  if (open >= 0) {
    if (known == 0 || total % known != 0) return false;
    out[open] = total / known;
    known = total;
  }
  return known == total;
}

/** The sizes of `in` broadcast with `wanted`; `out` holds the larger of the ranks. */
inline bool expand_sizes(const long* in, int rank, const long* wanted, int count, long* out) {
  const int most = rank > count ? rank : count;
  for (int i = 0; i < most; ++i) {
    const long a = i < most - rank ? 1 : in[i - (most - rank)];
    const long b = i < most - count ? 1 : wanted[i - (most - count)];
    if (a < 0 || b < 0 || (a != b && a != 1 && b != 1)) return false;
    out[i] = a == 1 ? b : a;
  }
  return true;
}

/** First index and number of elements of a slice of an axis of `size` elements. */
inline void slice_range(long size, long start, long end, long step, long* first, long* count) {
  const __int128 wide = size;
  __int128 from = start, to = end;
  if (from < 0) from += wide;
  if (to < 0) to += wide;
  if (step > 0) {
    from = from < 0 ? 0 : from > wide ? wide : from;
    to = to < 0 ? 0 : to > wide ? wide : to;
  } else {
    from = from >= wide ? wide - 1 : from < 0 ? (wide > 0 ? 0 : -1) : from;
    to = to < -1 ? -1 : to >= wide ? wide - 1 : to;
  }
  const __int128 span = step > 0 ? to - from : from - to, length = step > 0 ? step : -__int128(step);
  const long n = span > 0 ? static_cast<long>((span + length - 1) / length) : 0;
  *count = n;
  *first = n > 0 ? static_cast<long>(from) : 0;
}

/** First, step and count for every axis of `in`; false for a step of 0 or an axis that is wrong or comes twice. */
inline bool slice_ranges(const long* in, int rank, const long* starts, const long* ends,
                         const long* axes, const long* steps, int given, long* first, long* step,
                         long* count) {
  bool sliced[MOST_AXES] = {};
  for (int a = 0; a < rank; ++a) first[a] = 0, step[a] = 1, count[a] = in[a];
  for (int i = 0; i < given; ++i) {
    const int axis = axis_index(axes[i], rank);
    if (axis < 0 || steps[i] == 0 || sliced[axis]) return false;
    sliced[axis] = true;
    step[axis] = steps[i];
    slice_range(in[axis], starts[i], ends[i], steps[i], first + axis, count + axis);
  }
  return true;
}

/** Amounts before and sizes after padding, per axis; false when an axis is wrong or a size falls below zero. */
inline bool pad_sizes(const long* in, int rank, const long* pads, const long* axes, int given,
                      bool repeats, long* before, long* out) {
  bool seen[MOST_AXES] = {};
  for (int a = 0; a < rank; ++a) before[a] = 0, out[a] = in[a];
  for (int i = 0; i < given; ++i) {
    const int axis = axis_index(axes[i], rank);
    if (axis < 0 || seen[axis]) return false;
    seen[axis] = true;
    before[axis] = pads[i];
    const long first = pads[i], last = pads[given + i];
    const __int128 left = __int128(in[axis]) + (first < 0 ? first : 0) + (last < 0 ? last : 0);
    const __int128 size = __int128(in[axis]) + first + last;
    if (left < (repeats && (first > 0 || last > 0)) || size > INT64_MAX) return false;
    out[axis] = static_cast<long>(size);
  }
  return true;
}

/** The sizes without the listed axes, which must be 1; without all such axes when none is listed. */
inline bool squeeze_sizes(const long* in, int rank, const long* axes, int given, bool all, int want,
                          long* out) {
  bool drop[MOST_AXES] = {};
  for (int i = 0; i < given; ++i) {
    const int axis = axis_index(axes[i], rank);
    if (axis < 0 || in[axis] != 1) return false;
    drop[axis] = true;
  }
  int n = 0;
  for (int a = 0; a < rank; ++a) {
    if (all ? in[a] == 1 : drop[a]) continue;
    if (n == want) return false;
    out[n++] = in[a];
  }
  return n == want;
}

/** The sizes with axes of one element put in at the listed places of the result. */
inline bool unsqueeze_sizes(const long* in, int rank, const long* axes, int given, long* out) {
  bool one[MOST_AXES] = {};
  for (int i = 0; i < given; ++i) {
    const int axis = axis_index(axes[i], rank + given);
    if (axis < 0 || one[axis]) return false;
    one[axis] = true;
  }
  for (int a = 0, n = 0; a < rank + given; ++a) out[a] = one[a] ? 1 : in[n++];
  return true;
}

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
