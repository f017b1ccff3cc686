// Discrete Fourier transforms of lines of any length: mixed radix without reordering, and Bluestein's
// algorithm where a prime factor is large. Several lines are transformed side by side.
#pragma once
#include "fourier_steps.hpp"
#include "threads.hpp"

namespace infuse {

/**
 * Where lines lie, in single numbers. Line u begins at u / group * outer + u % group * inner, and its
 * elements (pairs of real and imaginary part, or real parts only) lie `step` apart.
 */
struct FourierLines {
  isize group, outer, inner, step;
};

/**
 * `lines` transforms of length n of the first `count` elements, zeros after them. `parts` is 1 for
 * real input, 2 for complex. `out` results of each line are stored, as pairs; with `back` the inverse
 * is computed, and with `real` it is that of half a spectrum and gives real numbers.
 */
struct FourierShape {
  isize lines, n, count, parts, out;
  bool back, real;
  FourierLines from, to;
};

/** Numbers in the table of roots for transforms of length n. */
inline isize fourier_table_size(isize n) {
  const isize m = fourier_detail::inner_length(n);
  return 2 * (m == n ? n : 2 * m + 2 * n);
}

/** Bytes of scratch per worker for transforms of length n of elements of `bytes` bytes. */
inline isize fourier_scratch(isize n, isize bytes) {
  return 4 * fourier_detail::inner_length(n) * fourier_detail::side(n) * bytes + 64;
}

/** Bytes of scratch per worker to make a table. */
inline isize fourier_table_scratch(isize n, isize bytes) {
  return 4 * fourier_detail::inner_length(n) * bytes + 64;
}

/**
 * The table for transforms of length n: the roots of order n; or, for Bluestein's algorithm of inner
 * length m, those of order m, then the transform of the filter over m, the chirp, and the roots of order n.
 */
template <class T>
inline void fourier_table(Context& context, isize n, T* table) {
  using namespace fourier_detail;
  Pair<T>* w = reinterpret_cast<Pair<T>*>(table);
  const isize m = inner_length(n);
  for (isize k = 0; k < m; ++k) w[k] = root<T>(k, m);
  if (m == n) return;
  Pair<T>*filter = w + m, *chirp = filter + m, *own = chirp + n;
  isize square = 0;  // k * k mod 2n
  T* space = reinterpret_cast<T*>(context.scratch(0));
  memset(space, 0, static_cast<size_t>(2 * m) * sizeof(T));
  for (isize k = 0; k < n; ++k) {
    own[k] = root<T>(k, n);
    chirp[k] = root<T>(square, 2 * n);
    const isize mirror = k == 0 ? 0 : m - k;
    space[k] = space[mirror] = chirp[k].re;
    space[m + k] = space[m + mirror] = -chirp[k].im;
    square = (square + 2 * k + 1) % (2 * n);
  }
  const Split<T> done =
      transform<T>(m, 1, w, 1, {space, space + m}, {space + 2 * m, space + 3 * m});
  for (isize k = 0; k < m; ++k) filter[k] = {T(done.re[k] / T(m)), T(done.im[k] / T(m))};
}

namespace fourier_detail {

/** The roots of order n in a table. */
template <class T>
inline const Pair<T>* roots(isize n, const Pair<T>* table) {
  const isize m = inner_length(n);
  return m == n ? table : table + 2 * m + n;
}

/** Transforms of any length; x and y hold inner_length(n) · side numbers. */
template <class T>
inline Split<T> transform_any(isize n, isize side, const Pair<T>* table, Split<T> x, Split<T> y) {
  const isize m = inner_length(n);
  if (m == n) return transform<T>(n, side, table, 1, x, y);
  const Pair<T>*filter = table + m, *chirp = filter + m;
  for (isize k = 0; k < n; ++k)
    for (isize b = k * side; b < (k + 1) * side; ++b) {
      const T re = x.re[b], im = x.im[b];
      x.re[b] = re * chirp[k].re - im * chirp[k].im;
      x.im[b] = re * chirp[k].im + im * chirp[k].re;
    }
  const isize bytes = (m - n) * side * isize(sizeof(T));
  memset(x.re + n * side, 0, static_cast<size_t>(bytes));
  memset(x.im + n * side, 0, static_cast<size_t>(bytes));
  Split<T> there = transform<T>(m, side, table, 1, x, y);
  const Split<T> other = there.re == x.re ? y : x;
  // The inverse is the transform with both parts swapped.
  for (isize k = 0; k < m; ++k)
    for (isize b = k * side; b < (k + 1) * side; ++b) {
      const T re = there.re[b], im = there.im[b];
      there.re[b] = re * filter[k].re - im * filter[k].im;
      there.im[b] = re * filter[k].im + im * filter[k].re;
    }
  const Split<T> back = transform<T>(m, side, table, 1, {there.im, there.re}, {other.im, other.re});
  const Split<T> result = {back.im, back.re};
  for (isize k = 0; k < n; ++k)
    for (isize b = k * side; b < (k + 1) * side; ++b) {
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
  isize first, side;
  Split<T> here, there;

  isize begin(const FourierLines& lines, isize b) const {
    const isize u = first + b;
    return u / lines.group * lines.outer + u % lines.group * lines.inner;
  }

  /** Element k of a line, weighed by the window. */
  Pair<T> at(const T* line, isize k) const {
    if (k >= shape.count) return {T(0), T(0)};
    const T* p = line + k * shape.from.step;
    const T weight = window ? window[k] : T(1);
    return {T(p[0] * weight), shape.parts == 2 ? T(p[1] * weight) : T(0)};
  }

  static void give(T* p, T re, T im) {
    p[0] = re;
    p[1] = im;
  }

  void complex_lines() {
    const isize n = shape.n;
    Split<T> in = here;
    if (shape.back) in = {here.im, here.re};
    for (isize b = 0; b < side; ++b) {
      const T* line = x + begin(shape.from, b);
      for (isize k = 0; k < n; ++k) {
        const Pair<T> v = at(line, k);
        in.re[k * side + b] = v.re;
        in.im[k * side + b] = v.im;
      }
    }
    Split<T> done = transform_any<T>(n, side, table, here, there);
    if (shape.back) done = {done.im, done.re};
    const T scale = shape.back ? T(1) / T(n) : T(1);
    for (isize b = 0; b < side; ++b) {
      T* p = y + begin(shape.to, b);
      for (isize k = 0; k < shape.out; ++k, p += shape.to.step)
        give(p, T(done.re[k * side + b] * scale), T(done.im[k * side + b] * scale));
    }
  }

  /** Real lines of even length: as complex ones of half the length. */
  void real_lines() {
    const isize h = shape.n / 2;
    for (isize b = 0; b < side; ++b) {
      const T* line = x + begin(shape.from, b);
      const isize whole = window ? 0 : shape.count / 2, step = shape.from.step;
      for (isize k = 0; k < whole; ++k) {
        here.re[k * side + b] = line[2 * k * step];
        here.im[k * side + b] = line[(2 * k + 1) * step];
      }
      for (isize k = whole; k < h; ++k) {
        here.re[k * side + b] = at(line, 2 * k).re;
        here.im[k * side + b] = at(line, 2 * k + 1).re;
      }
    }
    const Split<T> z = transform<T>(h, side, table, 2, here, there);
    const Split<T> other = z.re == here.re ? there : here;
    // The sums and differences of the spectra of even and odd elements, first for all lines at once.
    for (isize i = 0; i <= h && i < shape.out; ++i) {
      const Pair<T> w = {T(table[i].re / 2), T(table[i].im / 2)};
      const isize u = (i == h ? 0 : i) * side, v = (i == 0 ? 0 : h - i) * side, to = i * side;
      for (isize b = 0; b < side; ++b) {
        const T er = (z.re[u + b] + z.re[v + b]) / 2, ei = (z.im[u + b] - z.im[v + b]) / 2;
        const T dr = z.im[u + b] + z.im[v + b], di = z.re[v + b] - z.re[u + b];
        other.re[to + b] = er + dr * w.re - di * w.im;
        other.im[to + b] = ei + dr * w.im + di * w.re;
      }
    }
    for (isize b = 0; b < side; ++b) {
      T* p = y + begin(shape.to, b);
      for (isize k = 0; k < shape.out; ++k, p += shape.to.step) {
        // The other half of the spectrum of a real line is conjugate.
        const isize i = (k <= h ? k : shape.n - k) * side + b;
        give(p, other.re[i], k <= h ? other.im[i] : T(-other.im[i]));
      }
    }
  }

  /** Half a spectrum back to a real line. */
  void half_spectra() {
    const isize n = shape.n;
    for (isize b = 0; b < side; ++b) {
      const T* line = x + begin(shape.from, b);
      for (isize k = 0; 2 * k <= n; ++k) {
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
    for (isize b = 0; b < side; ++b) {
      T* p = y + begin(shape.to, b);
      for (isize k = 0; k < shape.out; ++k) p[k * shape.to.step] = done.im[k * side + b] / T(n);
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
  const isize most = side(shape.n), size = inner_length(shape.n) * most;
  context.parallel(
      (shape.lines + most - 1) / most,
      [&](isize begin, isize end, int worker) {
        T* space = reinterpret_cast<T*>(context.scratch(worker));
        for (isize i = begin; i < end; ++i) {
          const isize left = shape.lines - i * most;
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

}  // namespace infuse
