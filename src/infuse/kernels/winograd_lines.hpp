// One dimension of a Winograd tile: Toom and Cook's algorithm at points 0, ±p and infinity.
//
// M results y[j] = sum of g[i] d[S j + i] over the R numbers of a window are
//
//   y = A^T [ (G g) * (B^T d) ]            * element by element,
//
// with N products in place of M R. Let f be the product of (x - p) over the finite points. A row of
// B^T has the coefficients of f / (x - p), that of infinity those of f; a row of G has the powers
// 1, p, p^2 ... over f'(p), a column of A^T the powers alone. Points that are pairs of signs share
// all but one operation of a row: its even and its odd part.
//
// Steps of two are two windows with steps of one, the even numbers of g and d and the odd ones. The
// odd window is shorter and has no product at infinity; at the finite points both have the same
// A^T, so that their products are summed as if they were channels: `planes`.
//
// The points are those with the least error among multiples of 1/16 and sqrt(2). The largest error of
// a result is that without Winograd times the root of the sum over points of (|A^T| |G| |B^T|)^2 / R,
// norms of their rows: 1.3 for F(2, 3), 2.7 for F(4, 3), 2.3 for F(2, 5), 5.5 for F(4, 5), 5.0 for
// F(2, 7), 12.5 for F(4, 7), 1.4 for F(3, 2), 3.1 for F(5, 2), and in steps of two 1.4 for F(2, 3), 2.1 for F(4, 3); the product of both
// in two dimensions.
#pragma once

#include "simd.hpp"

namespace infuse {
namespace detail {

// Pairs of points, and their squares.
template <int P>
struct Points;
template <>
struct Points<1> {
  static constexpr double at[] = {1}, square[] = {1};
};
template <>
struct Points<2> {
  static constexpr double at[] = {0.70710678118654752, 1.4142135623730950}, square[] = {0.5, 2};
};
template <>
struct Points<3> {
  static constexpr double at[] = {0.5, 1, 2}, square[] = {0.25, 1, 4};
};
template <>
struct Points<4> {
  static constexpr double at[] = {0.4375, 0.8125, 1.25, 2.1875};
  static constexpr double square[] = {0.19140625, 0.66015625, 1.5625, 4.78515625};
};
template <int P>
struct PointsOfSteps;
template <>
struct PointsOfSteps<1> {
  static constexpr double at[] = {1}, square[] = {1};
};
template <>
struct PointsOfSteps<2> {
  static constexpr double at[] = {0.5, 1.1875}, square[] = {0.25, 1.41015625};
};

// The product of (x - p^2) over pairs of points, less one of them.
template <int P>
struct Squares {
  double of[P + 1];

  constexpr Squares(const double* squares, int without) : of() {
    int degree = 0;
    of[0] = 1;
    for (int i = 0; i < P; ++i) {
      if (i == without) continue;
      for (int k = ++degree; k >= 0; --k)
        of[k] = (k ? of[k - 1] : 0) - (k < degree ? of[k] * squares[i] : 0);
    }
  }
};

// The sum of c[k] x[2 k] over `count` numbers, the last of which has the factor 1.
INFUSE_INLINE vf monic(const double* c, int count, const vf* x) {
  vf sum = x[2 * (count - 1)];
#pragma GCC unroll 8
  for (int k = count - 2; k >= 0; --k)
    sum = c[k] == 1 ? sum + x[2 * k] : c[k] == -1 ? sum - x[2 * k] : fma(splat(float(c[k])), x[2 * k], sum);
  return sum;
}

// of[i][j] = p^j for point i.
template <int P, int M, class At>
struct Powers {
  double of[P][M];

