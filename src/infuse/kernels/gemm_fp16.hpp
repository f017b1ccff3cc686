// Matrix multiplication with weights packed as halves: C = A B in float32, as gemm.hpp has it.
//
// Many rows: the first tile widens a panel for itself and leaves it to the others in scratch. Few rows, which wait for
// memory: every tile widens what it loads.
#pragma once

#include "half.hpp"
#include "matmul.hpp"

namespace infuse {
namespace detail {

// Whether a widened panel stays in the second level cache while `rows` rows, `least` of them or more, use it.
constexpr bool widens(isize rows, isize least, isize k) {
  return rows >= least && k * NR * isize(sizeof(float)) <= INFUSE_BLOCK_BYTES / 2;
}

// Rows that stay in the second level cache while all panels pass by.
constexpr isize half_chunk(isize k) {
  return max(INFUSE_BLOCK_BYTES / 2 / isize(sizeof(float)) / max(k, isize(1)) / MR * MR, 6 * MR);
}

INFUSE_NOINLINE inline void widen_all(float* to, const float16* from, isize n) {
  for (isize i = 0; i < n; i += NR) {
    store(to + i, load(from + i, Full{}), Full{});
    store(to + i + LANES, load(from + i + LANES, Full{}), Full{});
  }
}

// Keeps what a tile has widened.
struct Widened {
  static constexpr bool IS_HINT = false;
  float* to;
  INFUSE_INLINE void operator()(isize p, vf x, vf y) const {
    store(to + p * NR, x, Full{});
    store(to + p * NR + LANES, y, Full{});
  }
};

// Rows [row, end) times one panel, which is widened into `wide`.
template <class Sink>
INFUSE_NOINLINE void half_rows(GemmSizes s, const float* a, const float16* panel, float* wide,
                               isize row, isize end, isize col, const Sink& sink) {
  if (end - row < 2 * MR) return gemm_rows(s, a, panel, row, end, col, sink);
  if (s.n - col < NR) {
    widen_all(wide, panel, s.k * NR);
  } else {
    full_tile(a + row * s.lda, s.lda, s.k, panel, row, col, sink, Widened{wide});
    row += MR;
  }
  gemm_rows(s, a, wide, row, end, col, sink);
}

// Rows [m0, m1) times panels [p0, p1); `copies`: the rows are brought closer together before.
template <class Sink>
inline void half_part(GemmSizes s, const float* a, const float16* b, isize m0, isize m1, isize p0,
                      isize p1, bool copies, float* scratch, const Sink& sink) {
  const isize chunk = half_chunk(s.k), pitch = gemm_pitch(s.k), panel = s.k * NR;
  float* copy = scratch + panel;
  for (isize row = m0, end; row < m1; row = end) {
    end = chunk_end(row, m1, chunk);
    GemmSizes t = s;
    const float* rows = a;
    if (copies) {
      copy_matrix(copy, pitch, a + row * s.lda, s.lda, 1, end - row, s.k);
      rows = copy - row * pitch, t.lda = pitch;
    }
    for (isize p = p0; p < p1; ++p)
      half_rows(t, rows, b + p * panel, scratch, row, end, p * NR, sink);
  }
}

}  // namespace detail

// Bytes of scratch that a worker needs for gemm_fp16.
constexpr isize gemm_fp16_scratch(GemmSizes s) {
  if (!detail::widens(s.m, 2 * MR, s.k)) return 0;
  const isize copied = (detail::half_chunk(s.k) + MR) * detail::gemm_pitch(s.k);
  return (s.k * NR + (detail::collides(s.lda, s.k) ? copied : 0)) * isize(sizeof(float));
}

// As gemm.
template <class Sink>
void gemm_fp16(Context& ctx, GemmSizes s, const float* a, const float16* packed_b,
               const Sink& sink) {
  if (s.m <= 0 || s.n <= 0) return;
  const isize panels = detail::ceil_div(s.n, NR);
  const bool copies = detail::collides(s.lda, s.k) && s.n >= 4 * NR;
  detail::gemm_parallel(ctx, s.m, panels, s.k, [&](isize m0, isize m1, isize p0, isize p1, int worker) {
    if (detail::widens(m1 - m0, 2 * MR, s.k))
      detail::half_part(s, a, packed_b, m0, m1, p0, p1, copies, (float*)ctx.scratch(worker), sink);
    else
      detail::gemm_part(s, a, packed_b, m0, m1, p0, p1, sink);
  });
}

}  // namespace infuse
