// Matrix multiplication with weights packed as halves: C = A B in float32, as gemm.hpp has it.
//
// Many rows: panels are widened into scratch, some at a time, and used for all of them. Few rows, which wait for
// memory: every tile widens what it loads.
#pragma once

#include "half.hpp"
#include "matmul.hpp"

namespace infuse {
namespace detail {

// Rows from which on it pays to widen panels beforehand: more where an instruction widens.
#if defined(__F16C__) || defined(__aarch64__)
constexpr long WIDENED_ROWS = 6 * MR;
#else
constexpr long WIDENED_ROWS = 2 * MR;
#endif

// Whether panels are widened for so many rows: they have to stay in the second level cache meanwhile.
constexpr bool widens(long rows, long k) {
  return rows >= WIDENED_ROWS && k * NR * long(sizeof(float)) <= INFUSE_L2_BYTES / 2;
}

// Bytes of the panels that are widened at a time, of a product of m rows.
constexpr long widened_bytes(long m, long n, long k) {
  return widens(m, k) ? matmul_group(n, k) * k * NR * long(sizeof(float)) : 0;
}

INFUSE_NOINLINE inline void widen_all(float* to, const float16* from, long n) {
  for (long i = 0; i < n; i += NR) {
    store(to + i, load(from + i, Full{}), Full{});
    store(to + i + LANES, load(from + i + LANES, Full{}), Full{});
  }
}

// Calls body(first, end, b) until all panels [p0, p1) of n columns had their turn: b holds those of them, halves or
// floats, as if it held all.
template <class Body>
INFUSE_INLINE void by_panels(long rows, long n, long k, const float16* b, long p0, long p1,
                             float* scratch, const Body& body) {
  if (!widens(rows, k)) return body(p0, p1, b);
  const long group = matmul_group(n, k), panel = k * NR;
  for (long p = p0, end; p < p1; p = end) {
    end = min(p + group, p1);
    widen_all(scratch, b + p * panel, (end - p) * panel);
    body(p, end, (const float*)scratch - p * panel);
  }
}

}  // namespace detail

// Bytes of scratch that a worker needs for gemm_fp16.
constexpr long gemm_fp16_scratch(GemmShape s) {
  return detail::widened_bytes(s.m, s.n, s.k) + gemm_scratch(s);
}

// As gemm.
template <class Sink>
void gemm_fp16(Context& ctx, GemmShape s, const float* a, const float16* packed_b,
               const Sink& sink) {
  if (s.m <= 0 || s.n <= 0) return;
  const long panels = detail::ceil_div(s.n, NR);
  detail::gemm_parallel(ctx, s.m, panels, s.k, [&](long m0, long m1, long p0, long p1, int worker) {
    float* scratch = (float*)ctx.scratch(worker);
    float* copy = scratch + detail::widened_bytes(s.m, s.n, s.k) / long(sizeof(float));
    const bool copies =
        detail::collides(s.lda, s.k) && s.n >= 4 * NR && detail::widens(m1 - m0, s.k);
    const auto row = [&](long i) { return a + i * s.lda; };
    detail::by_panels(m1 - m0, s.n, s.k, packed_b, p0, p1, scratch,
                      [&](long first, long end, auto* b) {
                        if (copies)
                          detail::gemm_copied(s.n, s.k, row, b, m0, m1, first, end, copy, sink);
                        else
                          detail::gemm_part(s, a, b, m0, m1, first, end, sink);
                      });
  });
}

}  // namespace infuse
