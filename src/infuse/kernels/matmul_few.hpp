// Products of a few rows, or of one column, whose other operand is read once as it lies: packing it
// would take longer than multiplying by it.
#pragma once

#include "gemm.hpp"

namespace infuse {

// C[i] = A[i] B[i] for i < batch, A[m][k], B[k][n]. Strides count floats; a batch stride of 0
// repeats the operand. The sink's row is i * m + row of C[i].
struct MatmulSizes {
  isize batch, m, n, k;
  isize a_batch, a_row, a_col;
  isize b_batch, b_row, b_col;
};

namespace detail {

constexpr isize FEW_ROWS = 4;

// R rows times V vectors of columns whose elements lie side by side.
template <int R, int V, class L, class Sink>
INFUSE_INLINE void rows_times(const MatmulSizes& s, const float* a, const float* b, isize row,
                              isize col, L lanes, const Sink& sink) {
  vf sum[R][V] = {};
  for (isize p = 0; p < s.k; ++p, a += s.a_col, b += s.b_row) {
    vf x[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) x[v] = load(b + v * LANES, lanes);
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      const vf factor = splat(a[i * s.a_row]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[i][v] = fma(factor, x[v], sum[i][v]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sink(sum[i][v], row + i, col + v * LANES, lanes);
}

// R rows times the columns [col, end), rows of B lying side by side.
template <int R, class Sink>
INFUSE_NOINLINE void few_rows(const MatmulSizes& s, const float* a, const float* b, isize row,
                              isize col, isize end, const Sink& sink) {
  constexpr int V = R == 1 ? 8 : R == 2 ? 4 : 2;
  const Sink own = sink;
  for (; col + V * LANES <= end; col += V * LANES)
    rows_times<R, V>(s, a, b + col, row, col, Full{}, own);
  sweep(col, end, [&](isize c, auto lanes) { rows_times<R, 1>(s, a, b + c, row, c, lanes, own); });
}

// sums[i] = the product of x and vector i, of C vectors `step` apart.
template <int C>
INFUSE_INLINE void dots(const float* x, const float* vectors, isize step, isize k, float* sums) {
  vf sum[C] = {};
  sweep(0, k, [&](isize p, auto lanes) __attribute__((always_inline)) {
    const vf factor = load(x + p, lanes);
#pragma GCC unroll 4
    for (int i = 0; i < C; ++i) sum[i] = fma(load(vectors + i * step + p, lanes), factor, sum[i]);
  });
#pragma GCC unroll 4
  for (int i = 0; i < C; ++i) sums[i] = hsum(sum[i]);
}

// As few_rows, of one row, where columns of B lie side by side, as the row does.
template <class Sink>
INFUSE_NOINLINE void row_of_dots(const MatmulSizes& s, const float* a, const float* b, isize row,
                                 isize col, isize end, const Sink& sink) {
  alignas(64) float sums[LANES];
  sweep(col, end, [&](isize c, auto lanes) {
    const isize width = count(lanes);
    isize i = 0;
    for (; i + 4 <= width; i += 4) dots<4>(a, b + (c + i) * s.b_col, s.b_col, s.k, sums + i);
    for (; i < width; ++i) dots<1>(a, b + (c + i) * s.b_col, s.b_col, s.k, sums + i);
    sink(load(sums, Full{}), row, c, lanes);
  });
}

// Rows [m0, m1), whose elements lie side by side, times one column that does so too.
template <class Sink>
INFUSE_NOINLINE void column_of_dots(const MatmulSizes& s, const float* a, const float* column,
                                    isize first, isize m0, isize m1, const Sink& sink) {
  float sums[4];
  for (isize i = m0, width; i < m1; i += width) {
    width = m1 - i >= 4 ? 4 : 1;
    const float* rows = a + i * s.a_row;
    if (width == 4)
      dots<4>(column, rows, s.a_row, s.k, sums);
    else
      dots<1>(column, rows, s.a_row, s.k, sums);
    for (isize j = 0; j < width; ++j) sink(splat(sums[j]), first + i + j, 0, Tail{1});
  }
}

// Whether rows [m0, m1) times panels [p0, p1) were few, or the column one, and have been handed on.
// `column` has room for one.
template <class Sink>
inline bool few_part(const MatmulSizes& s, const float* a, const float* b, isize first, isize m0,
                     isize m1, isize p0, isize p1, float* column, const Sink& sink) {
  if (s.n == 1 && s.a_col == 1 && m1 - m0 > 1) {
    if (s.b_row != 1) {
      for (isize p = 0; p < s.k; ++p) column[p] = b[p * s.b_row];
      b = column;
    }
    column_of_dots(s, a, b, first, m0, m1, sink);
    return true;
  }
  const isize rows = m1 - m0, col = p0 * NR, end = min(p1 * NR, s.n), row = first + m0;
  a += m0 * s.a_row;
  if (rows < FEW_ROWS && s.b_row == 1 && s.a_col == 1 && s.b_col != 1) {
    for (isize i = 0; i < rows; ++i) row_of_dots(s, a + i * s.a_row, b, row + i, col, end, sink);
    return true;
  }
  if (rows > FEW_ROWS || s.b_col != 1) return false;
  if (rows == 1) few_rows<1>(s, a, b, row, col, end, sink);
  if (rows == 2) few_rows<2>(s, a, b, row, col, end, sink);
  if (rows == 3) few_rows<3>(s, a, b, row, col, end, sink);
  if (rows == 4) few_rows<4>(s, a, b, row, col, end, sink);
  return true;
}

}  // namespace detail
}  // namespace infuse
