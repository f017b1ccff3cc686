// The steps of a product of rows in memory and a packed panel, where a machine has its own: in order
// (ordered.hpp), or by lane: 64-bit ARM multiplies a vector by one lane of another, so that one load
// brings four numbers of a row.
#pragma once

#include "ordered.hpp"

namespace infuse {
namespace detail {

constexpr bool OWN_STEPS = INFUSE_ORDERED || INFUSE_BY_LANE;
constexpr int LANE_STEPS = 4;

constexpr isize HINT_STEPS = 16;

// What is done before every HINT_STEPS numbers of k, p being the first of these: nothing.
struct NoHint {
  INFUSE_INLINE void operator()(isize) const {}
};

#if INFUSE_BY_LANE

// Four numbers, in each part of 128 bits of a vector.
INFUSE_INLINE vf four_numbers(const float* p) {
#if defined(INFUSE_SVE)
  return (vf)(sve_floats)svld1rq_f32(svptrue_b32(), p);
#else
  return load(p, Full{});
#endif
}

// sum + x · a[LANE]
template <int LANE>
INFUSE_INLINE vf fma_lane(vf x, vf a, vf sum) {
#if defined(INFUSE_SVE)
  return (vf)(sve_floats)svmla_lane_f32((sve_floats)sum, (sve_floats)x, (sve_floats)a, LANE);
#elif defined(__clang__)
  return fma(x, __builtin_shufflevector(a, a, LANE, LANE, LANE, LANE), sum);
#else
  INFUSE_FMA_LANE(sum, x, a, LANE);
  return sum;
#endif
}

// sum[.][i][j] += a[i][LANE] · vector j of row LANE of a panel; the second pair of its vectors lies
// `gap` behind the first.
template <int LANE, int R, int V, int U, class W>
INFUSE_INLINE void add_lane(vf (&sum)[U][R][V], const vf (&a)[R], const W* b, isize gap) {
#pragma GCC unroll 2
  for (int h = 0; h < V; h += 2) {
    vf x[2];
#pragma GCC unroll 2
    for (int j = 0; j < min(2, V - h); ++j)
      x[j] = load(b + LANE * NR + h / 2 * gap + j * LANES, Full{});
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < min(2, V - h); ++j)
        sum[LANE % U][i][h + j] = fma_lane<LANE>(x[j], a[i], sum[LANE % U][i][h + j]);
  }
}

// sum[.][i][j] += a[i][p] · vector j of row p of a panel, for k numbers p: those U steps apart have a
// sum of their own. `b` and `a` end behind what was read.
template <int R, int V, int U, class W, class Hint>
INFUSE_INLINE void lane_steps(vf (&sum)[U][R][V], const float* (&a)[R], const W*& b, isize k,
                              isize gap, const Hint& hint) {
  static_assert(LANE_STEPS % U == 0, "every sum has its own steps");
  isize left = k / LANE_STEPS;
#pragma GCC unroll 1
  for (isize p = 0; left > 0; p += HINT_STEPS) {
    hint(p);
    isize steps = min(left, HINT_STEPS / LANE_STEPS);
    left -= steps;
#pragma GCC unroll 1
    do {
      vf four[R];
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) {
        four[i] = four_numbers(a[i]), a[i] += LANE_STEPS;
        __asm__("" : "+r"(a[i]));  // else some are computed in every step
      }
      add_lane<0>(sum, four, b, gap);
      add_lane<1>(sum, four, b, gap);
      add_lane<2>(sum, four, b, gap);
      add_lane<3>(sum, four, b, gap);
      b += LANE_STEPS * NR;
    } while (--steps > 0);
  }
#pragma GCC unroll 1
  for (left = k % LANE_STEPS; left > 0; --left, b += NR) {
    vf one[R];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) one[i] = splat(*a[i]++);
    add_lane<0>(sum, one, b, gap);
  }
}

#endif

template <int R, int V, int U, class W, class Hint = NoHint>
INFUSE_INLINE void row_steps(vf (&sum)[U][R][V], const float* (&a)[R], const W*& b, isize k,
                             isize gap = 0, const Hint& hint = Hint{}) {
#if INFUSE_ORDERED
  (void)gap, (void)hint;
  ordered_steps(sum, a, b, k);
#elif INFUSE_BY_LANE
  lane_steps(sum, a, b, k, gap, hint);
#endif
}

// The same where each sum has all steps.
template <int R, int V, class W, class Hint = NoHint>
INFUSE_INLINE void row_steps(vf (&sum)[R][V], const float* (&a)[R], const W*& b, isize k,
                             isize gap = 0, const Hint& hint = Hint{}) {
  row_steps(reinterpret_cast<vf(&)[1][R][V]>(sum), a, b, k, gap, hint);
}

}  // namespace detail
}  // namespace infuse
