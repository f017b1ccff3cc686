// Reductions over one run of axes: sums, extremes, norms and logarithms.
#pragma once
#include "reducers.hpp"
#include "rows.hpp"
#include "short_rows.hpp"

namespace infuse {

/**
 * Input [outer, reduce, inner], output [outer, inner]; `cols` is the last dimension of the output,
 * by which it is cut into rows: a divisor of inner, or of outer where inner is 1.
 */
struct ReduceSizes {
  isize outer, reduce, inner, cols;
};

namespace reduce_detail {

constexpr isize BLOCK = 128;  // steps before a partial result joins the total, for accuracy
constexpr isize GRAIN = 16384;

// ---------------------------------------------------------------- along rows

template <class Op, class L>
INFUSE_INLINE vf step(vf sum, vf x, L lanes) {
  return valid(Op::step(sum, x), sum, lanes);
}

/** All columns of one row, in four chains of vectors. */
template <class Op, class In>
INFUSE_INLINE vf whole_row(isize row, isize cols, const In& in) {
  const vf start = splat(Op::template start<float>());
  vf total = start;
  isize c = 0;
  while (c + 4 * LANES <= cols) {
    isize last = c + BLOCK * 4 * LANES < cols ? c + BLOCK * 4 * LANES : cols;
    vf part[4] = {start, start, start, start};
    for (; c + 4 * LANES <= last; c += 4 * LANES) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) part[i] = Op::step(part[i], in(row, c + i * LANES, Full{}));
    }
    total = Op::join(total, Op::join(Op::join(part[0], part[1]), Op::join(part[2], part[3])));
  }
  vf part = start;
  sweep(c, cols, [&](isize at, auto lanes) __attribute__((always_inline)) {
    part = step<Op>(part, in(row, at, lanes), lanes);
  });
  return Op::join(total, part);
}

template <class Op>
INFUSE_INLINE float across(vf x) {
  return detail::fold(x, [](vf a, vf b) { return Op::join(a, b); })[0];
}

/** Results of neighbouring rows go to the sink as one vector. */
template <class Value, class Sink>
inline void each_row(Context& context, const ReduceSizes& shape, const Value& value,
                     const Sink& sink) {
  context.parallel(
      shape.outer,
      [&](isize begin, isize end, int) {
        for (isize at = begin; at < end;) {
          isize row = at / shape.cols, col = at % shape.cols, most = shape.cols - col;
          int count = int(most < LANES ? most : LANES);
          if (end - at < count) count = int(end - at);
          vf results = {};
          for (int i = 0; i < count; ++i) results[i] = value(at + i);
          if (count == LANES)
            sink(results, row, col, Full{});
          else
            sink(results, row, col, Tail{count});
          at += count;
        }
      },
      1 + GRAIN / (shape.reduce + 16));
}

// ---------------------------------------------------------------- along columns

/** N vectors of columns from row `first` on. */
template <class Op, int N, class In, class L>
INFUSE_INLINE void whole_columns(isize first, isize rows, isize c, L lanes, const In& in,
                                 vf (&total)[N]) {
  const vf start = splat(Op::template start<float>());
  for (int i = 0; i < N; ++i) total[i] = start;
  for (isize r = 0; r < rows;) {
    isize last = r + BLOCK < rows ? r + BLOCK : rows;
    vf part[N];
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) part[i] = start;
    for (; r < last; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i) part[i] = Op::step(part[i], in(first + r, c + i * LANES, lanes));
    }
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) total[i] = Op::join(total[i], part[i]);
  }
}

/** Calls body(outer, begin, end) for blocks of columns that end with a row of the output. */
template <class Body>
inline void each_columns(Context& context, const ReduceSizes& shape, const Body& body) {
  isize block = 4 * LANES, blocks = (shape.cols + block - 1) / block;
  isize lines = shape.outer * (shape.inner / shape.cols);
  if (lines * blocks < 2 * context.threads) {
    block = LANES;
    blocks = (shape.cols + block - 1) / block;
  }
  context.parallel(
      lines * blocks,
      [&](isize first, isize last, int) {
        for (isize unit = first; unit < last; ++unit) {
          isize col = unit % blocks * block;
          body(unit / blocks, col, col + block < shape.cols ? col + block : shape.cols);
        }
      },
      1 + GRAIN / (shape.reduce * block + 1));
}

