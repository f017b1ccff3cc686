// Reductions over one run of axes: sums, extremes, norms, logarithms and positions.
#pragma once
#include "reducers.hpp"
#include "rows.hpp"

namespace infuse {

/**
 * Input [outer, reduce, inner], output [outer, inner]; `cols` is the last dimension of the output,
 * by which it is cut into rows: a divisor of inner, or of outer where inner is 1.
 */
struct ReduceSizes {
  long outer, reduce, inner, cols;
};

namespace reduce_detail {

constexpr long BLOCK = 128;  // steps before a partial result joins the total, for accuracy
constexpr long GRAIN = 16384;
constexpr long EXTREMES = 2 * LANES;  // columns whose extremes are found at once

// ---------------------------------------------------------------- along rows

template <class Op, class L>
INFUSE_INLINE vf step(vf sum, vf x, L lanes) {
  return valid(Op::step(sum, x), sum, lanes);
}

/** All columns of one row, in four chains of vectors. */
template <class Op, class In>
INFUSE_INLINE vf whole_row(long row, long cols, const In& in) {
  const vf start = splat(Op::template start<float>());
  vf total = start;
  long c = 0;
  while (c + 4 * LANES <= cols) {
    long last = c + BLOCK * 4 * LANES < cols ? c + BLOCK * 4 * LANES : cols;
    vf part[4] = {start, start, start, start};
    for (; c + 4 * LANES <= last; c += 4 * LANES) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) part[i] = Op::step(part[i], in(row, c + i * LANES, Full{}));
    }
    total = Op::join(total, Op::join(Op::join(part[0], part[1]), Op::join(part[2], part[3])));
  }
  vf part = start;
  sweep(c, cols, [&](long at, auto lanes) __attribute__((always_inline)) {
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
      [&](long begin, long end, int) {
        for (long at = begin; at < end;) {
          long row = at / shape.cols, col = at % shape.cols, most = shape.cols - col;
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
INFUSE_INLINE void whole_columns(long first, long rows, long c, L lanes, const In& in,
                                 vf (&total)[N]) {
  const vf start = splat(Op::template start<float>());
  for (int i = 0; i < N; ++i) total[i] = start;
  for (long r = 0; r < rows;) {
    long last = r + BLOCK < rows ? r + BLOCK : rows;
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
  long block = 4 * LANES, blocks = (shape.cols + block - 1) / block;
  long lines = shape.outer * (shape.inner / shape.cols);
  if (lines * blocks < 2 * context.threads) {
    block = LANES;
    blocks = (shape.cols + block - 1) / block;
  }
  context.parallel(
      lines * blocks,
      [&](long first, long last, int) {
        for (long unit = first; unit < last; ++unit) {
          long col = unit % blocks * block;
          body(unit / blocks, col, col + block < shape.cols ? col + block : shape.cols);
        }
      },
      1 + GRAIN / (shape.reduce * block + 1));
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
        [&](long row) {
          float sum = across<Op>(whole_row<Op>(row, shape.reduce, in));
          return Op::end(splat(sum), shape.reduce)[0];
        },
        sink);
    return;
  }
  long lines = shape.inner / shape.cols;
  each_columns(context, shape, [&](long line, long begin, long end) {
    long first = line / lines * shape.reduce, shift = line % lines * shape.cols, c = begin;
    vf total[4];
    if (end - c == 4 * LANES) {
      whole_columns<Op, 4>(first, shape.reduce, shift + c, Full{}, in, total);
      for (int i = 0; i < 4; ++i)
        sink(Op::end(total[i], shape.reduce), line, c + i * LANES, Full{});
      return;
    }
    sweep(c, end, [&](long at, auto lanes) {
      vf one[1];
      whole_columns<Op, 1>(first, shape.reduce, shift + at, lanes, in, one);
      sink(Op::end(one[0], shape.reduce), line, at, lanes);
    });
  });
}

/** The same on dense floats. */
template <class Op, class Sink>
inline void reduce(Context& context, const ReduceSizes& shape, const float* x, const Sink& sink) {
  reduce_in<Op>(context, shape, Rows{x, shape.inner == 1 ? shape.reduce : shape.inner}, sink);
}

/** log Σ exp(x), shifted by the maximum; input as in reduce_in. */
template <class In, class Sink>
inline void log_sum_exp(Context& context, const ReduceSizes& shape, const In& in,
                        const Sink& sink) {
  using namespace reduce_detail;
  auto finite = [](vf x) { return select(abs(x) < __builtin_inff(), x, vf{}); };
  if (shape.outer * shape.inner == 0) return;
  if (shape.inner == 1) {
    each_row(
        context, shape,
        [&](long row) {
          vf top = finite(splat(across<Max>(whole_row<Max>(row, shape.reduce, in))));
          auto shifted = [&](long r, long c, auto lanes)
                             __attribute__((always_inline)) { return exp(in(r, c, lanes) - top); };
          vf sum = splat(across<Sum>(whole_row<Sum>(row, shape.reduce, shifted)));
          return (log(sum) + top)[0];
        },
        sink);
    return;
  }
  long lines = shape.inner / shape.cols;
  each_columns(context, shape, [&](long line, long begin, long end) {
    long first = line / lines * shape.reduce, shift = line % lines * shape.cols;
    sweep(begin, end, [&](long at, auto lanes) {
      vf top[1], sum[1];
      whole_columns<Max, 1>(first, shape.reduce, shift + at, lanes, in, top);
      top[0] = finite(top[0]);
      auto shifted = [&](long r, long c, auto tag)
                         __attribute__((always_inline)) { return exp(in(r, c, tag) - top[0]); };
      whole_columns<Sum, 1>(first, shape.reduce, shift + at, lanes, shifted, sum);
      sink(log(sum[0]) + top[0], line, at, lanes);
    });
  });
}

/** Reduces dense values of any type by Op; x [outer, reduce, inner], y [outer, inner]. */
template <class Op, class T>
inline void reduce_scalar(Context& context, const ReduceSizes& shape, const T* x, T* y) {
  typedef typename reduce_detail::Wide<T>::type Count;
  constexpr long WIDTH = 64;
  long blocks = (shape.inner + WIDTH - 1) / WIDTH;
  context.parallel(
      shape.outer * blocks,
      [&](long first, long last, int) {
        for (long unit = first; unit < last; ++unit) {
          long outer = unit / blocks, begin = unit % blocks * WIDTH;
          long count = shape.inner - begin < WIDTH ? shape.inner - begin : WIDTH;
          Count sum[WIDTH];
          for (long i = 0; i < count; ++i) sum[i] = Count(Op::template start<T>());
          const T* row = x + outer * shape.reduce * shape.inner + begin;
          for (long r = 0; r < shape.reduce; ++r, row += shape.inner)
            for (long i = 0; i < count; ++i) sum[i] = Op::step(sum[i], Count(row[i]));
          for (long i = 0; i < count; ++i)
            y[outer * shape.inner + begin + i] = T(Op::end(sum[i], shape.reduce));
        }
      },
      1 + reduce_detail::GRAIN / (shape.reduce * (shape.inner < WIDTH ? shape.inner : WIDTH) + 1));
}

/** log Σ exp(x) of dense doubles, shifted by the maximum; x [outer, reduce, inner], y [outer, inner]. */
inline void log_sum_exp(Context& context, const ReduceSizes& shape, const double* x, double* y) {
  context.parallel(
      shape.outer * shape.inner,
      [&](long first, long last, int) {
        for (long at = first; at < last; ++at) {
          const double* line = x + at / shape.inner * shape.reduce * shape.inner + at % shape.inner;
          double top = -__builtin_inf(), sum = 0;
          for (long r = 0; r < shape.reduce; ++r) top = max(top, line[r * shape.inner]);
          const double shift = abs(top) < __builtin_inf() ? top : 0;
          for (long r = 0; r < shape.reduce; ++r) sum += exp(line[r * shape.inner] - shift);
          y[at] = log(sum) + shift;
        }
      },
      1 + reduce_detail::GRAIN / (16 * shape.reduce + 1));
}

namespace reduce_detail {

/** The place of the extreme of `size` values that lie `step` apart. */
template <bool Largest, class T>
inline int64_t extreme_place(const T* value, long size, long step, bool last_of_equals) {
  T best = *value;
  int64_t place = 0;
  for (long i = 1; i < size; ++i) {
    T v = value[i * step];
    bool better = Largest ? v > best : v < best;
    if (v != v) better = best == best;
    bool equal = v == best || (v != v && best != best);
    if (!better && !(last_of_equals && equal)) continue;
    best = v;
    place = i;
  }
  return place;
}

/** The place of the first extreme of a row of floats. */
template <bool Largest>
inline int64_t first_extreme(const float* row, long size) {
  Rows in = {row, 0};
  float best =
      Largest ? across<Max>(whole_row<Max>(0, size, in)) : across<Min>(whole_row<Min>(0, size, in));
  long i = 0;
  for (; i + LANES <= size; i += LANES) {
    vf x = load(row + i, Full{});
    if (any((x == best) | (x != x))) break;
  }
  while (row[i] != best && row[i] == row[i]) ++i;
  return i;
}

/** The places of the extremes of two vectors of columns of rows that lie `inner` apart. */
template <bool Largest, bool Last, class A, class B>
INFUSE_INLINE void vector_extremes(const float* value, long size, long inner, A a, B b,
                                   int64_t* index) {
  vf best[2] = {load(value, a), load(value + LANES, b)};
  vi place[2] = {};
  for (long i = 1; i < size; ++i) {
    value += inner;
    const vf x[2] = {load(value, a), load(value + LANES, b)};
    const vi row = splat(int32_t(i));
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      const vi none = x[k] != x[k], known = best[k] == best[k];
      vi better = Largest ? x[k] > best[k] : x[k] < best[k];
      if (Last) better |= x[k] == best[k];
      const vi take = Last ? better | none : better | (none & known);
      best[k] = select(take, x[k], best[k]);
      place[k] = (row & take) | (place[k] & ~take);
    }
  }
  for (int j = 0; j < count(a); ++j) index[j] = place[0][j];
  for (int j = 0; j < count(b); ++j) index[LANES + j] = place[1][j];
}

/** The places of the extremes of `width` columns, at most EXTREMES. */
template <bool Largest, bool Last, class T>
inline void extreme_columns(const T* value, long size, long inner, long width, int64_t* index) {
  if constexpr (is_float<T> && sizeof(T) == 4) {
    if (width == EXTREMES) {
      vector_extremes<Largest, Last>(value, size, inner, Full{}, Full{}, index);
    } else {
      const int first = int(width < LANES ? width : LANES), rest = int(width) - first;
      vector_extremes<Largest, Last>(value, size, inner, Tail{first}, Tail{rest}, index);
    }
    return;
  }
  T best[EXTREMES];
  int32_t place[EXTREMES] = {};
  for (long j = 0; j < width; ++j) best[j] = value[j];
  for (long i = 1; i < size; ++i) {
    value += inner;
    for (long j = 0; j < width; ++j) {
      const T v = value[j], b = best[j];
      const bool better = Largest ? v > b : v < b;
      if (!(better || (Last && v == b) || (v != v && (Last || b == b)))) continue;
      best[j] = v;
      place[j] = int32_t(i);
    }
  }
  for (long j = 0; j < width; ++j) index[j] = place[j];
}

}  // namespace reduce_detail

/**
 * Where the largest (or smallest) of `size` values lies, the first or the last of equal ones;
 * NaN counts as extreme. x [outer, size, inner], index [outer, inner].
 */
template <bool Largest, class T>
inline void arg_extreme(Context& context, long outer, long size, long inner, bool last_of_equals,
                        const T* x, int64_t* index) {
  using namespace reduce_detail;
  if (inner > 1 && size < 1L << 31) {
    const long blocks = (inner + EXTREMES - 1) / EXTREMES;
    context.parallel(
        outer * blocks,
        [&](long begin, long end, int) {
          for (long unit = begin; unit < end; ++unit) {
            const long row = unit / blocks, col = unit % blocks * EXTREMES;
            const long width = inner - col < EXTREMES ? inner - col : EXTREMES;
            const T* value = x + row * size * inner + col;
            int64_t* to = index + row * inner + col;
            if (last_of_equals)
              extreme_columns<Largest, true>(value, size, inner, width, to);
            else
              extreme_columns<Largest, false>(value, size, inner, width, to);
          }
        },
        1 + GRAIN / (size * (inner < EXTREMES ? inner : EXTREMES) + 1));
    return;
  }
  context.parallel(
      outer * inner,
      [&](long begin, long end, int) {
        for (long at = begin; at < end; ++at) {
          const T* value = x + at / inner * size * inner + at % inner;
          if constexpr (is_float<T> && sizeof(T) == 4) {
            if (inner == 1 && !last_of_equals) {
              index[at] = first_extreme<Largest>(value, size);
              continue;
            }
          }
          index[at] = extreme_place<Largest>(value, size, inner, last_of_equals);
        }
      },
      1 + GRAIN / (size + 1));
}

}  // namespace infuse
