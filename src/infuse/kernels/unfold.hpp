// Windows put together again, put back where they came from, or read at places of their own.
#pragma once
#include "copy.hpp"
#include "math.hpp"
#include "wrap.hpp"

namespace infuse {

constexpr int MOST_UNFOLD_AXES = 6;

/** One spatial axis of an image and the windows over it. */
struct UnfoldAxis {
  isize size, count, kernel, stride, dilation, before;
};

struct UnfoldShape {
  int rank;
  UnfoldAxis axis[MOST_UNFOLD_AXES];

  isize image() const {
    isize all = 1;
    for (int a = 0; a < rank; ++a) all *= axis[a].size;
    return all;
  }
  isize counts() const {
    isize all = 1;
    for (int a = 0; a < rank; ++a) all *= axis[a].count;
    return all;
  }
  isize window() const {
    isize all = 1;
    for (int a = 0; a < rank; ++a) all *= axis[a].kernel;
    return all;
  }
};

namespace unfold_detail {

/** The windows [first, last) along an axis whose tap `k` lies inside; where that of window 0 lies. */
struct Line {
  isize start, first, last;

  Line(const UnfoldAxis& a, isize k) : start(k * a.dilation - a.before), first(0), last(a.count) {
    if (start < 0) first = (-start + a.stride - 1) / a.stride;
    const isize room = a.size - start;
    const isize end = room <= 0 ? 0 : (room + a.stride - 1) / a.stride;
    if (end < last) last = end;
  }
};

template <class T>
INFUSE_INLINE void add_row(T* to, const T* from, isize first, isize last) {
  for (isize j = first; j < last; ++j) to[j] = plus(to[j], from[j]);
}
INFUSE_INLINE void add_row(float* to, const float* from, isize first, isize last) {
  sweep(first, last, [&](isize j, auto lanes) __attribute__((always_inline)) {
    store(to + j, load(to + j, lanes) + load(from + j, lanes), lanes);
  });
}

/** Adds one tap of all windows to the image. */
template <class T>
inline void add_tap(const UnfoldShape& s, const isize* tap, const T* from, T* image) {
  isize lines = 1;
  for (int a = 0; a + 1 < s.rank; ++a) lines *= s.axis[a].count;
  const UnfoldAxis& inner = s.axis[s.rank - 1];
  const Line line(inner, tap[s.rank - 1]);
  isize index[MOST_UNFOLD_AXES] = {};
  for (isize i = 0; i < lines; ++i) {
    isize at = 0, step = inner.size;
    bool inside = true;
    for (int a = s.rank - 2; a >= 0; --a) {
      const UnfoldAxis& axis = s.axis[a];
      const isize place = index[a] * axis.stride + tap[a] * axis.dilation - axis.before;
      inside = inside && place >= 0 && place < axis.size;
      at += place * step;
      step *= axis.size;
    }
    for (int a = s.rank - 2; a >= 0 && ++index[a] == s.axis[a].count; --a) index[a] = 0;
    if (!inside) continue;
    T* to = image + at + line.start;
    const T* row = from + i * inner.count;
    if (inner.stride == 1)
      add_row(to, row, line.first, line.last);
    else
      for (isize j = line.first; j < line.last; ++j)
        to[j * inner.stride] = plus(to[j * inner.stride], row[j]);
  }
}

}  // namespace unfold_detail

/** Images y [planes, size ..] whose windows are x [planes, kernel .., count ..]. */
template <class T>
inline void col2im(Context& context, const UnfoldShape& s, isize planes, const T* x, T* y) {
  using namespace unfold_detail;
  const isize pixels = s.image(), counts = s.counts(), window = s.window();
  context.parallel(
      planes,
      [&](isize begin, isize end, int) {
        for (isize plane = begin; plane < end; ++plane) {
          T* image = y + plane * pixels;
          for (isize i = 0; i < pixels; ++i) image[i] = T(0);
          isize tap[MOST_UNFOLD_AXES] = {};
          for (isize t = 0; t < window; ++t) {
            add_tap(s, tap, x + (plane * window + t) * counts, image);
            for (int a = s.rank - 1; a >= 0 && ++tap[a] == s.axis[a].kernel; --a) tap[a] = 0;
          }
        }
      },
      1 + COPY_GRAIN / (counts * window * isize(sizeof(T)) + 1));
}

/**
 * The elements x at their indices in a tensor of `least` sizes, which is the beginning of y; zeros
 * elsewhere. False when an index lies outside.
 */
template <class T>
inline bool max_unpool(Context& context, int rank, const isize* least, const isize* size, isize count,
                       const T* x, const int64_t* index, T* y) {
  isize inside = 1, all = 1;
  bool same = true;
  for (int a = 0; a < rank; ++a) {
    inside *= least[a], all *= size[a];
    same = same && least[a] == size[a];
  }
  fill(context, y, all, T(0));
  for (isize i = 0; i < count; ++i) {
    isize at = index[i];
    if (at < 0 || at >= inside) return false;
    if (!same) {
      isize rest = at, step = 1;
      at = 0;
      for (int a = rank - 1; a >= 0; --a) {
        at += rest % least[a] * step;
        rest /= least[a];
        step *= size[a];
      }
    }
    y[at] = x[i];
  }
  return true;
}

/** Deformed windows over images [n, size .., c]. */
struct DeformShape {
  isize n, c, groups, offset_groups;
  UnfoldShape windows;
};

namespace unfold_detail {

/** The pixels around a place and what they weigh. */
template <class T>
struct Around {
  isize at[1 << MOST_UNFOLD_AXES];
  T weight[1 << MOST_UNFOLD_AXES];
  int count;