/** value(columns, lanes) gives results of LANES rows at once, from columns short_rows::BLOCK apart. */
template <class Value, class Sink>
inline void each_short_row(Context& context, const ReduceSizes& shape, const float* x,
                           const Value& value, const Sink& sink) {
  using short_rows::BLOCK;
  short_rows::each_block(
      context, shape.outer, shape.reduce, x, GRAIN,
      [&](const float* columns, isize first, isize count) {
        float results[BLOCK];
        sweep(0, count, [&](isize at, auto lanes) __attribute__((always_inline)) {
          store(results + at, value(Rows{columns + at, BLOCK}, lanes), lanes);
        });
        short_rows::hand_on(results, first, count, shape.cols, sink);
      });
}

/** Whether a vector holds whole rows of columns, and there are enough of these for four chains. */
inline bool has_narrow_columns(const ReduceSizes& shape) {
  return shape.inner > 1 && shape.inner < LANES && LANES % shape.inner == 0 &&
         shape.cols == shape.inner && shape.reduce * shape.inner >= 16 * LANES;
}

/** The same results in all lanes of a column, of a vector that holds LANES / inner rows. */
template <class Op>
INFUSE_INLINE vf across_rows(vf x, isize inner) {
  alignas(64) float lanes[2 * LANES];
  for (isize step = LANES / 2; step >= inner; step /= 2) {
    store(lanes, x, Full{});
    store(lanes + LANES, x, Full{});
    x = Op::join(x, load(lanes + step, Full{}));
  }
  return x;
}

/** Whether vectors go across rows. */
inline bool has_short_rows(const ReduceSizes& shape) {
  return shape.inner == 1 && shape.reduce > 0 && shape.reduce <= short_rows::MOST &&
         shape.outer >= LANES;
}

}  // namespace reduce_detail

/**
 * Reduces floats by Op. in(row, col, lanes) gives the input: rows [outer], columns [reduce] where
 * inner is 1, else rows [outer · reduce], columns [inner]. NaN wins in Max and Min.
 */
template <class Op, class In, class Sink>
inline void reduce_in(Context& context, const ReduceSizes& shape, const In& in, const Sink& sink) {
  using namespace reduce_detail;
  if (shape.outer * shape.inner == 0) return;
  if (shape.inner == 1) {
    each_row(
        context, shape,
        [&](isize row) {
          float sum = across<Op>(whole_row<Op>(row, shape.reduce, in));
          return Op::end(splat(sum), shape.reduce)[0];
        },
        sink);
    return;
  }
  isize lines = shape.inner / shape.cols;
  each_columns(context, shape, [&](isize line, isize begin, isize end) {
    isize first = line / lines * shape.reduce, shift = line % lines * shape.cols, c = begin;
    vf total[4];
    if (end - c == 4 * LANES) {
      whole_columns<Op, 4>(first, shape.reduce, shift + c, Full{}, in, total);
      for (int i = 0; i < 4; ++i)
        sink(Op::end(total[i], shape.reduce), line, c + i * LANES, Full{});
      return;
    }
    sweep(c, end, [&](isize at, auto lanes) {
      vf one[1];
      whole_columns<Op, 1>(first, shape.reduce, shift + at, lanes, in, one);
      sink(Op::end(one[0], shape.reduce), line, at, lanes);
    });
  });
}

/** The same on dense floats. */
template <class Op, class Sink>
inline void reduce(Context& context, const ReduceSizes& shape, const float* x, const Sink& sink) {
  using namespace reduce_detail;
  if (has_narrow_columns(shape)) {
    const Rows in = {x, shape.reduce * shape.inner};
    context.parallel(
        shape.outer,
        [&](isize begin, isize end, int) {
          for (isize at = begin; at < end; ++at) {
            const vf all = whole_row<Op>(at, shape.reduce * shape.inner, in);
            sink(Op::end(across_rows<Op>(all, shape.inner), shape.reduce), at, isize(0),
                 Tail{int(shape.inner)});
          }
        },
        1 + GRAIN / (shape.reduce * shape.inner));
    return;
  }
  if (!has_short_rows(shape))
    return reduce_in<Op>(context, shape, Rows{x, shape.inner == 1 ? shape.reduce : shape.inner},
                         sink);
  each_short_row(
      context, shape, x,
      [&](const Rows& columns, auto lanes) __attribute__((always_inline)) {
        vf total[1];
        whole_columns<Op, 1>(0, shape.reduce, 0, lanes, columns, total);
        return Op::end(total[0], shape.reduce);
      },
      sink);
}

