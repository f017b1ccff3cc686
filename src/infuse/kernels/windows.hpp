// Windows over any number of axes and elements of any type, channels last: correct everywhere, fast
// where other kernels do not reach.
#pragma once
#include "math.hpp"
#include "threads.hpp"

namespace infuse {

constexpr int MOST_WINDOW_AXES = 6;

/** Sizes along one spatial axis. `after` counts only in means that count padding. */
struct WindowAxis {
  isize in, out, kernel, stride, dilation, before, after;
};

/** Images [n, in .., c] and windows over their spatial axes. */
struct Windows {
  isize n, c;
  int rank;
  WindowAxis axis[MOST_WINDOW_AXES];
};

namespace window_detail {

constexpr isize BLOCK = 64;  // channels that are summed up at once
constexpr isize GRAIN = 16384;

inline isize outputs(const Windows& w) {
  isize all = 1;
  for (int a = 0; a < w.rank; ++a) all *= w.axis[a].out;
  return all;
}

inline isize inputs(const Windows& w) {
  isize all = 1;
  for (int a = 0; a < w.rank; ++a) all *= w.axis[a].in;
  return all;
}

inline isize taps(const Windows& w) {
  isize all = 1;
  for (int a = 0; a < w.rank; ++a) all *= w.axis[a].kernel;
  return all;
}

/** One window: for every axis its first tap inside, how many lie inside, and where the first is. */
struct Place {
  isize skip[MOST_WINDOW_AXES], count[MOST_WINDOW_AXES], first[MOST_WINDOW_AXES];
  isize counted;  // taps inside the image and its padding
  isize inside;   // taps inside the image
};

inline Place place(const Windows& w, isize output) {
  Place p;
  p.counted = p.inside = 1;
  for (int a = w.rank - 1; a >= 0; --a) {
    const WindowAxis& axis = w.axis[a];
    isize start = output % axis.out * axis.stride - axis.before;
    output /= axis.out;
    auto taps_before = [&](isize end) {
      isize count = end <= start ? 0 : (end - start + axis.dilation - 1) / axis.dilation;
      return count < axis.kernel ? count : axis.kernel;
    };
    p.skip[a] = taps_before(0);
    p.count[a] = taps_before(axis.in) - p.skip[a];
    p.first[a] = start + p.skip[a] * axis.dilation;
    p.counted *= taps_before(axis.in + axis.after);
    p.inside *= p.count[a];
  }
  return p;
}

/** Calls body(tap, pixel, leading) for the taps inside; `leading` counts with the first axis fastest. */
template <class Body>
INFUSE_INLINE void each_tap(const Windows& w, const Place& p, const Body& body) {
  if (p.inside <= 0) return;
  isize at[MOST_WINDOW_AXES] = {};
  for (isize i = 0; i < p.inside; ++i) {
    isize tap = 0, pixel = 0, leading = 0, step = 1;
    for (int a = 0; a < w.rank; ++a) {
      isize inside = p.first[a] + at[a] * w.axis[a].dilation;
      tap = tap * w.axis[a].kernel + p.skip[a] + at[a];
      pixel = pixel * w.axis[a].in + inside;
      leading += inside * step;
      step *= w.axis[a].in;
    }
    body(tap, pixel, leading);
    for (int a = w.rank - 1; a >= 0 && ++at[a] == p.count[a]; --a) at[a] = 0;
  }
}

}  // namespace window_detail

/**
 * Convolution of x [n, in .., c] to y [n, out .., filters]; w [groups, taps, c / groups,
 * filters / groups], bias [filters] or null.
 */
template <class T>
inline void window_conv(Context& context, const Windows& shape, isize filters, isize groups,
                        const T* x, const T* w, const T* bias, T* y) {
  using namespace window_detail;
  isize all = outputs(shape), pixels = inputs(shape), count = taps(shape);
  isize depth = shape.c / groups, wide = filters / groups;
  context.parallel(
      shape.n * all,
      [&](isize begin, isize end, int) {
        for (isize row = begin; row < end; ++row) {
          Place p = place(shape, row % all);
          const T* image = x + row / all * pixels * shape.c;
          for (isize m = 0; m < filters;) {
            isize group = m / wide, stop = (group + 1) * wide;
            isize block = stop - m < BLOCK ? stop - m : BLOCK;
            T sum[BLOCK];
            for (isize j = 0; j < block; ++j) sum[j] = T(0);
            each_tap(shape, p, [&](isize tap, isize pixel, isize) {
              const T* from = image + pixel * shape.c + group * depth;
              const T* weight = w + (group * count + tap) * depth * wide + (m - group * wide);
              for (isize k = 0; k < depth; ++k, weight += wide)
                for (isize j = 0; j < block; ++j) sum[j] += from[k] * weight[j];
            });
            for (isize j = 0; j < block; ++j)
              y[row * filters + m + j] = bias ? T(sum[j] + bias[m + j]) : sum[j];
            m += block;
          }
        }
      },
      1 + GRAIN / (count * depth * filters + 1));
}

// What a pooling does: start, a step that takes an element, an end.

/** The mean over the `counted` elements. */
struct WindowMean {
  template <class T>
  static T step(T sum, T x) {
    return T(sum + x);
  }
  template <class T>
  T end(T sum, T counted) const {
    return T(sum / counted);
  }
};

/** (Σ |x|^p)^(1/p). */
struct WindowPower {
  double p;
  template <class T>
  T step(T sum, T x) const {
    return T(sum + infuse::pow(infuse::abs(x), T(p)));
  }
  template <class T>
  T end(T sum, T) const {
    return infuse::pow(sum, T(1 / p));
  }
};

/** Sums or means of windows: y [n, out .., c]. */
template <class T, class Op>
inline void window_sum(Context& context, const Windows& shape, bool count_padding, const Op& op,
                       const T* x, T* y) {
  using namespace window_detail;
  isize all = outputs(shape), pixels = inputs(shape);
  context.parallel(
      shape.n * all,
      [&](isize begin, isize end, int) {
        for (isize row = begin; row < end; ++row) {
          Place p = place(shape, row % all);
          const T* image = x + row / all * pixels * shape.c;
          for (isize c = 0; c < shape.c; c += BLOCK) {
            isize block = shape.c - c < BLOCK ? shape.c - c : BLOCK;
            T sum[BLOCK] = {};
            each_tap(shape, p, [&](isize, isize pixel, isize) {
              const T* from = image + pixel * shape.c + c;
              for (isize j = 0; j < block; ++j) sum[j] = op.step(sum[j], from[j]);
            });
            T counted = T(count_padding ? p.counted : p.inside);
            for (isize j = 0; j < block; ++j) y[row * shape.c + c + j] = op.end(sum[j], counted);
          }
        }
      },
      1 + GRAIN / (taps(shape) * shape.c + 1));
}

namespace window_detail {

/** The taps of a window along one axis that lie inside: the first, and the one after the last. */
struct Inside {
  isize begin, end;
};

inline Inside inside(const WindowAxis& axis, isize start) {
  Inside taps{0, axis.kernel};
  while (taps.begin < taps.end && start + taps.begin * axis.dilation < 0) ++taps.begin;
  while (taps.begin < taps.end && start + (taps.end - 1) * axis.dilation >= axis.in) --taps.end;
  return taps;
}

/** The taps of a window of a plane that lie inside, and how places in the plane are numbered. */
struct PlaneWindow {
  Inside rows, columns;
  isize top, left, down, right;  // where tap 0 is, and from each tap to the next
  isize width, row_step, column_step;

