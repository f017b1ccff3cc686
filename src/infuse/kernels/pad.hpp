// Padding and cropping of tensors.
#pragma once
#include "copy.hpp"

namespace infuse {

enum PadMode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

namespace pad_detail {

struct Loops {
  int rank;
  isize size[MOST_DIMS], out[MOST_DIMS], begin[MOST_DIMS];

  /**
   * The source index for index i of dimension d of the result; -1 means the constant.
   * Elements that are cut off are not repeated either; one is left where any are added.
   */
  isize source(int d, isize i, PadMode mode) const {
    const isize at = i - begin[d], left = out[d] - begin[d];
    const isize first = begin[d] < 0 ? -begin[d] : 0, end = left < size[d] ? left : size[d];
    if (at >= first && at < end) return at;
    if (mode == PAD_CONSTANT) return -1;
    if (mode == PAD_EDGE) return at < first ? first : end - 1;
    const isize count = end - first, period = mode == PAD_WRAP ? count : 2 * (count - 1);
    if (period == 0) return first;
    isize r = at - first;
    if (r < 0) r += period;
    if (r < 0 || r >= period) r %= period;  // a division only where the padding is that long
    if (r < 0) r += period;
    return first + (r < count ? r : period - r);
  }
};

/** Joins neighbouring dimensions that are not padded. */
inline Loops join(int rank, const isize* size, const isize* begin, const isize* out) {
  Loops loops;
  loops.rank = 0;
  bool before = false;
  for (int i = 0; i < rank; ++i) {
    bool whole = begin[i] == 0 && size[i] == out[i];
    if (whole && before) {
      loops.size[loops.rank - 1] *= size[i];
      loops.out[loops.rank - 1] *= out[i];
    } else {
      loops.size[loops.rank] = size[i];
      loops.out[loops.rank] = out[i];
      loops.begin[loops.rank++] = begin[i];
    }
    before = whole;
  }
  if (loops.rank == 0) loops = {1, {1}, {1}, {0}};
  return loops;
}

template <class T>
inline void fill_run(T* to, isize count, T value) {
  for (isize i = 0; i < count; ++i) to[i] = value;
}

/** Where rows of the result come from, one after another: no division for each of them. */
struct PaddedRows {
  const Loops& loops;
  PadMode mode;
  isize index[MOST_DIMS], step[MOST_DIMS];  // in the result; elements of the source between indices
  isize offset;                             // of all dimensions but the last two
  bool inside;

  PaddedRows(const Loops& l, PadMode m, isize row) : loops(l), mode(m) {
    step[loops.rank - 1] = 1;
    for (int i = loops.rank - 2; i >= 0; --i) {
      step[i] = step[i + 1] * loops.size[i + 1];
      index[i] = row % loops.out[i];
      row /= loops.out[i];
    }
    settle_outer();
  }

  void settle_outer() {
    offset = 0, inside = true;
    for (int i = 0; i + 2 < loops.rank; ++i) {
      const isize at = loops.source(i, index[i], mode);
      inside &= at >= 0;
      offset += at * step[i];
    }
  }

  /** The row at hand in the source, null where it is constant throughout; then the next one. */
  template <class T>
  const T* next(const T* src) {
    const int last = loops.rank - 2;
    if (last < 0) return src;
    const isize at = loops.source(last, index[last], mode);
    const T* from = inside && at >= 0 ? src + offset + at * step[last] : nullptr;
    if (++index[last] == loops.out[last]) {
      for (int i = last; i > 0 && index[i] == loops.out[i]; --i) index[i] = 0, ++index[i - 1];
      settle_outer();
    }
    return from;
  }
};

/** One row of the last dimension; a null source is constant throughout. */
template <class T>
inline void pad_row(const Loops& loops, PadMode mode, T value, const T* from, T* to) {
  int last = loops.rank - 1;
  isize size = loops.size[last], out = loops.out[last], begin = loops.begin[last];
  if (!from) return fill_run(to, out, value);
  isize first = begin > 0 ? (begin < out ? begin : out) : 0;
  isize end = size + begin < out ? size + begin : out;
  if (end < first) end = first;
  for (isize i = 0; i < first; ++i) {
    isize at = loops.source(last, i, mode);
    to[i] = at < 0 ? value : from[at];
  }
  copy_bytes(to + first, from + first - begin, (end - first) * isize(sizeof(T)));
  for (isize i = end; i < out; ++i) {
    isize at = loops.source(last, i, mode);
    to[i] = at < 0 ? value : from[at];
  }
}

}  // namespace pad_detail

/**
 * Pads (or crops, where negative) a dense tensor: begin[i] elements come before dimension i, whose
 * output size is out[i]. `value` points to one element and is used by PAD_CONSTANT; in other modes,
 * an element has to be left of each dimension that grows.
 */
template <int ElemBytes>
inline void pad_nd(Context& context, int rank, const isize* size, const isize* begin, const isize* out,
                   PadMode mode, const void* value, const void* src, void* dst) {
  typedef typename Element<ElemBytes>::type T;
  using namespace pad_detail;
  Loops loops = join(rank, size, begin, out);
  T constant = *static_cast<const T*>(value);
  isize rows = 1, width = loops.out[loops.rank - 1];
  for (int i = 0; i + 1 < loops.rank; ++i) rows *= loops.out[i];
  if (width == 0) return;
  context.parallel(
      rows,
      [&](isize first, isize end, int) {
        PaddedRows source(loops, mode, first);
        for (isize row = first; row < end; ++row) {
          const T* from = source.next(static_cast<const T*>(src));
          pad_row(loops, mode, constant, from, static_cast<T*>(dst) + row * width);
        }
      },
      1 + COPY_GRAIN / (width * ElemBytes));
}

}  // namespace infuse
