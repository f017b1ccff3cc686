// The steps of a product, for engines that compile code once more where it runs (WebAssembly).
//
// Between two branches such an engine does all loads first, and what is computed from them where
// it is used at last. So each step ends with a test: its sums are used behind it, and registers hold
// what one step needs. ORDERED_STEPS steps share their pointers.
#pragma once

#include "gemm_sizes.hpp"
#include "half.hpp"

namespace infuse {
namespace detail {

constexpr int ORDERED_STEPS = 8;
// Rows of a tile of two vectors whose sums an engine holds in 16 registers, beside all that it loads.
constexpr int ORDERED_ROWS = 4;

// step(u) for k numbers, the one u behind where pointers stand; pass(n) moves these n numbers on and
// fixes them (INFUSE_ORDER).
template <class Step, class Pass>
INFUSE_INLINE void in_order(isize k, const Step& step, const Pass& pass) {
  if (k <= 0) return;
  pass(0);
#pragma GCC unroll 1
  for (isize left = k; left != 0; pass(ORDERED_STEPS)) {
#pragma GCC unroll 16
    for (int u = 0; u < ORDERED_STEPS; ++u) {
      step(u);
      if (--left == 0) return pass(u + 1);
    }
  }
}

// sum[.][i][j] += a[i][p] · vector j of row p of a panel, for k numbers p: those U steps apart have a
// sum of their own. `b` and `a` end behind what was read.
template <int R, int V, int U, class W>
INFUSE_INLINE void ordered_steps(vf (&sum)[U][R][V], const float* (&a)[R], const W*& b, isize k) {
  static_assert(ORDERED_STEPS % U == 0, "every sum has its own steps");
  in_order(
      k,
      [&](int u) __attribute__((always_inline)) {
        vf x[V];
#pragma GCC unroll 2
        for (int j = 0; j < V; ++j) x[j] = load(b + u * NR + j * LANES, Full{});
#pragma GCC unroll 16
        for (int i = 0; i < R; ++i) {
          const vf z = splat(a[i][u]);
#pragma GCC unroll 2
          for (int j = 0; j < V; ++j) sum[u % U][i][j] = fma(z, x[j], sum[u % U][i][j]);
        }
      },
      [&](int count) __attribute__((always_inline)) {
        b += count * NR;
        INFUSE_ORDER(b);
#pragma GCC unroll 16
        for (int i = 0; i < R; ++i) {
          a[i] += count;
          INFUSE_ORDER(a[i]);
        }
      });
}

}  // namespace detail
}  // namespace infuse
