// Matrix products whose left operand is computed just before it is needed.
#pragma once

#include "gemm.hpp"

namespace infuse {

// Bytes of scratch that a worker needs for gemm_made.
constexpr long gemm_made_scratch(GemmSizes s) { return detail::copied_bytes(s.n, s.k); }

// C = A B, where value(row, k, lanes) computes A, once for every part of the columns that a thread
// of its own works on. The rest as in gemm.
template <class Value, class Sink>
void gemm_made(Context& ctx, GemmSizes s, const Value& value, const float* packed_b,
               const Sink& sink) {
  if (s.m <= 0 || s.n <= 0) return;
  const long panels = detail::ceil_div(s.n, NR), pitch = detail::gemm_pitch(s.k);
  detail::gemm_parallel(ctx, s.m, panels, s.k, [&](long m0, long m1, long p0, long p1, int worker) {
    float* made = (float*)ctx.scratch(worker);
    const long chunk = detail::gemm_chunk(s.k, p1 - p0);
    for (long row = m0, end; row < m1; row = end) {
      end = detail::chunk_end(row, m1, chunk);
      for (long i = row; i < end; ++i) {
        float* to = made + (i - row) * pitch;
        sweep(0, s.k, [&](long k, auto lanes) { store(to + k, value(i, k, lanes), lanes); });
      }
      for (long p = p0; p < p1; ++p)
        detail::gemm_rows({m1, s.n, s.k, pitch}, made - row * pitch, packed_b + p * s.k * NR, row,
                          end, p * NR, sink);
    }
  });
}

}  // namespace infuse
