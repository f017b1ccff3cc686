// Products of two computed operands, with any strides and any broadcast over batches.
#pragma once

#include "copy.hpp"
#include "gemm.hpp"
#include "matmul_few.hpp"

namespace infuse {

namespace detail {

// Panels of B that are packed at a time.
constexpr isize matmul_group(isize n, isize k) {
  const isize fits = INFUSE_BLOCK_BYTES / 2 / isize(sizeof(float)) / (k > 0 ? k * NR : NR);
  return min(max(fits, isize(1)), ceil_div(n, NR));
}

constexpr bool matmul_copies(const MatmulSizes& s) {
  return s.a_col != 1 || collides(s.a_row, s.k);
}

// to[i][j] = from[i * row + j * col]
inline void copy_matrix(float* to, isize pitch, const float* from, isize row, isize col, isize rows,
                        isize cols) {
  if (row == 1 && col != 1) {
    copying::turn_words(to, pitch, from, col, rows, cols);
    return;
  }
  for (isize i = 0; i < rows; ++i, to += pitch, from += row)
    if (col == 1)
      sweep(0, cols, [&](isize j, auto l) { store(to + j, load(from + j, l), l); });
    else
      for (isize j = 0; j < cols; ++j) to[j] = from[j * col];
}

inline void pack_panel(float* panel, const float* b, isize row, isize col, isize k, isize width) {
  if (width < NR)
    for (isize i = 0; i < k; ++i)
      sweep(width, NR, [&](isize j, auto l) { store(panel + i * NR + j, vf{}, l); });
  copy_matrix(panel, NR, b, row, col, k, width);
}

// The packed panels that a scratch holds: [first, end) of a matrix at b.
struct HeldPanels {
  const float* b = nullptr;
  isize first = 0, end = 0;

  // Whether it holds these; it does afterwards.
  INFUSE_INLINE bool hold(const float* matrix, isize begin, isize stop) {
    const bool same = b == matrix && first == begin && end == stop;
    b = matrix, first = begin, end = stop;
    return same;
  }
};

// Rows [m0, m1) times panels [p0, p1) of one pair of matrices; `first` is the sink's row of row 0.
template <class Sink>
inline void matmul_part(const MatmulSizes& s, const float* a, const float* b, isize first, isize m0,
                        isize m1, isize p0, isize p1, float* scratch, HeldPanels& held,
                        const Sink& sink) {
  if (few_part(s, a, b, first, m0, m1, p0, p1, scratch, sink)) {
    held = {};
    return;
  }
  const isize group = matmul_group(s.n, s.k), panel = s.k * NR, pitch = gemm_pitch(s.k);
  const bool copies = matmul_copies(s);
  float* rows = scratch + group * panel;
  const GemmSizes t = {s.m, s.n, s.k, copies ? pitch : s.a_row};
  for (isize p = p0; p < p1; p += group) {
    const isize end = min(p + group, p1);
    if (!held.hold(b, p, end))
      for (isize j = p; j < end; ++j)
        pack_panel(scratch + (j - p) * panel, b + j * NR * s.b_col, s.b_row, s.b_col, s.k,
                   min(NR, s.n - j * NR));
    for (isize row = m0, next; row < m1; row = next) {
      next = chunk_end(row, m1, MR);
      if (copies) copy_matrix(rows, pitch, a + row * s.a_row, s.a_row, s.a_col, next - row, s.k);
      const float* base = copies ? rows - (first + row) * pitch : a - first * s.a_row;
      for (isize j = p; j < end; ++j)
        gemm_rows(t, base, scratch + (j - p) * panel, first + row, first + next, j * NR, sink);
    }
  }
}

// Calls body(held, i, first, m0, m1, p0, p1, scratch) for parts of all pairs of matrices: rows
// [m0, m1) times panels [p0, p1) of pair i, whose row 0 is row `first` of the sink. What a thread
// does one after another shares `held`.
template <class Body>
inline void each_matmul_part(Context& ctx, const MatmulSizes& s, const Body& body) {
  if (s.batch <= 0 || s.m <= 0 || s.n <= 0) return;
  // Enough parts of a matrix that all threads get the same number.
  isize parts = 1;
  if (s.batch < 4 * ctx.threads)
    while (parts < ctx.threads && s.batch * parts % ctx.threads != 0) ++parts;
  const isize panels = ceil_div(s.n, NR);
  const Grid grid = gemm_grid(parts, s.m, panels, s.k);
  parts = grid.rows * grid.panels;
  ctx.parallel(s.batch * parts, [&](isize begin, isize end, int worker) {
    HeldPanels held;
    for (isize t = begin; t < end; ++t) {
      // Neighbouring units share the panels of B where they can.
      const isize i = t / parts, part = t % parts, r = part % grid.rows, p = part / grid.rows;
      body(held, i, i * s.m, split(s.m, grid.rows, r), split(s.m, grid.rows, r + 1),
           split(panels, grid.panels, p), split(panels, grid.panels, p + 1), ctx.scratch(worker));
    }
  });
}

// Sizes of the same products whose batches are rows of one, where that is so.
constexpr MatmulSizes matmul_joined(MatmulSizes s) {
  if (s.b_batch == 0 && s.a_batch == s.m * s.a_row) s.m *= s.batch, s.batch = 1;
  return s;
}

}  // namespace detail

// Bytes of scratch that a worker needs for matmul.
constexpr isize matmul_scratch(const MatmulSizes& s) {
  const isize rows = detail::matmul_copies(s) ? 2 * MR * detail::gemm_pitch(s.k) : 0;
  return (detail::matmul_group(s.n, s.k) * s.k * NR + rows) * isize(sizeof(float));
}

// As below, but a_at(i) and b_at(i) give where matrices A[i] and B[i] start, in floats from a and
// b; the batch strides of the shape are not used.
template <class AStart, class BStart, class Sink>
void matmul(Context& ctx, MatmulSizes s, const float* a, const float* b, const AStart& a_at,
            const BStart& b_at, const Sink& sink) {
  detail::each_matmul_part(ctx, s, [&](detail::HeldPanels& held, isize i, isize first, isize m0,
                                       isize m1, isize p0, isize p1, void* scratch) {
    detail::matmul_part(s, a + a_at(i), b + b_at(i), first, m0, m1, p0, p1, (float*)scratch, held,
                        sink);
  });
}

// The products of all batches. Needs matmul_scratch bytes a worker.
template <class Sink>
void matmul(Context& ctx, MatmulSizes s, const float* a, const float* b, const Sink& sink) {
  s = detail::matmul_joined(s);
  matmul(
      ctx, s, a, b, [&](isize i) { return i * s.a_batch; }, [&](isize i) { return i * s.b_batch; },
      sink);
}

}  // namespace infuse