  constexpr Powers() : of() {
    for (int i = 0; i < P; ++i)
      for (int j = 0; j < M; ++j) of[i][j] = j ? At::at[i] * of[i][j - 1] : 1;
  }
};

// to[0], to[1], ... = the rows of B^T for the points ±p, of numbers from x on.
template <int P, class At>
INFUSE_INLINE void pairs_to_tile(const vf* x, vf* to) {
#pragma GCC unroll 4
  for (int i = 0; i < P; ++i) {
    constexpr const double* at = At::at;
    const Squares<P> q(At::square, i);
    const vf even = monic(q.of, P, x + 1), odd = monic(q.of, P, x);
    if (at[i] == 1) {
      to[2 * i] = even + odd, to[2 * i + 1] = even - odd;
    } else {
      to[2 * i] = fma(splat(float(at[i])), odd, even);
      to[2 * i + 1] = fma(splat(-float(at[i])), odd, even);
    }
  }
}

// to[j] = the sum of p^j x over the points ±p.
template <int M, int P, class At>
INFUSE_INLINE void pairs_from_tile(const vf* x, vf (&to)[M]) {
  constexpr Powers<P, M, At> powers;
  vf sums[P], differences[P];
#pragma GCC unroll 4
  for (int i = 0; i < P; ++i) {
    sums[i] = x[2 * i] + x[2 * i + 1];
    differences[i] = x[2 * i] - x[2 * i + 1];
  }
#pragma GCC unroll 5
  for (int j = 0; j < M; ++j) {
    const vf* part = j % 2 ? differences : sums;
    to[j] = powers.of[0][j] == 1 ? part[0] : part[0] * float(powers.of[0][j]);
#pragma GCC unroll 4
    for (int i = 1; i < P; ++i) {
      const double factor = powers.of[i][j];
      to[j] = factor == 1 ? to[j] + part[i] : fma(splat(float(factor)), part[i], to[j]);
    }
  }
}

}  // namespace detail

/** M results of a window of R numbers with steps of S along one dimension, by N products. */
template <int M_, int R, int S = 1>
struct Line {
  static_assert(S == 1 && (M_ + R) % 2 == 1, "points are 0, infinity and pairs");
  static constexpr int M = M_, N = M + R - 1, SPAN = N, PLANES = 1, STEP = 1, P = (N - 2) / 2;
  typedef detail::Points<P> At;

  // Planes of the point i.
  static constexpr int planes(int) { return 1; }

  static INFUSE_INLINE void to_tile(const vf (&x)[SPAN], vf (&y)[PLANES][N]) {
    const detail::Squares<P> f(At::square, -1);
    y[0][0] = detail::monic(f.of, P + 1, x);
    detail::pairs_to_tile<P, At>(x + 1, y[0] + 1);
    y[0][N - 1] = detail::monic(f.of, P + 1, x + 1);
  }
  static INFUSE_INLINE void from_tile(const vf (&x)[N], vf (&y)[M]) {
    detail::pairs_from_tile<M, P, At>(x + 1, y);
    y[0] += x[0];
    y[M - 1] += x[N - 1];
  }
};

/** Steps of two. */
template <int M_>
struct Line<M_, 3, 2> {
  static_assert(M_ % 2 == 0, "points are infinity and pairs");
  static constexpr int M = M_, N = M + 1, SPAN = 2 * M + 1, PLANES = 2, STEP = 2, P = M / 2;
  typedef detail::PointsOfSteps<P> At;

  static constexpr int planes(int i) { return i < N - 1 ? 2 : 1; }

  static INFUSE_INLINE void to_tile(const vf (&x)[SPAN], vf (&y)[PLANES][N]) {
    vf even[M + 1], odd[M];
#pragma GCC unroll 5
    for (int i = 0; i <= M; ++i) even[i] = x[2 * i];
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) odd[i] = x[2 * i + 1];
    const detail::Squares<P> f(At::square, -1);
    detail::pairs_to_tile<P, At>(even, y[0]);
    detail::pairs_to_tile<P, At>(odd, y[1]);
    y[0][N - 1] = detail::monic(f.of, P + 1, even);
    y[1][N - 1] = vf{};
  }
  static INFUSE_INLINE void from_tile(const vf (&x)[N], vf (&y)[M]) {
    detail::pairs_from_tile<M, P, At>(x, y);
    y[M - 1] += x[N - 1];
  }
};

/** A dimension in which the window is one number wide. */
template <int S>
struct Line<1, 1, S> {
  static constexpr int M = 1, N = 1, SPAN = 1, PLANES = 1, STEP = S;

  static constexpr int planes(int) { return 1; }
  static INFUSE_INLINE void to_tile(const vf (&x)[1], vf (&y)[1][1]) { y[0][0] = x[0]; }
  static INFUSE_INLINE void from_tile(const vf (&x)[1], vf (&y)[1]) { y[0] = x[0]; }
};

}  // namespace infuse
