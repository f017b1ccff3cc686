// Products of matrices of doubles.
#pragma once
#include "lines.hpp"
#include "simd.hpp"
#include "threads.hpp"

namespace infuse {
namespace double_detail {

constexpr int DOUBLES = LANES / 2;
typedef double vd __attribute__((vector_size(DOUBLES * 8)));
typedef double vd_any __attribute__((vector_size(DOUBLES * 8), aligned(8), may_alias));

INFUSE_INLINE vd multiply_add(vd a, vd b, vd c) {
#if !INFUSE_FMA
  return a * b + c;
#elif defined(__clang__)
  return __builtin_elementwise_fma(a, b, c);
#elif INFUSE_LANES == 16
  return __builtin_ia32_vfmaddpd512_mask(a, b, c, (char)-1, 4);
#elif defined(__AVX__)
  return __builtin_ia32_vfmaddpd256(a, b, c);
#else
  for (int i = 0; i < DOUBLES; ++i) c[i] = __builtin_fma(a[i], b[i], c[i]);
  return c;
#endif
}

constexpr int ROWS = 6;         // of a tile
constexpr int VECTORS = 2;      // columns of a tile, if there are so many
constexpr isize DEPTH = 256;     // of a panel
constexpr isize CHUNK = 96;      // rows that share a panel
constexpr isize FEW = 2 * ROWS;  // rows for which copying columns that lie dense does not pay

/** Columns of b for a range of k, row by row, each of whole vectors. */
struct Panel {
  const double* from;
  isize stride;
};

/** y (+)= a · panel for up to ROWS rows, `width` columns of which are stored. */
template <int V>
INFUSE_INLINE void tile(const double* a, isize a_row, isize a_col, isize rows, const Panel& panel,
                        isize depth, bool add, double* y, isize y_row, isize width) {
  vd sums[ROWS][V] = {};
  const double* line[ROWS];
  for (int r = 0; r < ROWS; ++r) line[r] = a + (r < rows ? r : rows - 1) * a_row;
  for (isize p = 0; p < depth; ++p) {
    vd b[V];
    for (int v = 0; v < V; ++v)
      b[v] = *reinterpret_cast<const vd_any*>(panel.from + p * panel.stride + v * DOUBLES);
    for (int r = 0; r < ROWS; ++r) {
      const vd factor = line[r][p * a_col] - vd{};
      for (int v = 0; v < V; ++v) sums[r][v] = multiply_add(factor, b[v], sums[r][v]);
    }
  }
  double results[ROWS][V * DOUBLES];
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < V; ++v)
      *reinterpret_cast<vd_any*>(&results[r][v * DOUBLES]) = sums[r][v];
  for (int r = 0; r < ROWS && r < rows; ++r) {
    double* to = y + r * y_row;
    for (isize j = 0; j < width; ++j) to[j] = add ? to[j] + results[r][j] : results[r][j];
  }
}

/** Rows through one panel of V vectors. */
template <int V>
INFUSE_INLINE void columns(const PlainProduct& shape, const double* a, const double* b, isize rows,
                           isize width, double* scratch, double* y) {
  constexpr isize WIDE = V * DOUBLES;
  const bool in_place = shape.b_col == 1 && width == WIDE && rows <= FEW;
  for (isize first = 0; first < shape.k || first == 0; first += DEPTH) {
    const isize depth = shape.k - first < DEPTH ? shape.k - first : DEPTH;
    const double* from = b + first * shape.b_row;
    Panel panel = {from, shape.b_row};
    if (!in_place) {
      for (isize p = 0; p < depth; ++p)
        for (isize j = 0; j < WIDE; ++j)
          scratch[p * WIDE + j] = j < width ? from[p * shape.b_row + j * shape.b_col] : 0.0;
      panel = {scratch, WIDE};
    }
    for (isize row = 0; row < rows; row += ROWS)
      tile<V>(a + row * shape.a_row + first * shape.a_col, shape.a_row, shape.a_col, rows - row,
              panel, depth, first != 0, y + row * shape.n, shape.n, width);
  }
}

}  // namespace double_detail

/** Bytes of scratch per worker for double_matmul. */
constexpr isize double_matmul_scratch() {
  using namespace double_detail;
  return DEPTH * VECTORS * DOUBLES * isize(sizeof(double));
}

/** y [batch, m, n] = a · b; a_at(i) and b_at(i) give the offsets of matrix i. */
template <class At, class Bt>
inline void double_matmul(Context& context, const PlainProduct& shape, const double* a,
                          const At& a_at, const double* b, const Bt& b_at, double* y) {
  using namespace double_detail;
  const isize wide = (shape.n > DOUBLES ? VECTORS : 1) * DOUBLES;
  const isize chunks = (shape.m + CHUNK - 1) / CHUNK, panels = (shape.n + wide - 1) / wide;
  const isize rows = shape.m < CHUNK ? shape.m : CHUNK;
  context.parallel(
      shape.batch * chunks * panels,
      [&](isize begin, isize end, int worker) {
        double* scratch = reinterpret_cast<double*>(context.scratch(worker));
        for (isize unit = begin; unit < end; ++unit) {
          const isize matrix = unit / (chunks * panels), chunk = unit / panels % chunks;
          const isize row = chunk * CHUNK, column = unit % panels * wide;
          const isize count = shape.m - row < CHUNK ? shape.m - row : CHUNK;
          const isize width = shape.n - column < wide ? shape.n - column : wide;
          const double* left = a + a_at(matrix) + row * shape.a_row;
          const double* right = b + b_at(matrix) + column * shape.b_col;
          double* to = y + (matrix * shape.m + row) * shape.n + column;
          if (wide > DOUBLES)
            columns<VECTORS>(shape, left, right, count, width, scratch, to);
          else
            columns<1>(shape, left, right, count, width, scratch, to);
        }
      },
      1 + COPY_GRAIN / (rows * wide * shape.k + 1));
}

}  // namespace infuse