  Around() : count(1) { at[0] = 0, weight[0] = 1; }

  void along(T place, isize size) {
    if (!(place > T(-1) && place < T(size))) {
      count = 0;
      return;
    }
    const T base = infuse::floor(place), far = place - base;
    const isize low = isize(base);
    int kept = 0;
    isize next_at[1 << MOST_UNFOLD_AXES];
    T next[1 << MOST_UNFOLD_AXES];
    for (int i = 0; i < count; ++i) {
      if (low >= 0) next_at[kept] = at[i] * size + low, next[kept++] = weight[i] * (1 - far);
      if (low + 1 < size)
        next_at[kept] = at[i] * size + low + 1, next[kept++] = weight[i] * far;
    }
    count = kept;
    for (int i = 0; i < kept; ++i) at[i] = next_at[i], weight[i] = next[i];
  }
};

}  // namespace unfold_detail

/**
 * What the taps read: columns [n, count .., groups, window, c / groups] from x [n, size .., c],
 * offset [n, offset groups, window, rank, count ..] and mask [n, offset groups, window, count ..]
 * or null.
 */
template <class T>
inline void deform_columns(Context& context, const DeformShape& s, const T* x, const T* offset,
                           const T* mask, T* columns) {
  using namespace unfold_detail;
  const UnfoldShape& u = s.windows;
  const isize counts = u.counts(), window = u.window(), pixels = u.image();
  const isize depth = s.c / s.groups, part = s.c / s.offset_groups;
  context.parallel(
      s.n * counts,
      [&](isize begin, isize end, int) {
        for (isize row = begin; row < end; ++row) {
          const isize n = row / counts, spot = row % counts;
          const T* image = x + n * pixels * s.c;
          T* to = columns + row * window * s.c;
          isize start[MOST_UNFOLD_AXES];
          for (isize rest = spot, a = u.rank - 1; a >= 0; --a) {
            start[a] = rest % u.axis[a].count * u.axis[a].stride - u.axis[a].before;
            rest /= u.axis[a].count;
          }
          for (isize g = 0; g < s.offset_groups; ++g) {
            isize tap[MOST_UNFOLD_AXES] = {};
            for (isize t = 0; t < window; ++t) {
              const isize unit = (n * s.offset_groups + g) * window + t;
              Around<T> around;
              for (int a = 0; a < u.rank && around.count; ++a) {
                const T moved = offset[(unit * u.rank + a) * counts + spot];
                around.along(T(start[a] + tap[a] * u.axis[a].dilation) + moved, u.axis[a].size);
              }
              const T scale = mask ? mask[unit * counts + spot] : T(1);
              for (isize c = g * part, stop; c < (g + 1) * part; c = stop) {
                const isize group = c / depth;
                stop = (group + 1) * depth < (g + 1) * part ? (group + 1) * depth : (g + 1) * part;
                T* out = to + (group * window + t) * depth + (c - group * depth);
                const isize wide = stop - c;
                for (isize j = 0; j < wide; ++j) out[j] = 0;
                for (int i = 0; i < around.count; ++i) {
                  const T* from = image + around.at[i] * s.c + c;
                  const T weight = around.weight[i];
                  for (isize j = 0; j < wide; ++j) out[j] += from[j] * weight;
                }
                if (mask)
                  for (isize j = 0; j < wide; ++j) out[j] *= scale;
              }
              for (int a = u.rank - 1; a >= 0 && ++tap[a] == u.axis[a].kernel; --a) tap[a] = 0;
            }
          }
        }
      },
      1 + 4096 / (window * s.c + 1));
}

}  // namespace infuse
