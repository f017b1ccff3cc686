// Sizes that follow from the sizes and the integers that operators are given, in C and in C++.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "isize.h"

#ifdef __cplusplus
namespace infuse {
#endif

#define MOST_AXES 16

/** A possibly negative axis as an index, -1 when it lies outside. */
static inline int axis_index(isize axis, int rank) {
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? (int)axis : -1;
}

/** Whether a tensor may have these sizes: none below zero, and as many bytes as addresses can count. */
static inline bool is_possible(const isize* sizes, int rank) {
  isize total = 1;
  for (int i = 0; i < rank; ++i) {
    if (sizes[i] < 0) return false;
    const isize factor = sizes[i] > 0 ? sizes[i] : 1;
    if (__builtin_mul_overflow(total, factor, &total) || total > MOST_BYTES) return false;
  }
  return true;
}

/** Whether no size is larger than that of the same axis of `b`. */
static inline bool all_at_most(const isize* a, const isize* b, int rank) {
  for (int i = 0; i < rank; ++i)
    if (a[i] > b[i]) return false;
  return true;
}

/** Whether sizes are the same. */
static inline bool all_equal(const isize* a, const isize* b, int rank) {
  for (int i = 0; i < rank; ++i)
    if (a[i] != b[i]) return false;
  return true;
}

/** The sizes of a Reshape of `in`: 0 copies a size (unless `zeros` are meant), -1 takes what is left. */
static inline bool reshape_sizes(const isize* in, int rank, const isize* wanted, int count, bool zeros,
                          isize* out) {
  isize total = 1, known = 1;
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
static inline bool expand_sizes(const isize* in, int rank, const isize* wanted, int count, isize* out) {
  const int most = rank > count ? rank : count;
  for (int i = 0; i < most; ++i) {
    const isize a = i < most - rank ? 1 : in[i - (most - rank)];
    const isize b = i < most - count ? 1 : wanted[i - (most - count)];
    if (a < 0 || b < 0 || (a != b && a != 1 && b != 1)) return false;
    out[i] = a == 1 ? b : a;
  }
  return true;
}

/** First index and number of elements of a slice of an axis of `size` elements. */
static inline void slice_range(isize size, isize start, isize end, isize step, isize* first, isize* count) {
  const isize_wide wide = size;
  isize_wide from = start, to = end;
  if (from < 0) from += wide;
  if (to < 0) to += wide;
  if (step > 0) {
    from = from < 0 ? 0 : from > wide ? wide : from;
    to = to < 0 ? 0 : to > wide ? wide : to;
  } else {
    from = from >= wide ? wide - 1 : from < 0 ? (wide > 0 ? 0 : -1) : from;
    to = to < -1 ? -1 : to >= wide ? wide - 1 : to;
  }
  const isize_wide span = step > 0 ? to - from : from - to, length = step > 0 ? step : -(isize_wide)step;
  const isize n = span > 0 ? (isize)((span + length - 1) / length) : 0;
  *count = n;
  *first = n > 0 ? (isize)from : 0;
}

/** First, step and count for every axis of `in`; false for a step of 0 or an axis that is wrong or comes twice. */
static inline bool slice_ranges(const isize* in, int rank, const isize* starts, const isize* ends,
                         const isize* axes, const isize* steps, int given, isize* first, isize* step,
                         isize* count) {
  bool sliced[MOST_AXES] = {0};
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
static inline bool pad_sizes(const isize* in, int rank, const isize* pads, const isize* axes, int given,
                      bool repeats, isize* before, isize* out) {
  bool seen[MOST_AXES] = {0};
  for (int a = 0; a < rank; ++a) before[a] = 0, out[a] = in[a];
  for (int i = 0; i < given; ++i) {
    const int axis = axis_index(axes[i], rank);
    if (axis < 0 || seen[axis]) return false;
    seen[axis] = true;
    before[axis] = pads[i];
    const isize first = pads[i], last = pads[given + i];
    const isize_wide left = (isize_wide)in[axis] + (first < 0 ? first : 0) + (last < 0 ? last : 0);
    const isize_wide size = (isize_wide)in[axis] + first + last;
    if (left < (repeats && (first > 0 || last > 0)) || size > PTRDIFF_MAX) return false;
    out[axis] = (isize)size;
  }
  return true;
}

/** The sizes without the listed axes, which must be 1; without all such axes when none is listed. */
static inline bool squeeze_sizes(const isize* in, int rank, const isize* axes, int given, bool all, int want,
                          isize* out) {
  bool drop[MOST_AXES] = {0};
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
static inline bool unsqueeze_sizes(const isize* in, int rank, const isize* axes, int given, isize* out) {
  bool one[MOST_AXES] = {0};
  for (int i = 0; i < given; ++i) {
    const int axis = axis_index(axes[i], rank + given);
    if (axis < 0 || one[axis]) return false;
    one[axis] = true;
  }
  for (int a = 0, n = 0; a < rank + given; ++a) out[a] = one[a] ? 1 : in[n++];
  return true;
}

/**
 * Sizes of the axes that a reduction keeps and of those that it reduces, 1 for the others; `none` means none where no
 * axis is listed, else all are meant. `out` gets the sizes of the result. False when an axis is wrong.
 */
static inline bool reduced_sizes(const isize* in, int rank, const isize* axes, int given, bool none,
                          bool keep, int want, isize* kept, isize* reduced, isize* out) {
  bool gone[MOST_AXES] = {0};
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

#ifdef __cplusplus
}  // namespace infuse
#endif
