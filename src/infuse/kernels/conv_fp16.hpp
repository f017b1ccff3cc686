// Convolution (conv.hpp) with weights packed as halves: panels are widened into scratch, some at a time, or where rows
// are few by every tile.
#pragma once

#include "conv.hpp"
#include "gemm_fp16.hpp"

namespace infuse {
namespace detail {

// Rows from which on panels are widened beforehand: more where an instruction widens.
#if defined(__F16C__) || defined(__aarch64__)
constexpr isize WIDENED_ROWS = 6 * MR;
#else
constexpr isize WIDENED_ROWS = 2 * MR;
#endif

constexpr isize conv_depth(const ConvSizes& s) {
  return s.kernel_height * s.kernel_width * (s.channels / s.groups);
}

// Bytes of the panels that are widened at a time, of a product of m rows.
constexpr isize widened_bytes(isize m, isize n, isize k) {
  return widens(m, WIDENED_ROWS, k) ? matmul_group(n, k) * k * NR * isize(sizeof(float)) : 0;
}

// Calls body(first, end, b) until all panels [p0, p1) of n columns had their turn: b holds those of them, halves or
// floats, as if it held all.
template <class Body>
INFUSE_INLINE void by_panels(isize rows, isize n, isize k, const float16* b, isize p0, isize p1,
                             float* scratch, const Body& body) {
  if (!widens(rows, WIDENED_ROWS, k)) return body(p0, p1, b);
  const isize group = matmul_group(n, k), panel = k * NR;
  for (isize p = p0, end; p < p1; p = end) {
    end = min(p + group, p1);
    widen_all(scratch, b + p * panel, (end - p) * panel);
    body(p, end, (const float*)scratch - p * panel);
  }
}

// Bytes that conv itself needs, up to a whole line of the cache.
constexpr isize conv_own_bytes(const ConvSizes& s) { return ceil_div(conv_scratch(s), 64) * 64; }

}  // namespace detail

// Bytes of scratch that a worker needs for conv_fp16.
constexpr isize conv_fp16_scratch(const ConvSizes& s) {
  const isize m = s.batch * s.out_height * s.out_width, k = detail::conv_depth(s);
  if (detail::conv_mode(s) == PLAIN) return gemm_fp16_scratch({m, s.out_channels, k, s.pitch});
  return detail::conv_own_bytes(s) + detail::widened_bytes(m, detail::conv_panels(s) * NR, k);
}

// As conv.
template <class Sink>
void conv_fp16(Context& ctx, ConvSizes s, const float* x, const float16* packed_w,
               const Sink& sink) {
  const isize m = s.batch * s.out_height * s.out_width, k = detail::conv_depth(s),
             panels = detail::conv_panels(s);
  const ConvMode mode = detail::conv_mode(s);
  if (m <= 0 || s.out_channels <= 0) return;
  if (mode == PLAIN) return gemm_fp16(ctx, {m, s.out_channels, k, s.pitch}, x, packed_w, sink);
  detail::gemm_parallel(ctx, m, panels, k, [&](isize m0, isize m1, isize p0, isize p1, int worker) {
    char* own = ctx.scratch(worker);
    detail::by_panels(m1 - m0, panels * NR, k, packed_w, p0, p1,
                      (float*)(own + detail::conv_own_bytes(s)),
                      [&](isize first, isize end, auto* w) {
                        detail::conv_part(mode, s, x, w, m0, m1, first, end, own, sink);
                      });
  });
}

}  // namespace infuse
