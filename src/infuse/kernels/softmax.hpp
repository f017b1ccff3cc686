// Softmax and its logarithm along one axis.
#pragma once
#include "math.hpp"
#include "rows.hpp"

namespace infuse {

namespace softmax_detail {

constexpr isize TOGETHER = 4;       // rows whose steps hide each other's latency
constexpr isize SHORT = 16 * LANES;  // elements of a row that is short enough for that

}  // namespace softmax_detail

/** Bytes of scratch per worker for an axis of `size` elements. */
inline isize softmax_scratch(isize size, isize inner = 1) {
  const isize rows = size <= softmax_detail::SHORT ? softmax_detail::TOGETHER : 1;
  return (inner == 1 ? rows * round_up(size, LANES) : size * LANES) * isize(4);
}

namespace softmax_detail {

template <bool Log>
INFUSE_INLINE vf result(vf kept, vf share) {
  return Log ? kept - share : kept * share;
}

/**
 * R rows whose values are kept from the first pass to the last, in whole vectors that end in -inf.
 * What subtracts a maximum of -inf gives NaN; a maximum takes no notice of NaN, the sum does.
 */
template <bool Log, int R, class In, class Sink>
INFUSE_INLINE void softmax_rows(isize first, isize cols, float* kept, const In& in, const Sink& sink) {
  constexpr int N = R == 1 ? 4 : 1;
  const vf lowest = splat(-__builtin_inff());
  const isize pitch = round_up(cols, LANES);
  vf most[R][N], total[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) most[r][i] = lowest;
  spread_columns<N>(0, cols, [&](isize c, auto lanes, int i) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const vf x = valid(in(first + r, c, lanes), lowest, lanes);
      store(kept + r * pitch + c, x, Full{});
      most[r][i] = detail::raw_max(x, most[r][i]);
    }
  });
  vf top[R], share[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int i = 1; i < N; ++i) most[r][0] = detail::raw_max(most[r][0], most[r][i]);
    top[r] = detail::fold(most[r][0], detail::raw_max);
    total[r] = vf{};
  }
  sweep(0, pitch, [&](isize c, auto) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      float* at = kept + r * pitch + c;
      const vf x = load(at, Full{}) - top[r], e = exp_nonpositive(x);
      store(at, Log ? x : e, Full{});
      total[r] += e;
    }
  });
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    const float sum = hsum(total[r]);
    share[r] = splat(Log ? log(sum) : 1.0f / sum);
  }
  sweep(0, cols, [&](isize c, auto lanes) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      sink(result<Log>(load(kept + r * pitch + c, Full{}), share[r]), first + r, c, lanes);
  });
}

/** The columns at c of an axis whose elements are rows; `lanes` columns at once. */
template <bool Log, class L, class In, class Sink>
INFUSE_INLINE void column_softmax(isize first, isize size, isize c, L lanes, float* kept, const In& in,
                                  const Sink& sink) {
  vf top = splat(-__builtin_inff()), total = {};
  for (isize i = 0; i < size; ++i) {
    vf x = in(first + i, c, lanes);
    store(kept + i * LANES, x, Full{});
    top = detail::raw_max(x, top);
  }
  for (isize i = 0; i < size; ++i) {
    vf x = load(kept + i * LANES, Full{}) - top;
    vf e = exp_nonpositive(x);
    store(kept + i * LANES, Log ? x : e, Full{});
    total += e;
  }
  vf share = Log ? log(total) : 1.0f / total;
  for (isize i = 0; i < size; ++i)
    sink(result<Log>(load(kept + i * LANES, Full{}), share), first + i, c, lanes);
}

template <bool Log, class In, class Sink>
inline void along_rows(Context& context, isize rows, isize cols, const In& in, const Sink& sink) {
  context.parallel(
      rows,
      [&](isize begin, isize end, int worker) {
        float* kept = reinterpret_cast<float*>(context.scratch(worker));
        isize r = begin;
        for (; cols <= SHORT && r + TOGETHER <= end; r += TOGETHER)
          softmax_rows<Log, TOGETHER>(r, cols, kept, in, sink);
        for (; r < end; ++r) softmax_rows<Log, 1>(r, cols, kept, in, sink);
      },
      1 + 8192 / (cols + 16));
}

template <bool Log, class In, class Sink>
inline void along_columns(Context& context, isize outer, isize size, isize inner, const In& in,
                          const Sink& sink) {
  isize blocks = (inner + LANES - 1) / LANES;
  context.parallel(
      outer * blocks,
      [&](isize begin, isize end, int worker) {
        float* kept = reinterpret_cast<float*>(context.scratch(worker));
        for (isize unit = begin; unit < end; ++unit) {
          isize first = unit / blocks * size, c = unit % blocks * LANES;
          if (c + LANES <= inner)
            column_softmax<Log>(first, size, c, Full{}, kept, in, sink);
          else
            column_softmax<Log>(first, size, c, Tail{int(inner - c)}, kept, in, sink);
        }
      },
      1 + 8192 / (size * LANES));
}

}  // namespace softmax_detail

/**
 * Softmax over the columns of each row; in(row, col, lanes) gives the input. A row of -inf
 * throughout gives NaN. Needs softmax_scratch(cols).
 */
template <class In, class Sink>
inline void softmax(Context& context, isize rows, isize cols, const In& in, const Sink& sink) {
  softmax_detail::along_rows<false>(context, rows, cols, in, sink);
}

/** The logarithm of softmax. */
template <class In, class Sink>
inline void log_softmax(Context& context, isize rows, isize cols, const In& in, const Sink& sink) {
  softmax_detail::along_rows<true>(context, rows, cols, in, sink);
}

/**
 * Softmax over `size` elements with stride `inner`; row = (outer, element), col = inner index.
 * Needs softmax_scratch(size, inner).
 */
template <class In, class Sink>
inline void softmax_axis(Context& context, isize outer, isize size, isize inner, const In& in,
                         const Sink& sink) {
  softmax_detail::along_columns<false>(context, outer, size, inner, in, sink);
}

/** The logarithm of softmax_axis. */
template <class In, class Sink>
inline void log_softmax_axis(Context& context, isize outer, isize size, isize inner, const In& in,
                             const Sink& sink) {
  softmax_detail::along_columns<true>(context, outer, size, inner, in, sink);
}

}  // namespace infuse