  /** Calls body(pixel, number) for every tap. */
  template <class Body>
  INFUSE_INLINE void each(const Body& body) const {
    for (isize i = rows.begin; i < rows.end; ++i)
      for (isize k = columns.begin; k < columns.end; ++k) {
        isize row = top + i * down, column = left + k * right;
        body(row * width + column, int(row * row_step + column * column_step));
      }
  }
};

/** The largest elements of some channels and the numbers of their pixels, -1 without any. */
template <class T>
INFUSE_INLINE void largest(const PlaneWindow& window, T lowest, const T* x, isize c, isize count,
                           T* best, int* found) {
  for (isize j = 0; j < count; ++j) best[j] = lowest, found[j] = -1;
  window.each([&](isize pixel, int number) {
    const T* from = x + pixel * c;
    for (isize j = 0; j < count; ++j) {
      bool better = found[j] < 0 || from[j] > best[j] || (from[j] != from[j] && best[j] == best[j]);
      best[j] = better ? from[j] : best[j];
      found[j] = better ? number : found[j];
    }
  });
}

template <class L>
INFUSE_INLINE void largest_lanes(const PlaneWindow& window, float lowest, const float* x, isize c,
                                 L lanes, float* best, int* found) {
  vf top = splat(lowest);
  vi at = splat(int32_t(-1));
  window.each([&](isize pixel, int number) {
    vf from = load(x + pixel * c, lanes);
    vi better = (at < 0) | (from > top) | ((from != from) & (top == top));
    top = select(better, from, top);
    at = select(better, splat(int32_t(number)), at);
  });
  store(best, top, lanes);
  store(found, at, lanes);
}

INFUSE_INLINE void largest(const PlaneWindow& window, float lowest, const float* x, isize c,
                           isize count, float* best, int* found) {
  isize j = 0;
  for (; j + LANES <= count; j += LANES)
    largest_lanes(window, lowest, x + j, c, Full{}, best + j, found + j);
  if (j < count) largest_lanes(window, lowest, x + j, c, Tail{int(count - j)}, best + j, found + j);
}

/** `window_max` of planes with fewer than 2^31 pixels: line by line, without a division. */
template <class T>
inline void planes_max(Context& context, const Windows& shape, T lowest, const T* x, T* y,
                       int64_t* index, bool first_leads) {
  const WindowAxis &down = shape.axis[0], &right = shape.axis[1];
  isize pixels = down.in * right.in, c = shape.c;
  context.parallel(
      shape.n * down.out,
      [&](isize begin, isize end, int) {
        PlaneWindow window;
        window.down = down.dilation, window.right = right.dilation, window.width = right.in;
        window.row_step = first_leads ? 1 : right.in;
        window.column_step = first_leads ? down.in : 1;
        for (isize line = begin; line < end; ++line) {
          isize n = line / down.out;
          window.top = line % down.out * down.stride - down.before;
          window.rows = inside(down, window.top);
          for (isize column = 0; column < right.out; ++column) {
            window.left = column * right.stride - right.before;
            window.columns = inside(right, window.left);
            T* to = y + (line * right.out + column) * c;
            int64_t* numbers = index ? index + (line * right.out + column) * c : nullptr;
            for (isize first = 0; first < c; first += BLOCK) {
              isize count = c - first < BLOCK ? c - first : BLOCK;
              int found[BLOCK];
              largest(window, lowest, x + n * pixels * c + first, c, count, to + first, found);
              if (numbers)
                for (isize j = first; j < first + count; ++j)
                  numbers[j] = (n * c + j) * pixels + found[j - first];
            }
          }
        }
      },
      1 + GRAIN / (taps(shape) * c * right.out + 1));
}

}  // namespace window_detail

/**
 * The largest element of each window, `lowest` where it has none, and its index in the input seen
 * as [n, c, in ..], or with the spatial axes reversed when the first leads; index may be null.
 */
template <class T>
inline void window_max(Context& context, const Windows& shape, T lowest, const T* x, T* y,
                       int64_t* index, bool first_leads) {
  using namespace window_detail;
  isize all = outputs(shape), pixels = inputs(shape);
  if (shape.rank == 2 && pixels < INT64_C(1) << 31) {
    planes_max(context, shape, lowest, x, y, index, first_leads);
    return;
  }
  context.parallel(
      shape.n * all,
      [&](isize begin, isize end, int) {
        for (isize row = begin; row < end; ++row) {
          Place p = place(shape, row % all);
          isize n = row / all;
          const T* image = x + n * pixels * shape.c;
          for (isize c = 0; c < shape.c; c += BLOCK) {
            isize block = shape.c - c < BLOCK ? shape.c - c : BLOCK, found[BLOCK];
            T best[BLOCK];
            for (isize j = 0; j < block; ++j) best[j] = lowest, found[j] = -1;
            each_tap(shape, p, [&](isize, isize pixel, isize leading) {
              const T* from = image + pixel * shape.c + c;
              for (isize j = 0; j < block; ++j) {
                bool better = from[j] > best[j] || (from[j] != from[j] && best[j] == best[j]);
                if (!better && found[j] >= 0) continue;
                best[j] = from[j];
                found[j] = first_leads ? leading : pixel;
              }
            });
            for (isize j = 0; j < block; ++j) {
              y[row * shape.c + c + j] = best[j];
              if (index) index[row * shape.c + c + j] = (n * shape.c + c + j) * pixels + found[j];
            }
          }
        }
      },
      1 + GRAIN / (taps(shape) * shape.c + 1));
}

}  // namespace infuse
