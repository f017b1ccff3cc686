// Operators that treat every line along one axis on its own: running combinations, reversal, and
// the plain matrix product.
#pragma once
#include "copy.hpp"
#include "simd.hpp"

namespace infuse {

namespace line_detail {

/** What sums and products of T are computed in: integers wrap. */
template <class T> struct Working {
  typedef uint64_t type;
};
template <> struct Working<float> {
  typedef float type;
};
template <> struct Working<double> {
  typedef double type;
};

}  // namespace line_detail

struct RunningSum {
  /** Where the first result is the first element itself, a zero keeps its sign. */
  template <class T>
  static T start(bool exclusive) {
    return T(exclusive ? 0.0f : -0.0f);
  }
  template <class T>
  static T join(T a, T b) {
    return a + b;
  }
};
struct RunningProduct {
  template <class T>
  static T start(bool) {
    return T(1);
  }
  template <class T>
  static T join(T a, T b) {
    return a * b;
  }
};

namespace line_detail {

/** LINES lines of `size` neighbouring elements side by side: their sums do not wait for each other. */
template <int LINES, class Op, class T>
inline void running_lines(isize size, bool exclusive, bool reverse, const T* x, T* y) {
  typedef typename Working<T>::type W;
  W total[LINES];
  for (int l = 0; l < LINES; ++l) total[l] = Op::template start<W>(exclusive);
  for (isize i = 0; i < size; ++i) {
    const isize at = reverse ? size - 1 - i : i;
#pragma GCC unroll 8
    for (int l = 0; l < LINES; ++l) {
      const W next = Op::join(total[l], W(x[l * size + at]));
      y[l * size + at] = T(exclusive ? total[l] : next);
      total[l] = next;
    }
  }
}

/** `width` columns, at most MOST, of `size` rows that are `inner` apart. */
template <class Op, isize MOST, class T>
INFUSE_INLINE void running_columns(isize width, isize size, isize inner, bool exclusive, bool reverse,
                                   const T* x, T* y) {
  typedef typename Working<T>::type W;
  W total[MOST];
  for (isize j = 0; j < width; ++j) total[j] = Op::template start<W>(exclusive);
  for (isize i = 0; i < size; ++i) {
    const isize at = (reverse ? size - 1 - i : i) * inner;
    const T* from = x + at;
    T* to = y + at;
    if (exclusive) {
#pragma GCC ivdep
      for (isize j = 0; j < width; ++j) {
        const W before = total[j];
        total[j] = Op::join(before, W(from[j]));
        to[j] = T(before);
      }
    } else {
#pragma GCC ivdep
      for (isize j = 0; j < width; ++j) {
        total[j] = Op::join(total[j], W(from[j]));
        to[j] = T(total[j]);
      }
    }
  }
}

}  // namespace line_detail

/** Running combinations over `size` elements; x and y [outer, size, inner], apart from each other. */
template <class Op, class T>
inline void running(Context& context, isize outer, isize size, isize inner, bool exclusive,
                    bool reverse, const T* x, T* y) {
  constexpr isize WIDTH = 512, FEW = 16, LINES = 8;
  if (inner == 1) {
    context.parallel(
        outer,
        [&](isize begin, isize end, int) {
          for (; begin + LINES <= end; begin += LINES)
            line_detail::running_lines<LINES, Op>(size, exclusive, reverse, x + begin * size,
                                                  y + begin * size);
          for (; begin < end; ++begin)
            line_detail::running_lines<1, Op>(size, exclusive, reverse, x + begin * size,
                                              y + begin * size);
        },
        1 + COPY_GRAIN / (size + 1));
    return;
  }
  // Few columns stay in registers; many are walked in stretches that are long and yet enough.
  const bool few = inner % FEW == 0 && inner <= WIDTH / 8;
  const isize most = few ? FEW : outer * ((inner + WIDTH - 1) / WIDTH) < context.threads ? 64 : WIDTH;
  const isize blocks = (inner + most - 1) / most;
  context.parallel(
      outer * blocks,
      [&](isize begin, isize end, int) {
        for (isize unit = begin; unit < end; ++unit) {
          const isize first = unit % blocks * most, start = unit / blocks * size * inner + first;
          const isize width = inner - first < most ? inner - first : most;
          if (few) {
            line_detail::running_columns<Op, FEW>(FEW, size, inner, exclusive, reverse, x + start,
                                                  y + start);
          } else {
            line_detail::running_columns<Op, WIDTH>(width, size, inner, exclusive, reverse,
                                                    x + start, y + start);
          }
        }
      },
      1 + COPY_GRAIN / (size * (inner < most ? inner : most) + 1));
}

/**
 * The first lengths[i] of `size` slices in reverse order, the others as they are; x and y
 * [count, size, bytes]. False when a length is negative or larger than size.
 */
template <class Index>
inline bool reverse_lines(Context& context, isize count, isize size, isize bytes, const char* x,
                          const Index* lengths, char* y) {
  for (isize i = 0; i < count; ++i)
    if (lengths[i] < 0 || isize(lengths[i]) > size) return false;
  context.parallel(
      count * size,
      [&](isize begin, isize end, int) {
        for (isize row = begin; row < end; ++row) {
          isize line = row / size, at = row % size, length = isize(lengths[line]);
          isize from = line * size + (at < length ? length - 1 - at : at);
          copy_bytes(y + row * bytes, x + from * bytes, bytes);
        }
      },
      1 + COPY_GRAIN / (bytes + 1));
  return true;
}

/** Matrices with any strides. */
struct PlainProduct {
  isize batch, m, n, k;
  isize a_row, a_col, b_row, b_col;
};

/** y [batch, m, n] = a · b; a_at(i) and b_at(i) give the offsets of matrix i. */
template <class T, class At, class Bt>
inline void plain_matmul(Context& context, const PlainProduct& shape, const T* a, const At& a_at,
                         const T* b, const Bt& b_at, T* y) {
  typedef typename line_detail::Working<T>::type W;
  constexpr isize WIDTH = 64;
  context.parallel(
      shape.batch * shape.m,
      [&](isize begin, isize end, int) {
        for (isize row = begin; row < end; ++row) {
          const T* left = a + a_at(row / shape.m) + row % shape.m * shape.a_row;
          const T* right = b + b_at(row / shape.m);
          for (isize first = 0; first < shape.n; first += WIDTH) {
            isize width = shape.n - first < WIDTH ? shape.n - first : WIDTH;
            W sum[WIDTH] = {};
            for (isize p = 0; p < shape.k; ++p) {
              W factor = W(left[p * shape.a_col]);
              const T* from = right + p * shape.b_row + first * shape.b_col;
              if (shape.b_col == 1)
                for (isize j = 0; j < width; ++j) sum[j] += factor * W(from[j]);
              else
                for (isize j = 0; j < width; ++j) sum[j] += factor * W(from[j * shape.b_col]);
            }
            for (isize j = 0; j < width; ++j) y[row * shape.n + first + j] = T(sum[j]);
          }
        }
      },
      1 + COPY_GRAIN / (shape.n * shape.k + 1));
}

}  // namespace infuse
