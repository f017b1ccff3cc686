// Division by lengths along an axis.
#pragma once
#include "reduce.hpp"

namespace infuse {

// How lines become those of length 1; a line of zeros stays.

/** x / sqrt(Σ x²). A root of a sum is never so small that its reciprocal overflows. */
struct L2Norm : SumSquare {
  static INFUSE_INLINE vf share(vf sum) { return select(sum == 0.0f, vf{}, 1.0f / sqrt(sum)); }
  static INFUSE_INLINE vf apply(vf x, vf share) { return x * share; }
};

/** x / Σ |x|. */
struct L1Norm : L1 {
  static INFUSE_INLINE vf share(vf sum) { return select(sum == 0.0f, splat(1.0f), sum); }
  static INFUSE_INLINE vf apply(vf x, vf share) { return x / share; }
};

namespace lp_norm_detail {

using namespace reduce_detail;
using short_rows::BLOCK;
using short_rows::MOST;

/** Dense rows of few columns, vectors going across rows. */
template <class Op, class Sink>
inline void norm_short_rows(Context& context, const ReduceSizes& s, const float* x,
                            const Sink& sink) {
  short_rows::each_block(
      context, s.outer, s.reduce, x, GRAIN, [&](const float* columns, isize first, isize count) {
        float made[MOST * BLOCK], dense[MOST * BLOCK];
        sweep(0, count, [&](isize at, auto lanes) __attribute__((always_inline)) {
          vf sum[1];
          const Rows in = {columns + at, BLOCK};
          whole_columns<Op, 1>(0, s.reduce, 0, lanes, in, sum);
          const vf share = Op::share(sum[0]);
          for (isize r = 0; r < s.reduce; ++r)
            store(made + r * BLOCK + at, Op::apply(in(r, 0, lanes), share), lanes);
        });
        short_rows::turn_back(dense, made, count, s.reduce);
        short_rows::hand_on(dense, first * s.reduce, count * s.reduce, s.cols, sink);
      });
}

/** Dense rows, vectors going along them. */
template <class Op, class Sink>
inline void norm_rows(Context& context, const ReduceSizes& s, const float* x, const Sink& sink) {
  const Rows in = {x, s.reduce};
  context.parallel(
      s.outer,
      [&](isize begin, isize end, int) {
        for (isize first = begin; first < end; first += LANES) {
          const int count = int(min(isize(LANES), end - first));
          vf share = {};
          for (int i = 0; i < count; ++i)
            share[i] = across<Op>(whole_row<Op>(first + i, s.reduce, in));
          share = Op::share(share);
          isize row = first * s.reduce / s.cols, col = first * s.reduce % s.cols;
          for (int i = 0; i < count; ++i, col += s.reduce) {
            if (col == s.cols) ++row, col = 0;
            const vf own = splat(share[i]);
            sweep(0, s.reduce, [&](isize c, auto lanes) __attribute__((always_inline)) {
              sink(Op::apply(in(first + i, c, lanes), own), row, col + c, lanes);
            });
          }
        }
      },
      1 + GRAIN / (s.reduce + 16));
}

/** N vectors of columns of line `outer`. */
template <class Op, int N, class L, class Sink>
INFUSE_INLINE void norm_columns(const ReduceSizes& s, const float* x, isize outer, isize c, L lanes,
                                const Sink& sink) {
  const Rows in = {x, s.inner};
  vf share[N];
  whole_columns<Op, N>(outer * s.reduce, s.reduce, c, lanes, in, share);
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) share[i] = Op::share(share[i]);
  const isize first = outer * s.reduce * s.inner + c, step = s.inner / s.cols;
  isize row = first / s.cols, col = first % s.cols;
  for (isize r = outer * s.reduce; r < (outer + 1) * s.reduce; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i)
      sink(Op::apply(in(r, c + i * LANES, lanes), share[i]), row, col + i * LANES, lanes);
    if (step > 0)
      row += step;
    else if ((col += s.inner) >= s.cols)
      ++row, col -= s.cols;
  }
}

}  // namespace lp_norm_detail

/**
 * Divides lines of x [outer, reduce, inner] by their lengths, as Op has them. The sink gets the
 * result in rows of `cols`: a divisor or a multiple of inner, or of reduce where inner is 1.
 */
template <class Op, class Sink>
inline void lp_norm(Context& context, const ReduceSizes& shape, const float* x, const Sink& sink) {
  using namespace lp_norm_detail;
  if (shape.outer * shape.reduce * shape.inner == 0) return;
  if (has_short_rows(shape) && shape.reduce <= LANES + LANES / 2)
    return norm_short_rows<Op>(context, shape, x, sink);
  if (shape.inner == 1) return norm_rows<Op>(context, shape, x, sink);
  const isize line = min(shape.inner, shape.cols), wide = 4 * LANES;
  const isize blocks = (line + wide - 1) / wide, lines = shape.inner / line;
  context.parallel(
      shape.outer * lines * blocks,
      [&](isize begin, isize end, int) {
        for (isize unit = begin; unit < end; ++unit) {
          const isize outer = unit / (lines * blocks), start = unit / blocks % lines * line;
          const isize c = unit % blocks * wide, last = min(c + wide, line);
          if (last - c == wide) {
            norm_columns<Op, 4>(shape, x, outer, start + c, Full{}, sink);
          } else {
            sweep(c, last, [&](isize at, auto lanes) __attribute__((always_inline)) {
              norm_columns<Op, 1>(shape, x, outer, start + at, lanes, sink);
            });
          }
        }
      },
      1 + GRAIN / (shape.reduce * min(line, wide) + 1));
}

}  // namespace infuse
