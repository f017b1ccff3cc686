// Images sampled at given places, channels last.
#pragma once
#include "saturate.hpp"
#include "threads.hpp"

namespace infuse {

enum SampleMode { SAMPLE_NEAREST, SAMPLE_LINEAR, SAMPLE_CUBIC };
enum SamplePadding { SAMPLE_ZEROS, SAMPLE_BORDER, SAMPLE_REFLECTION };

constexpr int MOST_SAMPLE_AXES = 6;

/** Images [n, in .., c] and grids [n, points, rank]. */
struct SampleShape {
  isize n, c, points;
  int rank;
  isize in[MOST_SAMPLE_AXES];
  SampleMode mode;
  SamplePadding padding;
  bool align_corners;
};

namespace sample_detail {

/** Inputs along one axis that make an output: their element offsets and weights. */
template <class P>
struct Axis {
  isize at[4];
  P weight[4];
};

template <class P>
inline P reflected(P x, P low, P high) {
  const P span = high - low;
  if (!(span > 0)) return low;
  if (x >= low && x <= high) return x;
  const bool below = x < low;
  const P beyond = below ? low - x : x - high;
  const P times = infuse::floor(beyond / span), rest = beyond - times * span;
  const bool even = times - 2 * infuse::floor(times / 2) == 0;
  return below == even ? low + rest : high - rest;
}

template <class P>
inline P limited(P x, P low, P high) {
  return x < low ? low : x > high ? high : x;
}

/** The place along an axis, brought into the image as the padding says. */
template <class P>
inline P settled(const SampleShape& s, P x, isize size) {
  const P low = s.align_corners ? P(0) : P(-0.5), high = P(size - 1) - low;
  if (s.padding == SAMPLE_REFLECTION) return reflected(x, low, high);
  if (s.padding == SAMPLE_BORDER && s.mode != SAMPLE_CUBIC)  // its taps are limited alone
    return x < low || x > high ? limited(x, P(0), P(size - 1)) : x;
  return limited(x, P(-9), P(size + 8));
}

// Weights of pixels at distances t and 1 + t, where rest = 1 - t: no rounding turns their signs.
template <class P>
inline P cubic_near(P t, P rest) {
  return rest * (1 + t - P(1.25) * t * t);
}
template <class P>
inline P cubic_far(P t, P rest) {
  return P(-0.75) * t * (rest * rest);
}

/** The taps at a place of the grid; how many. */
template <class P>
inline int axis_taps(const SampleShape& s, P g, isize size, isize stride, Axis<P>* axis) {
  P x = s.align_corners ? (g + 1) / 2 * P(size - 1) : ((g + 1) * P(size) - 1) / 2;
  if (!(x > -__builtin_inf() && x < __builtin_inf())) x = P(-100);
  const bool nearest = s.mode == SAMPLE_NEAREST;
  x = settled(s, nearest ? infuse::round(x) : x, size);
  const P base = nearest ? P(isize(x)) : infuse::floor(x), t = x - base;
  const int count = nearest ? 1 : s.mode == SAMPLE_LINEAR ? 2 : 4;
  if (nearest) {
    axis->weight[0] = 1;
  } else if (count == 2) {
    axis->weight[0] = 1 - t, axis->weight[1] = t;
  } else {
    const P rest = 1 - t;
    axis->weight[0] = cubic_far(t, rest), axis->weight[1] = cubic_near(t, rest);
    axis->weight[2] = cubic_near(rest, t), axis->weight[3] = cubic_far(rest, t);
  }
  const isize first = isize(base) - (count == 4);
  for (int k = 0; k < count; ++k) {
    isize at = first + k;
    if (s.padding == SAMPLE_ZEROS && (at < 0 || at >= size)) axis->weight[k] = 0;
    if (s.padding == SAMPLE_REFLECTION) {
      const P low = s.align_corners ? P(0) : P(-0.5);
      at = isize(reflected(P(at), low, P(size - 1) - low));
    }
    axis->at[k] = limited(at, isize(0), size - 1) * stride;
  }
  return count;
}

constexpr int MOST_TAPS = 4096;  // cubic in six dimensions

/** The taps of one point that weigh something. */
template <class P, int Most>
struct Point {
  isize offset[Most];
  P weight[Most];
  int count;

