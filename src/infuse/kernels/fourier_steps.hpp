// The steps of a mixed-radix Fourier transform, on several lines side by side.
#pragma once
#include "simd.hpp"

namespace infuse {

namespace fourier_detail {

constexpr isize MOST_RADIX = 13;
constexpr double PI = 3.14159265358979323846;

/** Lines that are transformed at once: as many as fill a vector, but for long lines. */
inline isize side(isize n) { return n <= 4096 ? INFUSE_LANES : 1; }

/** n without its prime factors up to MOST_RADIX. */
inline isize rough(isize n) {
  for (isize f = 2; f <= MOST_RADIX; ++f)
    while (n % f == 0 && n > 1) n /= f;
  return n;
}

/** The length of the transforms that make one of length n. */
inline isize inner_length(isize n) {
  if (n <= 1 || rough(n) == 1) return n;
  isize m = 1;
  while (m < 2 * n - 1) m *= 2;
  return m;
}

template <class T>
struct Pair {
  T re, im;
};

/** exp(-2 pi i k / n). */
template <class T>
inline Pair<T> root(isize k, isize n) {
  // Exact for the quarters, and as exact as libm is around them.
  const isize eighth = 8 * (k % n) / n;
  const isize turned = 4 * (k % n) - (eighth + 1) / 2 * n;
  const double angle = PI / 2 * (static_cast<double>(turned) / static_cast<double>(n));
  const double c = __builtin_cos(angle), s = -__builtin_sin(angle);
  switch ((eighth + 1) / 2 % 4) {
    case 0: return {T(c), T(s)};
    case 1: return {T(s), T(-c)};
    case 2: return {T(-c), T(-s)};
    default: return {T(-s), T(c)};
  }
}

template <class T>
struct Vector {
  typedef T type __attribute__((vector_size(INFUSE_LANES * 4)));
  static constexpr isize count = INFUSE_LANES * 4 / isize(sizeof(T));
};

template <class V, class T>
INFUSE_INLINE V take(const T* p) {
  V v;
  memcpy(&v, p, sizeof v);
  return v;
}
template <class V, class T>
INFUSE_INLINE void put(T* p, V v) {
  memcpy(p, &v, sizeof v);
}

/** Calls body(q, V{}) for whole vectors, body(q, T{}) for the rest of [0, s). */
template <class T, class Body>
INFUSE_INLINE void each(isize s, const Body& body) {
  typedef typename Vector<T>::type V;
  isize q = 0;
  for (; q + Vector<T>::count <= s; q += Vector<T>::count) body(q, V{});
  for (; q < s; ++q) body(q, T{});
}

/** Real and imaginary parts of numbers, apart. */
template <class T>
struct Split {
  T *re, *im;
};

template <class V, class T>
INFUSE_INLINE void put_turned(Split<T> y, isize at, V re, V im, Pair<T> w) {
  put(y.re + at, V(re * w.re - im * w.im));
  put(y.im + at, V(re * w.im + im * w.re));
}

/** One step: m · radix numbers that lie s apart; `stretch` roots of the table are one of this step. */
template <class T>
inline void step2(isize m, isize s, isize stretch, const Pair<T>* w, Split<T> x, Split<T> y) {
  for (isize p = 0; p < m; ++p) {
    const Pair<T> w1 = w[p * stretch];
    const isize a = s * p, b = s * (p + m), to = 2 * s * p;
    each<T>(s, [&](isize q, auto tag) __attribute__((always_inline)) {
      typedef decltype(tag) V;
      const V ar = take<V>(x.re + a + q), ai = take<V>(x.im + a + q);
      const V br = take<V>(x.re + b + q), bi = take<V>(x.im + b + q);
      put(y.re + to + q, V(ar + br));
      put(y.im + to + q, V(ai + bi));
      put_turned<V>(y, to + s + q, V(ar - br), V(ai - bi), w1);
    });
  }
}

template <class T>
inline void step4(isize m, isize s, isize stretch, const Pair<T>* w, Split<T> x, Split<T> y) {
  for (isize p = 0; p < m; ++p) {
    const Pair<T> w1 = w[p * stretch], w2 = w[2 * p * stretch], w3 = w[3 * p * stretch];
    const isize at = s * p, to = 4 * s * p, far = s * m;
    each<T>(s, [&](isize q, auto tag) __attribute__((always_inline)) {
      typedef decltype(tag) V;
      const T *re = x.re + at + q, *im = x.im + at + q;
      const V ar = take<V>(re), br = take<V>(re + far), cr = take<V>(re + 2 * far);
      const V dr = take<V>(re + 3 * far), ai = take<V>(im), bi = take<V>(im + far);
      const V ci = take<V>(im + 2 * far), di = take<V>(im + 3 * far);
      const V sr = ar + cr, si = ai + ci, tr = ar - cr, ti = ai - ci;
      const V ur = br + dr, ui = bi + di, vr = br - dr, vi_ = bi - di;
      put(y.re + to + q, V(sr + ur));
      put(y.im + to + q, V(si + ui));
      put_turned<V>(y, to + s + q, V(tr + vi_), V(ti - vr), w1);
      put_turned<V>(y, to + 2 * s + q, V(sr - ur), V(si - ui), w2);
      put_turned<V>(y, to + 3 * s + q, V(tr - vi_), V(ti + vr), w3);
    });
  }
}

/** A step of any odd radix: pairs of numbers from both ends are added and subtracted first. */
template <class T, int Radix>
inline void step_odd(isize n, isize m, isize s, isize stretch, const Pair<T>* w, Split<T> x,
                     Split<T> y) {
  constexpr int HALF = Radix / 2;
  Pair<T> unit[Radix];
  for (isize k = 0; k < Radix; ++k) unit[k] = w[n / Radix * k];
  for (isize p = 0; p < m; ++p) {
    Pair<T> turn[Radix];
    for (isize k = 1; k < Radix; ++k) turn[k] = w[p * k * stretch];
    const isize at = s * p, to = Radix * s * p, far = s * m;
    each<T>(s, [&](isize q, auto tag) __attribute__((always_inline)) {
      typedef decltype(tag) V;
      const T *re = x.re + at + q, *im = x.im + at + q;
      V ar[HALF], ai[HALF], br[HALF], bi[HALF];
      const V zr = take<V>(re), zi = take<V>(im);
      V total_r = zr, total_i = zi;
      for (int j = 0; j < HALF; ++j) {
        const V fr = take<V>(re + (j + 1) * far), fi = take<V>(im + (j + 1) * far);
        const V gr = take<V>(re + (Radix - 1 - j) * far), gi = take<V>(im + (Radix - 1 - j) * far);
        ar[j] = fr + gr, ai[j] = fi + gi, br[j] = fr - gr, bi[j] = fi - gi;
        total_r += ar[j];
        total_i += ai[j];
      }
      put(y.re + to + q, total_r);
      put(y.im + to + q, total_i);
      for (int k = 1; k <= HALF; ++k) {
        V er = zr, ei = zi, or_ = V{}, oi = V{};
        for (int j = 0; j < HALF; ++j) {
          const Pair<T> u = unit[k * (j + 1) % Radix];
          er += ar[j] * u.re;
          ei += ai[j] * u.re;
          or_ += bi[j] * u.im;
          oi += br[j] * u.im;
        }
        put_turned<V>(y, to + k * s + q, V(er - or_), V(ei + oi), turn[k]);
        put_turned<V>(y, to + (Radix - k) * s + q, V(er + or_), V(ei - oi), turn[Radix - k]);
      }
    });
  }
}

/**
 * `side` transforms of length n at once, n without prime factors over MOST_RADIX: element k of line b
 * at k · side + b. `w` are the roots of order n · stride. The result is where the returned pair says.
 */
template <class T>
inline Split<T> transform(isize n, isize side, const Pair<T>* w, isize stride, Split<T> x, Split<T> y) {
  isize rest = n, s = side;
  // Every step has the radix of one factor; the roots of its order lie n / rest apart.
  while (rest > 1) {
    const isize stretch = n / rest * stride, order = n * stride;
    isize radix = rest % 4 == 0 ? 4 : 2;
    while (rest % radix != 0) radix += radix == 2 ? 1 : 2;
    const isize m = rest / radix;
    switch (radix) {
      case 2: step2(m, s, stretch, w, x, y); break;
      case 3: step_odd<T, 3>(order, m, s, stretch, w, x, y); break;
      case 4: step4(m, s, stretch, w, x, y); break;
      case 5: step_odd<T, 5>(order, m, s, stretch, w, x, y); break;
      case 7: step_odd<T, 7>(order, m, s, stretch, w, x, y); break;
      case 11: step_odd<T, 11>(order, m, s, stretch, w, x, y); break;
      default: step_odd<T, 13>(order, m, s, stretch, w, x, y); break;
    }
    rest = m;
    s *= radix;
    const Split<T> swapped = x;
    x = y;
    y = swapped;
  }
  return x;
}

}  // namespace fourier_detail

}  // namespace infuse
