// Matrix products whose left operand is computed just before it is needed.
#pragma once

#include "gemm.hpp"

namespace infuse {

namespace detail {

// Rows that are computed before they are multiplied.
constexpr isize made_chunk(GemmSizes s) {
  return takes_blocks(s) ? min(s.m, block_chunk(s.k)) : gemm_chunk(s.k, ceil_div(s.n, NR)) + MR;
}

}  // namespace detail

// Bytes of scratch that a worker needs for gemm_made.
constexpr isize gemm_made_scratch(GemmSizes s) {
  return detail::made_chunk(s) * detail::gemm_pitch(s.k) * isize(sizeof(float)) + gemm_scratch(s);
}

// C = A B, where value(row, k, lanes) computes A, once for every part of the columns that a thread
// of its own works on. The rest as in gemm.
template <class Value, class Sink>
void gemm_made(Context& ctx, GemmSizes s, const Value& value, const float* packed_b,
               const Sink& sink) {
  if (s.m <= 0 || s.n <= 0) return;
  const isize panels = detail::ceil_div(s.n, NR), pitch = detail::gemm_pitch(s.k);
  const bool blocks = detail::takes_blocks(s);
  const isize unit = blocks ? detail::BLOCK_PANELS : 1;
  detail::gemm_parallel(
      ctx, s.m, detail::ceil_div(panels, unit), s.k * unit,
      [&](isize m0, isize m1, isize p0, isize p1, int worker) {
        p0 *= unit, p1 = min(p1 * unit, panels);
        float* made = (float*)ctx.scratch(worker);
        float* sums = made + detail::made_chunk(s) * pitch;
        auto make = [&](isize row, isize end) {
          for (isize i = row; i < end; ++i) {
            float* to = made + (i - row) * pitch;
            sweep(0, s.k, [&](isize k, auto lanes) { store(to + k, value(i, k, lanes), lanes); });
          }
          return made - row * pitch;
        };
        if (blocks)
          return detail::gemm_blocks(s, pitch, make, packed_b, m0, m1, p0, p1, sums, sink);
        const isize chunk = detail::gemm_chunk(s.k, p1 - p0);
        for (isize row = m0, end; row < m1; row = end) {
          end = detail::chunk_end(row, m1, chunk);
          const float* rows = make(row, end);
          for (isize p = p0; p < p1; ++p)
            detail::gemm_rows({m1, s.n, s.k, pitch}, rows, packed_b + p * s.k * NR, row, end,
                              p * NR, sink);
        }
      });
}

}  // namespace infuse
