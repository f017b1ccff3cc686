// Sums of products of rows of 8-bit integers and a packed panel (integer.hpp), in registers.
#pragma once
#include "integer_rows.hpp"

namespace infuse {

namespace integer_detail {

/** Rows of lanes, `stride` bytes apart. */
struct LaneRows {
  const char* start;
  isize stride;
};

/** Adds R rows of `count` lanes times the first V vectors of one panel. */
template <class Layout, int R, int V>
INFUSE_INLINE void multiply_in_order(isize count, LaneRows a, const int32_t* b, vi (&sum)[R][V]) {
  const char* row[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) row[r] = a.start + r * a.stride;
  detail::in_order(
      count,
      [&](int u) __attribute__((always_inline)) {
        vi columns[V];
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) columns[v] = load(b + u * PANEL + v * LANES, Full{});
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
          int32_t lane;
          memcpy(&lane, row[r] + 4 * u, sizeof lane);
          const auto one = Layout::one(lane);
#pragma GCC unroll 2
          for (int v = 0; v < V; ++v) sum[r][v] = Layout::add_one(sum[r][v], one, columns[v]);
        }
      },
      [&](int steps) __attribute__((always_inline)) {
        b += steps * PANEL;
        INFUSE_ORDER(b);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
          row[r] += 4 * steps;
          INFUSE_ORDER(row[r]);
        }
      });
}

/** Adds the products of lane LANE of each row with row LANE of a panel. */
template <class Layout, int LANE, int R, int V>
INFUSE_INLINE void add_lane(vi (&sum)[R][V], const vi (&a)[R], const int32_t* b) {
  vi columns[V];
#pragma GCC unroll 2
  for (int v = 0; v < V; ++v) columns[v] = load(b + LANE * PANEL + v * LANES, Full{});
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v)
      sum[r][v] = Layout::template add_lane<LANE>(sum[r][v], a[r], columns[v]);
}

/** `multiply` where one load brings four lanes of a row. */
template <class Layout, int R, int V>
INFUSE_INLINE void multiply_by_lane(isize count, LaneRows a, const int32_t* b, vi (&sum)[R][V]) {
  const char* row[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) row[r] = a.start + r * a.stride;
#pragma GCC unroll 1
  for (isize steps = count / 4; steps > 0; --steps, b += 4 * PANEL) {
    vi four[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      four[r] = four_lanes(row[r]), row[r] += 16;
      __asm__("" : "+r"(row[r]));  // else some are computed in every step
    }
    add_lane<Layout, 0>(sum, four, b);
    add_lane<Layout, 1>(sum, four, b);
    add_lane<Layout, 2>(sum, four, b);
    add_lane<Layout, 3>(sum, four, b);
  }
#pragma GCC unroll 1
  for (isize left = count % 4; left > 0; --left, b += PANEL) {
    vi one[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      int32_t lane;
      memcpy(&lane, row[r], sizeof lane);
      one[r] = LANES == 4 ? vi{lane} : splat(lane), row[r] += sizeof lane;
    }
    add_lane<Layout, 0>(sum, one, b);
  }
}

template <class Layout, int R, int V>
INFUSE_INLINE void multiply(isize count, LaneRows a, const int32_t* b, vi (&sum)[R][V]) {
  if constexpr (INFUSE_ORDERED) return multiply_in_order<Layout>(count, a, b, sum);
  if constexpr (Layout::BY_LANE) return multiply_by_lane<Layout>(count, a, b, sum);
  constexpr int G = R % 3 == 0 ? 3 : R % 2 == 0 ? 2 : 1;
  const char* row[R / G];
  const isize stride = a.stride;
#pragma GCC unroll 16
  for (int g = 0; g < R / G; ++g) {
    row[g] = a.start + g * G * stride;
    __asm__("" : "+r"(row[g]));
  }
  PanelSteps<Layout::TILED> steps(b);
#pragma GCC unroll 1
  for (isize k = 0; k < count; ++k, steps.next()) {
    vi columns[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) columns[v] = steps.half(v);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      int32_t lane;
      memcpy(&lane, row[r / G] + r % G * stride + 4 * k, sizeof lane);
      const auto one = Layout::one(lane);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[r][v] = Layout::add_one(sum[r][v], one, columns[v]);
    }
  }
}

}  // namespace integer_detail

}  // namespace infuse