  Point(const SampleShape& s, const P* grid) : count(1) {
    offset[0] = 0, weight[0] = 1;
    isize stride = s.c;
    for (int a = s.rank - 1; a >= 0; --a) {
      Axis<P> axis;
      const int taps = axis_taps(s, grid[s.rank - 1 - a], s.in[a], stride, &axis);
      stride *= s.in[a];
      for (int k = taps - 1; k >= 0; --k)
        for (int i = 0; i < count; ++i) {
          offset[k * count + i] = offset[i] + axis.at[k];
          weight[k * count + i] = weight[i] * axis.weight[k];
        }
      count *= taps;
    }
    int kept = 0;
    for (int i = 0; i < count; ++i)
      if (weight[i] != 0) offset[kept] = offset[i], weight[kept++] = weight[i];
    count = kept;
  }
};

/** The type in which elements are weighed. */
template <class T>
struct Wide {
  typedef double type;
};
template <>
struct Wide<float> {
  typedef float type;
};

/** At most `Most` channels of one point. */
template <isize Most, class W, class T, class Taps>
INFUSE_INLINE void channels(const Taps& point, const T* image, isize wide, T* to) {
  W sum[Most] = {};
  for (int i = 0; i < point.count; ++i) {
    const T* from = image + point.offset[i];
    for (isize j = 0; j < wide; ++j) sum[j] += W(from[j]) * W(point.weight[i]);
  }
  for (isize j = 0; j < wide; ++j) to[j] = saturated<T>(sum[j]);
}

/** The points [begin, end), each of at most `Most` taps. */
template <int Most, class T, class P>
inline void sample_points(const SampleShape& s, isize pixels, const T* x, const P* grid, T* y,
                          isize begin, isize end) {
  typedef typename Wide<T>::type W;
  constexpr isize BLOCK = 64;
  for (isize row = begin; row < end; ++row) {
    const T* image = x + row / s.points * pixels * s.c;
    T* to = y + row * s.c;
    const Point<P, Most> point(s, grid + row * s.rank);
    if (s.mode == SAMPLE_NEAREST) {
      for (isize j = 0; j < s.c; ++j) to[j] = point.count ? image[point.offset[0] + j] : T(0);
      continue;
    }
    if (s.c == 1) channels<1, W>(point, image, 1, to);
    else if (s.c == 3) channels<3, W>(point, image, 3, to);
    else
      for (isize c = 0; c < s.c; c += BLOCK) {
        if (s.c - c >= BLOCK)
          channels<BLOCK, W>(point, image + c, BLOCK, to + c);
        else
          channels<BLOCK, W>(point, image + c, s.c - c, to + c);
      }
  }
}

}  // namespace sample_detail

/** y [n, points, c] from x [n, in .., c] at the places of the grid. */
template <class T, class P>
inline void grid_sample(Context& context, const SampleShape& s, const T* x, const P* grid, T* y) {
  using namespace sample_detail;
  isize pixels = 1, taps = 1;
  for (int a = 0; a < s.rank; ++a)
    pixels *= s.in[a], taps *= s.mode == SAMPLE_NEAREST ? 1 : s.mode == SAMPLE_LINEAR ? 2 : 4;
  context.parallel(
      s.n * s.points,
      [&](isize begin, isize end, int) {
        if (taps <= 16)
          sample_points<16>(s, pixels, x, grid, y, begin, end);
        else
          sample_points<MOST_TAPS>(s, pixels, x, grid, y, begin, end);
      },
      1 + 4096 / (taps * (s.c + 8)));
}

/** The grid [n, out .., rank] of an image of `size`, multiplied by theta [n, rank, rank + 1]. */
template <class T>
inline void affine_grid(Context& context, isize n, int rank, const isize* size, bool align_corners,
                        const T* theta, T* y) {
  isize points = 1;
  for (int a = 0; a < rank; ++a) points *= size[a];
  context.parallel(
      n * points,
      [&](isize begin, isize end, int) {
        for (isize row = begin; row < end; ++row) {
          const T* matrix = theta + row / points * rank * (rank + 1);
          isize rest = row % points;
          T at[3];
          for (int a = rank - 1; a >= 0; --a) {
            const isize i = rest % size[a], last = size[a] - 1;
            rest /= size[a];
            at[rank - 1 - a] = !align_corners ? T(2 * i + 1) / T(size[a]) - 1
                               : last > 0     ? T(2 * i) / T(last) - 1
                                              : T(0);
          }
          for (int r = 0; r < rank; ++r) {
            T sum = T(0) + matrix[r * (rank + 1) + rank];
            for (int k = 0; k < rank; ++k) sum += matrix[r * (rank + 1) + k] * at[k];
            y[row * rank + r] = sum;
          }
        }
      },
      2048);
}

}  // namespace infuse
