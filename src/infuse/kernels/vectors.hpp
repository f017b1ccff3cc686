// Support vector machines: distances from vectors, probabilities from those of pairs.
#pragma once
#include "simd.hpp"
#include "threads.hpp"

namespace infuse {

/** y[row, v] = the square of the distance of x[row] from vector v; the vectors lie as [width, padded]. */
template <class T>
inline void square_distances(Context& context, isize rows, isize width, isize count, isize padded,
                             const T* x, const T* vectors, T* y) {
  constexpr isize WIDE = 64 / sizeof(T) * 2;
  context.parallel(
      rows,
      [&](isize begin, isize end, int) {
        for (isize row = begin; row < end; ++row) {
          for (isize first = 0; first < count; first += WIDE) {
            T sums[WIDE] = {};
            for (isize k = 0; k < width; ++k) {
              const T at = x[row * width + k];
              const T* other = vectors + k * padded + first;
              for (isize v = 0; v < WIDE; ++v) {
                const T apart = at - other[v];
                sums[v] += apart * apart;
              }
            }
            const isize last = count - first < WIDE ? count - first : WIDE;
            for (isize v = 0; v < last; ++v) y[row * count + first + v] = sums[v];
          }
        }
      },
      1 + 16384 / (width * padded + 1));
}

/** Bytes of scratch per worker for couple_pairs. */
inline isize couple_pairs_scratch(isize classes) {
  return (2 * classes * classes + 2 * classes) * isize(sizeof(double)) + CACHE_LINE;
}

/**
 * Probabilities of classes that fit best to those of all pairs (the first of two is meant), as libsvm iterates.
 * pairs[rows, classes · (classes - 1) / 2], y[rows, classes]. Needs couple_pairs_scratch(classes).
 */
template <class T>
inline void couple_pairs(Context& context, isize rows, isize classes, const T* pairs, T* y) {
  const isize n = classes, count = n * (n - 1) / 2;
  context.parallel(
      rows,
      [&](isize begin, isize end, int worker) {
        double* r = reinterpret_cast<double*>(context.scratch(worker));
        double *q = r + n * n, *p = q + n * n, *slope = p + n;
        for (isize row = begin; row < end; ++row) {
          const T* given = pairs + row * count;
          for (isize i = 0; i < n; ++i)
            for (isize j = i + 1; j < n; ++j) {
              r[i * n + j] = double(*given++);
              r[j * n + i] = 1 - r[i * n + j];
            }
          for (isize i = 0; i < n; ++i) {
            p[i] = 1.0 / double(n);
            q[i * n + i] = 0;
            for (isize j = 0; j < n; ++j) {
              if (j == i) continue;
              q[i * n + i] += r[j * n + i] * r[j * n + i];
              q[i * n + j] = -r[j * n + i] * r[i * n + j];
            }
          }
          for (isize round = 0; round < (n > 100 ? n : 100); ++round) {
            double total = 0, worst = 0;
            for (isize i = 0; i < n; ++i) {
              slope[i] = 0;
              for (isize j = 0; j < n; ++j) slope[i] += q[i * n + j] * p[j];
              total += p[i] * slope[i];
            }
            for (isize i = 0; i < n; ++i) {
              const double error = slope[i] < total ? total - slope[i] : slope[i] - total;
              if (!(error <= worst) && worst == worst) worst = error;
            }
            if (worst < 0.005 / double(n)) break;
            for (isize i = 0; i < n; ++i) {
              const double own = q[i * n + i], change = (total - slope[i]) / own, all = 1 + change;
              p[i] += change;
              total = (total + change * (change * own + 2 * slope[i])) / (all * all);
              for (isize j = 0; j < n; ++j) {
                slope[j] = (slope[j] + change * q[i * n + j]) / all;
                p[j] /= all;
              }
            }
          }
          for (isize i = 0; i < n; ++i) y[row * n + i] = T(p[i]);
        }
      },
      1 + 4096 / (n * n * 8));
}

}  // namespace infuse
