// Softmax and its logarithm along one axis.
#pragma once
#include "math.hpp"
#include "rows.hpp"

namespace infuse {

/** Bytes of scratch per worker for an axis of `size` elements. */
inline long softmax_scratch(long size, long inner = 1) {
  return size * (inner == 1 ? 1 : LANES) * 4L + CACHE_LINE;
}

namespace softmax_detail {

/** What subtracts the maximum: 0 when there is none, so that -inf stays -inf. */
template <bool Log>
INFUSE_INLINE vf result(vf kept, vf share) {
  return Log ? kept - share : kept * share;
}

/** One row: its values are kept in `row` from the first pass to the last. */
template <bool Log, class In, class Sink>
INFUSE_INLINE void row_softmax(long r, long cols, float* kept, const In& in, const Sink& sink) {
  vf most = splat(-__builtin_inff());
  sweep(0, cols, [&](long c, auto lanes) __attribute__((always_inline)) {
    vf x = in(r, c, lanes);
    store(kept + c, x, lanes);
    most = max(most, valid(x, splat(-__builtin_inff()), lanes));
  });
  float top = hmax(most);
  vf total = {};
  sweep(0, cols, [&](long c, auto lanes) __attribute__((always_inline)) {
    vf x = load(kept + c, lanes) - top;
    vf e = exp(x);
    store(kept + c, Log ? x : e, lanes);
    total += valid(e, vf{}, lanes);
  });
  float sum = hsum(total);
  vf share = splat(Log ? log(sum) : 1.0f / sum);
  sweep(0, cols, [&](long c, auto lanes) __attribute__((always_inline)) {
    sink(result<Log>(load(kept + c, lanes), share), r, c, lanes);
  });
}

/** The columns at c of an axis whose elements are rows; `lanes` columns at once. */
template <bool Log, class L, class In, class Sink>
INFUSE_INLINE void column_softmax(long first, long size, long c, L lanes, float* kept, const In& in,
                                  const Sink& sink) {
  vf top = splat(-__builtin_inff()), total = {};
  for (long i = 0; i < size; ++i) {
    vf x = in(first + i, c, lanes);
    store(kept + i * LANES, x, Full{});
    top = max(top, x);
  }
  for (long i = 0; i < size; ++i) {
    vf x = load(kept + i * LANES, Full{}) - top;
    vf e = exp(x);
    store(kept + i * LANES, Log ? x : e, Full{});
    total += e;
  }
  vf share = Log ? log(total) : 1.0f / total;
  for (long i = 0; i < size; ++i)
    sink(result<Log>(load(kept + i * LANES, Full{}), share), first + i, c, lanes);
}

template <bool Log, class In, class Sink>
inline void along_rows(Context& context, long rows, long cols, const In& in, const Sink& sink) {
  context.parallel(
      rows,
      [&](long begin, long end, int worker) {
        float* kept = reinterpret_cast<float*>(context.scratch(worker));
        for (long r = begin; r < end; ++r) row_softmax<Log>(r, cols, kept, in, sink);
      },
      1 + 8192 / (cols + 16));
}

template <bool Log, class In, class Sink>
inline void along_columns(Context& context, long outer, long size, long inner, const In& in,
                          const Sink& sink) {
  long blocks = (inner + LANES - 1) / LANES;
  context.parallel(
      outer * blocks,
      [&](long begin, long end, int worker) {
        float* kept = reinterpret_cast<float*>(context.scratch(worker));
        for (long unit = begin; unit < end; ++unit) {
          long first = unit / blocks * size, c = unit % blocks * LANES;
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
inline void softmax(Context& context, long rows, long cols, const In& in, const Sink& sink) {
  softmax_detail::along_rows<false>(context, rows, cols, in, sink);
}

/** The logarithm of softmax. */
template <class In, class Sink>
inline void log_softmax(Context& context, long rows, long cols, const In& in, const Sink& sink) {
  softmax_detail::along_rows<true>(context, rows, cols, in, sink);
}

/**
 * Softmax over `size` elements with stride `inner`; row = (outer, element), col = inner index.
 * Needs softmax_scratch(size, inner).
 */
template <class In, class Sink>
inline void softmax_axis(Context& context, long outer, long size, long inner, const In& in,
                         const Sink& sink) {
  softmax_detail::along_columns<false>(context, outer, size, inner, in, sink);
}

/** The logarithm of softmax_axis. */
template <class In, class Sink>
inline void log_softmax_axis(Context& context, long outer, long size, long inner, const In& in,
                             const Sink& sink) {
  softmax_detail::along_columns<true>(context, outer, size, inner, in, sink);
}

}  // namespace infuse