namespace reduce_detail {

INFUSE_INLINE vf finite(vf x) { return select(abs(x) < __builtin_inff(), x, vf{}); }

/** log Σ exp(x) of a vector of columns from row `first` on. */
template <class L, class In>
INFUSE_INLINE vf log_sum_exp_of_columns(isize first, isize rows, isize c, L lanes, const In& in) {
  vf top[1], sum[1];
  whole_columns<Max, 1>(first, rows, c, lanes, in, top);
  top[0] = finite(top[0]);
  auto shifted = [&](isize row, isize col, auto tag)
                     __attribute__((always_inline)) { return exp(in(row, col, tag) - top[0]); };
  whole_columns<Sum, 1>(first, rows, c, lanes, shifted, sum);
  return log(sum[0]) + top[0];
}

}  // namespace reduce_detail

/** log Σ exp(x) of dense floats, shifted by the maximum. */
template <class Sink>
inline void log_sum_exp(Context& context, const ReduceSizes& shape, const float* x,
                        const Sink& sink) {
  using namespace reduce_detail;
  if (shape.outer * shape.inner == 0) return;
  const Rows in = {x, shape.inner == 1 ? shape.reduce : shape.inner};
  if (has_short_rows(shape)) {
    each_short_row(
        context, shape, x,
        [&](const Rows& columns, auto lanes) __attribute__((always_inline)) {
          return log_sum_exp_of_columns(0, shape.reduce, 0, lanes, columns);
        },
        sink);
    return;
  }
  if (shape.inner == 1) {
    each_row(
        context, shape,
        [&](isize row) {
          vf top = finite(splat(across<Max>(whole_row<Max>(row, shape.reduce, in))));
          auto shifted = [&](isize r, isize c, auto lanes)
                             __attribute__((always_inline)) { return exp(in(r, c, lanes) - top); };
          vf sum = splat(across<Sum>(whole_row<Sum>(row, shape.reduce, shifted)));
          return (log(sum) + top)[0];
        },
        sink);
    return;
  }
  isize lines = shape.inner / shape.cols;
  each_columns(context, shape, [&](isize line, isize begin, isize end) {
    isize first = line / lines * shape.reduce, shift = line % lines * shape.cols;
    sweep(begin, end, [&](isize at, auto lanes) {
      sink(log_sum_exp_of_columns(first, shape.reduce, shift + at, lanes, in), line, at, lanes);
    });
  });
}

/** Reduces dense values of any type by Op; x [outer, reduce, inner], y [outer, inner]. */
template <class Op, class T>
inline void reduce_scalar(Context& context, const ReduceSizes& shape, const T* x, T* y) {
  typedef typename reduce_detail::Wide<T>::type Count;
  constexpr isize WIDTH = 64;
  isize blocks = (shape.inner + WIDTH - 1) / WIDTH;
  context.parallel(
      shape.outer * blocks,
      [&](isize first, isize last, int) {
        for (isize unit = first; unit < last; ++unit) {
          isize outer = unit / blocks, begin = unit % blocks * WIDTH;
          isize count = shape.inner - begin < WIDTH ? shape.inner - begin : WIDTH;
          Count sum[WIDTH];
          for (isize i = 0; i < count; ++i) sum[i] = Count(Op::template start<T>());
          const T* row = x + outer * shape.reduce * shape.inner + begin;
          for (isize r = 0; r < shape.reduce; ++r, row += shape.inner)
            for (isize i = 0; i < count; ++i) sum[i] = Op::step(sum[i], Count(row[i]));
          for (isize i = 0; i < count; ++i)
            y[outer * shape.inner + begin + i] = T(Op::end(sum[i], shape.reduce));
        }
      },
      1 + reduce_detail::GRAIN / (shape.reduce * (shape.inner < WIDTH ? shape.inner : WIDTH) + 1));
}

/** log Σ exp(x) of dense doubles, shifted by the maximum; x [outer, reduce, inner], y [outer, inner]. */
inline void log_sum_exp(Context& context, const ReduceSizes& shape, const double* x, double* y) {
  context.parallel(
      shape.outer * shape.inner,
      [&](isize first, isize last, int) {
        for (isize at = first; at < last; ++at) {
          const double* line = x + at / shape.inner * shape.reduce * shape.inner + at % shape.inner;
          double top = -__builtin_inf(), sum = 0;
          for (isize r = 0; r < shape.reduce; ++r) top = max(top, line[r * shape.inner]);
          const double shift = abs(top) < __builtin_inf() ? top : 0;
          for (isize r = 0; r < shape.reduce; ++r) sum += exp(line[r * shape.inner] - shift);
          y[at] = log(sum) + shift;
        }
      },
      1 + reduce_detail::GRAIN / (16 * shape.reduce + 1));
}

}  // namespace infuse
