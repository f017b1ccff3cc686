// The products of attention (attention.hpp) by vectors.
#pragma once
#include "attention_space.hpp"

namespace infuse {

namespace attention_detail {

#if INFUSE_BY_LANE
/** As `multiply` for floats, where one load brings four numbers. */
template <int R, int V, int Row, int Step>
INFUSE_INLINE void multiply_by_lane(const float* a, const float* b, isize b_step, isize depth,
                                    vf (&sum)[R][V]) {
  if constexpr (Step == 1) {
    const float* rows[R];
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) rows[i] = a + i * Row;
    detail::row_steps(sum, rows, b, depth);
  } else {
#pragma GCC unroll 4
    for (isize p = 0; p < depth; ++p, a += Step, b += b_step) {
      vf right[V];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) right[v] = load(b + v * LANES, Full{});
#pragma GCC unroll 3
      for (int i = 0; i < R; i += 4) {
        const vf left = detail::four_numbers(a + i);
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) {
          sum[i][v] = detail::fma_lane<0>(right[v], left, sum[i][v]);
          sum[i + 1][v] = detail::fma_lane<1>(right[v], left, sum[i + 1][v]);
          sum[i + 2][v] = detail::fma_lane<2>(right[v], left, sum[i + 2][v]);
          sum[i + 3][v] = detail::fma_lane<3>(right[v], left, sum[i + 3][v]);
        }
      }
    }
  }
}
#endif

/** sum[i][v] += Σ a[i * Row + p * Step] · b[p * b_step + v * LANES ..] */
template <class Kind, int R, int V, int Row, int Step, class Right>
INFUSE_INLINE void multiply(const typename Kind::Word* a, const Right* b, isize b_step, isize depth,
                            vf (&sum)[R][V]) {
#if INFUSE_BY_LANE
  if constexpr (Kind::FLOATS && R % 4 == 0 && __is_same(Right, float))
    if (Step != 1 || b_step == PANEL)
      return multiply_by_lane<R, V, Row, Step>(a, b, b_step, depth, sum);
#endif
  const auto step = [&](int u) __attribute__((always_inline)) {
    decltype(load(b, Full{})) right[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) right[v] = load(b + v * LANES, Full{});
    b += b_step;
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) {
      const auto left = splat(a[i * Row + u * Step]);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[i][v] = Kind::add(sum[i][v], left, right[v]);
    }
  };
  if constexpr (INFUSE_ORDERED)
    return detail::in_order(depth, step, [&](int count) __attribute__((always_inline)) {
      a += count * Step;
      INFUSE_ORDER(a);
    });
  for (isize p = 0; p < depth; ++p, a += Step) step(0);
}

}  // namespace attention_detail

}  // namespace infuse
