// Discrete Fourier transforms of lines of any length: mixed radix without reordering, and Bluestein's
// algorithm where a prime factor is large. Several lines are transformed side by side.
#pragma once
#include "simd.hpp"
#include "threads.hpp"

namespace infuse {

/**
 * Where lines lie, in single numbers. Line u begins at u / group * outer + u % group * inner, and its
 * elements (pairs of real and imaginary part, or real parts only) lie `step` apart.
 */
struct FourierLines {
  long group, outer, inner, step;
};

/**
 * `lines` transforms of length n of the first `count` elements, zeros after them. `parts` is 1 for
 * real input, 2 for complex. `out` results of each line are stored, as pairs; with `back` the inverse
 * is computed, and with `real` it is that of half a spectrum and gives real numbers.
 */
struct FourierShape {
  long lines, n, count, parts, out;
  bool back, real;
  FourierLines from, to;
};

namespace fourier_detail {

constexpr long MOST_RADIX = 13;
constexpr double PI = 3.14159265358979323846;

/** Lines that are transformed at once: as many as fill a vector, but for long lines. */
inline long side(long n) { return n <= 4096 ? INFUSE_LANES : 1; }

/** n without its prime factors up to MOST_RADIX. */
inline long rough(long n) {
  for (long f = 2; f <= MOST_RADIX; ++f)
    while (n % f == 0 && n > 1) n /= f;
  return n;
}

/** The length of the transforms that make one of length n. */
inline long inner_length(long n) {
  if (n <= 1 || rough(n) == 1) return n;
  long m = 1;
  while (m < 2 * n - 1) m *= 2;
  return m;
}

template <class T>
struct Pair {
  T re, im;
};

/** exp(-2 pi i k / n). */
template <class T>
inline Pair<T> root(long k, long n) {
  // Exact for the quarters, and as exact as libm is around them.
  const long eighth = 8 * (k % n) / n;
  const long turned = 4 * (k % n) - (eighth + 1) / 2 * n;
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
  static constexpr long count = INFUSE_LANES * 4 / long(sizeof(T));
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
INFUSE_INLINE void each(long s, const Body& body) {
  typedef typename Vector<T>::type V;
  long q = 0;
  for (; q + Vector<T>::count <= s; q += Vector<T>::count) body(q, V{});
  for (; q < s; ++q) body(q, T{});
}

/** Real and imaginary parts of numbers, apart. */
template <class T>
struct Split {
  T *re, *im;
};

template <class V, class T>
INFUSE_INLINE void put_turned(Split<T> y, long at, V re, V im, Pair<T> w) {
  put(y.re + at, V(re * w.re - im * w.im));
  put(y.im + at, V(re * w.im + im * w.re));
}

/** One step: m · radix numbers that lie s apart; `stretch` roots of the table are one of this step. */
template <class T>
inline void step2(long m, long s, long stretch, const Pair<T>* w, Split<T> x, Split<T> y) {
  for (long p = 0; p < m; ++p) {
    const Pair<T> w1 = w[p * stretch];
    const long a = s * p, b = s * (p + m), to = 2 * s * p;
    each<T>(s, [&](long q, auto tag) __attribute__((always_inline)) {
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
inline void step4(long m, long s, long stretch, const Pair<T>* w, Split<T> x, Split<T> y) {
  for (long p = 0; p < m; ++p) {
    const Pair<T> w1 = w[p * stretch], w2 = w[2 * p * stretch], w3 = w[3 * p * stretch];
    const long at = s * p, to = 4 * s * p, far = s * m;
    each<T>(s, [&](long q, auto tag) __attribute__((always_inline)) {
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
inline void step_odd(long n, long m, long s, long stretch, const Pair<T>* w, Split<T> x,
                     Split<T> y) {
  constexpr int HALF = Radix / 2;
  Pair<T> unit[Radix];
  for (long k = 0; k < Radix; ++k) unit[k] = w[n / Radix * k];
  for (long p = 0; p < m; ++p) {
    Pair<T> turn[Radix];
    for (long k = 1; k < Radix; ++k) turn[k] = w[p * k * stretch];
    const long at = s * p, to = Radix * s * p, far = s * m;
    each<T>(s, [&](long q, auto tag) __attribute__((always_inline)) {
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
inline Split<T> transform(long n, long side, const Pair<T>* w, long stride, Split<T> x, Split<T> y) {
  long rest = n, s = side;
  // Every step has the radix of one factor; the roots of its order lie n / rest apart.
  while (rest > 1) {
    const long stretch = n / rest * stride, order = n * stride;
    long radix = rest % 4 == 0 ? 4 : 2;
    while (rest % radix != 0) radix += radix == 2 ? 1 : 2;
    const long m = rest / radix;
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

/** Numbers in the table of roots for transforms of length n. */
inline long fourier_table_size(long n) {
  const long m = fourier_detail::inner_length(n);
  return 2 * (m == n ? n : 2 * m + 2 * n);
}

/** Bytes of scratch per worker for transforms of length n of elements of `bytes` bytes. */
inline long fourier_scratch(long n, long bytes) {
  return 4 * fourier_detail::inner_length(n) * fourier_detail::side(n) * bytes + 64;
}

/** Bytes of scratch per worker to make a table. */
inline long fourier_table_scratch(long n, long bytes) {
  return 4 * fourier_detail::inner_length(n) * bytes + 64;
}

/**
 * The table for transforms of length n: the roots of order n; or, for Bluestein's algorithm of inner
 * length m, those of order m, then the transform of the filter over m, the chirp, and the roots of order n.
 */
template <class T>
inline void fourier_table(Context& context, long n, T* table) {
  using namespace fourier_detail;
  Pair<T>* w = reinterpret_cast<Pair<T>*>(table);
  const long m = inner_length(n);
  for (long k = 0; k < m; ++k) w[k] = root<T>(k, m);
  if (m == n) return;
  Pair<T>*filter = w + m, *chirp = filter + m, *own = chirp + n;
  long square = 0;  // k * k mod 2n
  T* space = reinterpret_cast<T*>(context.scratch(0));
  memset(space, 0, static_cast<size_t>(2 * m) * sizeof(T));
  for (long k = 0; k < n; ++k) {
    own[k] = root<T>(k, n);
    chirp[k] = root<T>(square, 2 * n);
    const long mirror = k == 0 ? 0 : m - k;
    space[k] = space[mirror] = chirp[k].re;
    space[m + k] = space[m + mirror] = -chirp[k].im;
    square = (square + 2 * k + 1) % (2 * n);
  }
  const Split<T> done =
      transform<T>(m, 1, w, 1, {space, space + m}, {space + 2 * m, space + 3 * m});
  for (long k = 0; k < m; ++k) filter[k] = {T(done.re[k] / T(m)), T(done.im[k] / T(m))};
}

namespace fourier_detail {

/** The roots of order n in a table. */
template <class T>
inline const Pair<T>* roots(long n, const Pair<T>* table) {
  const long m = inner_length(n);
  return m == n ? table : table + 2 * m + n;
}

/** Transforms of any length; x and y hold inner_length(n) · side numbers. */
template <class T>
inline Split<T> transform_any(long n, long side, const Pair<T>* table, Split<T> x, Split<T> y) {
  const long m = inner_length(n);
  if (m == n) return transform<T>(n, side, table, 1, x, y);
  const Pair<T>*filter = table + m, *chirp = filter + m;
  for (long k = 0; k < n; ++k)
    for (long b = k * side; b < (k + 1) * side; ++b) {
      const T re = x.re[b], im = x.im[b];
      x.re[b] = re * chirp[k].re - im * chirp[k].im;
      x.im[b] = re * chirp[k].im + im * chirp[k].re;
    }
  const long bytes = (m - n) * side * long(sizeof(T));
  memset(x.re + n * side, 0, static_cast<size_t>(bytes));
  memset(x.im + n * side, 0, static_cast<size_t>(bytes));
  Split<T> there = transform<T>(m, side, table, 1, x, y);
  const Split<T> other = there.re == x.re ? y : x;
  // The inverse is the transform with both parts swapped.
  for (long k = 0; k < m; ++k)
    for (long b = k * side; b < (k + 1) * side; ++b) {
      const T re = there.re[b], im = there.im[b];
      there.re[b] = re * filter[k].re - im * filter[k].im;
      there.im[b] = re * filter[k].im + im * filter[k].re;
    }
  const Split<T> back = transform<T>(m, side, table, 1, {there.im, there.re}, {other.im, other.re});
  const Split<T> result = {back.im, back.re};
  for (long k = 0; k < n; ++k)
    for (long b = k * side; b < (k + 1) * side; ++b) {
      const T re = result.re[b], im = result.im[b];
      result.re[b] = re * chirp[k].re - im * chirp[k].im;
      result.im[b] = re * chirp[k].im + im * chirp[k].re;
    }
  return result;
}

/** A few lines side by side: where they begin in memory, and the space to work in. */
template <class T>
struct Batch {
  const FourierShape& shape;
  const T* x;
  const T* window;
  T* y;
  const Pair<T>* table;
  long first, side;
  Split<T> here, there;

  long begin(const FourierLines& lines, long b) const {
    const long u = first + b;
    return u / lines.group * lines.outer + u % lines.group * lines.inner;
  }

  /** Element k of a line, weighed by the window. */
  Pair<T> at(const T* line, long k) const {
    if (k >= shape.count) return {T(0), T(0)};
    const T* p = line + k * shape.from.step;
    const T weight = window ? window[k] : T(1);
    return {T(p[0] * weight), shape.parts == 2 ? T(p[1] * weight) : T(0)};
  }

  void give(long k, long b, T re, T im) const {
    T* p = y + begin(shape.to, b) + k * shape.to.step;
    p[0] = re;
    p[1] = im;
  }

  void complex_lines() {
    const long n = shape.n;
    Split<T> in = here;
    if (shape.back) in = {here.im, here.re};
    for (long b = 0; b < side; ++b) {
      const T* line = x + begin(shape.from, b);
      for (long k = 0; k < n; ++k) {
        const Pair<T> v = at(line, k);
        in.re[k * side + b] = v.re;
        in.im[k * side + b] = v.im;
      }
    }
    Split<T> done = transform_any<T>(n, side, table, here, there);
    if (shape.back) done = {done.im, done.re};
    const T scale = shape.back ? T(1) / T(n) : T(1);
    for (long b = 0; b < side; ++b)
      for (long k = 0; k < shape.out; ++k)
        give(k, b, T(done.re[k * side + b] * scale), T(done.im[k * side + b] * scale));
  }

  /** Real lines of even length: as complex ones of half the length. */
  void real_lines() {
    const long h = shape.n / 2;
    for (long b = 0; b < side; ++b) {
      const T* line = x + begin(shape.from, b);
      for (long k = 0; k < h; ++k) {
        here.re[k * side + b] = at(line, 2 * k).re;
        here.im[k * side + b] = at(line, 2 * k + 1).re;
      }
    }
    const Split<T> z = transform<T>(h, side, table, 2, here, there);
    for (long b = 0; b < side; ++b) {
      for (long k = 0; k < shape.out; ++k) {
        // The spectrum of a real line: the other half is conjugate.
        const long i = k <= h ? k : shape.n - k;
        const long u = (i == h ? 0 : i) * side + b, v = (i == 0 ? 0 : h - i) * side + b;
        const T er = (z.re[u] + z.re[v]) / 2, ei = (z.im[u] - z.im[v]) / 2;
        const T dr = (z.im[u] + z.im[v]) / 2, di = (z.re[v] - z.re[u]) / 2;
        const Pair<T> w = table[i];
        const T re = er + dr * w.re - di * w.im, im = ei + dr * w.im + di * w.re;
        give(k, b, re, k <= h ? im : T(-im));
      }
    }
  }

  /** Half a spectrum back to a real line. */
  void half_spectra() {
    const long n = shape.n;
    for (long b = 0; b < side; ++b) {
      const T* line = x + begin(shape.from, b);
      for (long k = 0; 2 * k <= n; ++k) {
        Pair<T> v = at(line, k);
        if (k == 0 || 2 * k == n) v.im = T(0);
        // Both parts swapped.
        here.re[k * side + b] = v.im;
        here.im[k * side + b] = v.re;
        if (k == 0 || 2 * k == n) continue;
        here.re[(n - k) * side + b] = -v.im;
        here.im[(n - k) * side + b] = v.re;
      }
    }
    const Split<T> done = transform_any<T>(n, side, table, here, there);
    for (long b = 0; b < side; ++b) {
      T* p = y + begin(shape.to, b);
      for (long k = 0; k < shape.out; ++k) p[k * shape.to.step] = done.im[k * side + b] / T(n);
    }
  }

  void run() {
    if (shape.real)
      half_spectra();
    else if (shape.parts == 1 && !shape.back && shape.n % 2 == 0 && inner_length(shape.n) == shape.n)
      real_lines();
    else
      complex_lines();
  }
};

}  // namespace fourier_detail

/**
 * The transforms that `shape` describes; `window` (null: ones) weighs the elements of every line, and
 * `table` is that of fourier_table. Needs fourier_scratch.
 */
template <class T>
inline void fourier(Context& context, const FourierShape& shape, const T* x, const T* window,
                    const T* table, T* y) {
  using namespace fourier_detail;
  if (shape.n <= 0) return;
  const long most = side(shape.n), size = inner_length(shape.n) * most;
  context.parallel(
      (shape.lines + most - 1) / most,
      [&](long begin, long end, int worker) {
        T* space = reinterpret_cast<T*>(context.scratch(worker));
        for (long i = begin; i < end; ++i) {
          const long left = shape.lines - i * most;
          Batch<T> batch = {shape,
                            x,
                            window,
                            y,
                            reinterpret_cast<const Pair<T>*>(table),
                            i * most,
                            left < most ? left : most,
                            {space, space + size},
                            {space + 2 * size, space + 3 * size}};
          batch.run();
        }
      },
      1 + 4096 / (shape.n * most));
}

/**
 * Weights of `bins` triangular filters over the places 0 … length / 2 of a spectrum, equally wide in mel;
 * y [length / 2 + 1, bins]. False when a filter lies outside of the spectrum.
 */
template <class T>
inline bool mel_weights(long bins, long length, double rate, double lower, double upper, T* y) {
  const long rows = length / 2 + 1;
  const double ln10 = __builtin_log(10.0);
  const double low = 2595 * __builtin_log1p(lower / 700) / ln10;
  const double high = 2595 * __builtin_log1p(upper / 700) / ln10;
  const double step = (high - low) / static_cast<double>(bins + 2);
  const auto place = [&](long i) {
    const double hertz = 700 * __builtin_expm1((static_cast<double>(i) * step + low) / 2595 * ln10);
    return __builtin_floor(static_cast<double>(length + 1) * hertz / rate);
  };
  for (long i = 0; i < rows * bins; ++i) y[i] = T(0.0f);
  for (long i = 0; i < bins; ++i) {
    const double edges[3] = {place(i), place(i + 1), place(i + 2)};
    if (!(edges[0] >= 0 && edges[1] < static_cast<double>(rows) && edges[1] >= edges[0])) return false;
    if (!(edges[2] <= static_cast<double>(rows) && edges[2] >= edges[1])) return false;
    const long left = long(edges[0]), center = long(edges[1]), right = long(edges[2]);
    if (center == left) y[center * bins + i] = T(1.0f);
    for (long j = left; center > left && j <= center; ++j)
      y[j * bins + i] = T(static_cast<double>(j - left) / static_cast<double>(center - left));
    for (long j = center; j < right; ++j)
      y[j * bins + i] = T(static_cast<double>(right - j) / static_cast<double>(right - center));
  }
  return true;
}

}  // namespace infuse
