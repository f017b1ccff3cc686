// Recurrent networks: X Wᵀ for all steps at once, then one product h Rᵀ a step with the cell behind it.
//
// Weights are packed by units of P blocks of hidden units: [unit][k][P][gate][width], width numbers
// being a vector. So one pass over a unit gives all gates of its hidden units, and the cell
// finds them side by side. Hidden units past the last one are zeros. W is what a packed weight is in memory: T, or
// halves or steps of 8 bits where T is float; these have a scale for each column, [unit][P][gate][width].
#pragma once

#include "cells.hpp"
#include "gate_words.hpp"
#include "half.hpp"
#include "narrow.hpp"
#include "threads.hpp"

namespace infuse {
namespace recur {

// Whether weights are counts of steps, with a scale for each column.
template <class W> inline constexpr bool HAS_SCALES = false;
template <> inline constexpr bool HAS_SCALES<int8_t> = true;
template <class W, class T> constexpr const T* of_unit(const T* scales, isize first) {
  return HAS_SCALES<W> ? scales + first : nullptr;
}

namespace detail {

constexpr int SUMS = INFUSE_REGISTERS * 3 / 4;
// Compilers that load a vector anew for every row it meets would wait for the loads.
#if INFUSE_LANES == 16
#define INFUSE_KEEP(x) INFUSE_HOLD(x)
#else
#define INFUSE_KEEP(x) (void)(x)
#endif

// Rows of a tile of V vectors.
constexpr int most_rows(int v) { return SUMS / v < 8 ? SUMS / v : 8; }

// A vector of packed weights.
template <class T, class W> INFUSE_INLINE typename Wide<T>::type vector_at(const W* packed) {
  if constexpr (HAS_SCALES<W>)
    return to_float(load_wide(packed, Full{}));
  else
    return load(packed, typename Wide<T>::Whole{});
}

// out[R][V] = rows of k numbers times a unit [k][V].
template <class T, class W, int R, int V>
INFUSE_NOINLINE void tile(const T* const* rows, isize k, const W* unit,
                          typename Wide<T>::type* out) {
  typedef typename Wide<T>::type Sum;
  constexpr int U = R * V >= 8 ? 1 : R * V >= 4 ? 2 : 4;
  Sum sum[U][R][V];
#pragma GCC unroll 32
  for (int u = 0; u < U; ++u)
#pragma GCC unroll 32
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 32
      for (int v = 0; v < V; ++v) sum[u][i][v] = Sum{};
  const T* a[R];
#pragma GCC unroll 32
  for (int i = 0; i < R; ++i) a[i] = rows[i] + k;
  auto step = [&](int u, isize p) __attribute__((always_inline)) {
    Sum x[V];
#pragma GCC unroll 32
    for (int v = 0; v < V; ++v) {
      x[v] = vector_at<T>(unit + v * Wide<T>::width);
      INFUSE_KEEP(x[v]);
    }
#pragma GCC unroll 32
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 32
      for (int v = 0; v < V; ++v) sum[u][i][v] = fma(Wide<T>::all(a[i][p]), x[v], sum[u][i][v]);
    unit += V * Wide<T>::width;
  };
  isize p = -k;
#pragma GCC unroll 1
  for (; p <= -U; p += U)
#pragma GCC unroll 32
    for (int u = 0; u < U; ++u) step(u, p + u);
#pragma GCC unroll 1
  for (; p < 0; ++p) step(0, p);
#pragma GCC unroll 32
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 32
    for (int v = 0; v < V; ++v) {
#pragma GCC unroll 32
      for (int u = 1; u < U; ++u) sum[0][i][v] += sum[u][i][v];
      out[i * V + v] = sum[0][i][v];
    }
}

#undef INFUSE_KEEP

template <class T, class W>
using Tile = void (*)(const T* const*, isize, const W*, typename Wide<T>::type*);

template <class T, class W, int V, int R = most_rows(V)>
INFUSE_INLINE Tile<T, W> tile_of(isize rows) {
  if constexpr (R == 1)
    return tile<T, W, 1, V>;
  else
    return rows == R ? tile<T, W, R, V> : tile_of<T, W, V, R - 1>(rows);
}

// Calls finish(i, sums[V]) for each of n rows, row(i) being a pointer to its k numbers. `scales` are
// those of the unit's columns, where its weights have some.
template <class T, int V, class W, class Row, class Finish>
INFUSE_INLINE void product(isize n, isize k, const W* unit, [[maybe_unused]] const T* scales,
                           const Row& row, const Finish& finish) {
  constexpr isize most = most_rows(V);
  typename Wide<T>::type out[most * V];
  const T* rows[most];
  isize tiles = (n + most - 1) / most;
  for (isize begin = 0; begin < n; --tiles) {
    const isize count = (n - begin + tiles - 1) / tiles;
    for (isize i = 0; i < count; ++i) rows[i] = row(begin + i);
    tile_of<T, W, V>(count)(rows, k, unit, out);
    if constexpr (HAS_SCALES<W>)
      for (isize i = 0; i < count * V; ++i)
        out[i] *= load(scales + i % V * Wide<T>::width, typename Wide<T>::Whole{});
    for (isize i = 0; i < count; ++i) finish(begin + i, out + i * V);
    begin += count;
  }
}

// Calls body(unit, first, count) for all units of weights and parts of the rows, on all threads;
// `work` is what a unit takes for a row.
template <class Body>
INFUSE_INLINE void by_parts(Context& ctx, isize units, isize rows, isize work, const Body& body) {
  const isize parts = ctx.threads > units ? (ctx.threads + units - 1) / units : 1;
  const isize share = (rows + parts - 1) / parts;
  ctx.parallel(
      units * parts,
      [&](isize begin, isize end, int) {
        for (isize task = begin; task < end; ++task) {
          const isize first = task % parts * share;
          body(task / parts, first, min(rows - first, share));
        }
      },
      1 + 32768 / (share * work + 1));
}

// Stores sums of unit u with their biases, if there are any.
template <class T, int V>
INFUSE_INLINE void put_gates(const typename Wide<T>::type* sums, const T* bias, isize u, T* row) {
  constexpr isize width = Wide<T>::width;
  typedef typename Wide<T>::Whole Whole;
  for (int v = 0; v < V; ++v) {
    const isize at = (u * V + v) * width;
    store(row + at, bias ? sums[v] + load(bias + at, Whole{}) : sums[v], Whole{});
  }
}

}  // namespace detail

// Numbers of packed weights of one direction.
constexpr isize gate_units(isize hidden, isize blocks, isize width) {
  return (hidden + blocks * width - 1) / (blocks * width);
}

// Packs rows [gate][hidden][k] of `gates` gates, P blocks a unit; to the first `both` gates is added
// what lies in `also`.
template <class T>
inline void pack_gates(Context& ctx, const T* from, const T* also, isize both, isize gates,
                       isize hidden, isize k, isize blocks, T* to) {
  constexpr isize width = Wide<T>::width;
  ctx.parallel(gate_units(hidden, blocks, width), [&](isize begin, isize end, int) {
    for (isize u = begin; u < end; ++u)
      for (isize b = 0; b < blocks; ++b)
        for (isize g = 0; g < gates; ++g)
          for (isize l = 0; l < width; ++l) {
            const isize j = (u * blocks + b) * width + l;
            T* place = to + (u * k * blocks * gates + b * gates + g) * width + l;
            const isize row = (g * hidden + j) * k;
            for (isize p = 0; p < k; ++p) {
              const T x = j < hidden ? from[row + p] : T(0);
              place[p * blocks * gates * width] =
                  g < both && j < hidden ? T(x + also[row + p]) : x;
            }
          }
  });
}

// out[row][column] = rows of `in` (`stride` apart) times packed units of V vectors, plus `bias`
// [column] or nothing; `columns` apart. `scales` [column] where weights have some.
template <int V, class T, class W>
inline void gate_inputs(Context& ctx, isize rows, isize k, isize units, const T* in, isize stride,
                        const W* packed, const T* scales, const T* bias, isize columns, T* out) {
  using namespace detail;
  constexpr isize width = Wide<T>::width;
  by_parts(ctx, units, rows, k * V * width, [&](isize u, isize first, isize count) {
    product<T, V>(
        count, k, packed + u * k * V * width, of_unit<W>(scales, u * V * width),
        [&](isize i) { return in + (first + i) * stride; },
        [&](isize i, const typename Wide<T>::type* sums) {
          put_gates<T, V>(sums, bias, u, out + (first + i) * columns);
        });
  });
}

// Rows [rows][k] as digits.
inline void input_digits(Context& ctx, isize rows, isize k, const float* in, int32_t* words,
                         float* steps) {
  const Digits digits = {in, words, steps, k};
  ctx.parallel(
      rows,
      [&](isize begin, isize end, int) {
        for (isize i = begin; i < end; ++i) digits.make(i);
      },
      1 + 4096 / (k + 1));
}

// gate_inputs of rows [rows][k] that have digits, and weights in quads whose columns have these `sums`.
template <int V>
inline void gate_inputs_of_digits(Context& ctx, isize rows, isize k, isize units, const float* in,
                                  const int32_t* words, const float* steps, const int8_t* packed,
                                  const float* scales, const int32_t* sums, const float* bias,
                                  isize columns, float* out) {
  const Digits digits = {in, (int32_t*)words, (float*)steps, k};
  detail::by_parts(ctx, units, rows, k * V * LANES, [&](isize u, isize first, isize count) {
    const isize begin = u * V * LANES;
    digits.product<V>([&](isize i) { return first + i; }, count, packed + begin * 4 * quads(k),
                      sums + begin, scales + begin, [&](isize i, const vf* row) {
                        detail::put_gates<float, V>(row, bias, u, out + (first + i) * columns);
                      });
  });
}

// One layer. Strides count numbers; outputs and initial states may be null.
template <class T> struct Recurrent {
  isize steps, batch, hidden, directions;
  bool reverse;
  const int32_t* lengths;
  const T* x;
  isize x_time, x_batch, x_direction;
  const T *initial_h, *initial_c;
  isize initial_direction, initial_batch;
  T* y;
  isize y_time, y_direction, y_batch;
  T *last_h, *last_c;
  isize last_direction, last_batch;
  T* states;   // [direction][5][batch][hidden]
  isize* live;  // [direction][batch]
  int32_t* words;      // [direction][batch][DIGITS][quads(hidden)] where passes are of digits
  float* digit_steps;  // [direction][batch]
};

// One direction on its way: where the states lie, and which examples still go on.
template <class T> struct Walk {
  const Recurrent<T>& r;
  isize direction, step;
  bool backward, spread;
  T *h, *next, *c, *z, *reset;
  isize* live;
  isize count;

  isize length(isize b) const { return r.lengths ? r.lengths[b] : r.steps; }
  isize time(isize b) const { return backward ? length(b) - 1 - step : step; }

  // One pass of the cell over all hidden units: sums are those of `from` and packed weights (with `scales` where they
  // have some), the gates of X Wᵀ begin at `column`.
  template <int P, class W, class Cell>
  INFUSE_INLINE void pass(Context& ctx, const T* from, const W* packed, const T* scales,
                          isize column, const Cell& cell) const {
    constexpr isize width = Wide<T>::width;
    constexpr int V = P * Cell::gates;
    const isize k = r.hidden;
    by_units<P, V>(ctx, [&](isize u) {
      detail::product<T, V>(
          count, k, packed + u * k * V * width, of_unit<W>(scales, u * V * width),
          [&](isize i) { return from + live[i] * k; },
          [&](isize i, const typename Wide<T>::type* sums) {
            finish<P>(u, live[i], sums, column, cell);
          });
    });
  }

  // The same of weights of 8 bits in quads, whose columns have these `sums`.
  template <int P, class Cell>
  INFUSE_INLINE void pass_digits(Context& ctx, const float* from, const int8_t* packed,
                                 const float* scales, const int32_t* sums, isize column,
                                 const Cell& cell) const {
    constexpr int V = P * Cell::gates;
    const isize k = r.hidden, first = direction * r.batch;
    const Digits digits = {from, r.words + first * DIGITS * quads(k), r.digit_steps + first, k};
    for (isize i = 0; i < count; ++i) digits.make(live[i]);
    by_units<P, V>(ctx, [&](isize u) {
      const isize begin = u * V * LANES;
      digits.product<V>([&](isize i) { return live[i]; }, count, packed + begin * 4 * quads(k), sums + begin, scales + begin,
                        [&](isize i, const vf* row) { finish<P>(u, live[i], row, column, cell); });
    });
  }

 private:
  // What the cell makes of the sums of a unit of one example.
  template <int P, class Cell>
  INFUSE_INLINE void finish(isize u, isize b, const typename Wide<T>::type* sums, isize column,
                            const Cell& cell) const {
    constexpr isize width = Wide<T>::width;
    constexpr int G = Cell::gates;
    const isize k = r.hidden, t = time(b);
    const T* x = r.x + t * r.x_time + b * r.x_batch + direction * r.x_direction + column;
    T* y = r.y ? r.y + t * r.y_time + b * r.y_batch + direction * r.y_direction : nullptr;
    for (int p = 0; p < P; ++p) {
      const isize j = (u * P + p) * width, o = b * k + j;
      const Place<T> at = {x + (u * P * G + p * G) * width, h + o, next + o, c + o,
                           y ? y + j : nullptr, z + o, reset + o, j};
      if (j + width <= k)
        cell(at, sums + p * G, typename Wide<T>::Whole{});
      else if (j < k)
        cell(at, sums + p * G, Wide<T>::part(k - j));
    }
  }

  template <int P, int V, class Unit>
  INFUSE_INLINE void by_units(Context& ctx, const Unit& unit) const {
    const isize k = r.hidden, units = gate_units(k, P, Wide<T>::width);
    constexpr isize width = Wide<T>::width;
    const auto some = [&](isize begin, isize end, int) {
      for (isize u = begin; u < end; ++u) unit(u);
    };
    if (spread)
      ctx.parallel(units, some, 1 + 32768 / (count * k * V * width + 1));
    else
      some(0, units, 0);
  }
};

namespace detail {

template <class T> inline void copy_row(T* to, const T* from, isize n) {
  if (from)
    memcpy(to, from, size_t(n) * sizeof(T));
  else
    memset(to, 0, size_t(n) * sizeof(T));
}

// Examples [first, last) of one direction, from the first step to the last states.
template <class T, class Cell>
INFUSE_NOINLINE void walk(Context& ctx, const Recurrent<T>& r, isize direction, isize first,
                          isize last, bool spread, const Cell& cell) {
  const isize n = r.hidden, plane = r.batch * n;
  T* base = r.states + direction * 5 * plane;
  Walk<T> w = {r, direction, 0, direction == 1 || r.reverse, spread, base, base + plane,
               base + 2 * plane, base + 3 * plane, base + 4 * plane,
               r.live + direction * r.batch + first, 0};
  const auto finish = [&](isize b) {
    const isize place = direction * r.last_direction + b * r.last_batch;
    if (r.last_h) copy_row(r.last_h + place, w.h + b * n, n);
    if (r.last_c) copy_row(r.last_c + place, w.c + b * n, n);
  };
  for (isize b = first; b < last; ++b) {
    const isize place = direction * r.initial_direction + b * r.initial_batch;
    copy_row(w.h + b * n, r.initial_h ? r.initial_h + place : nullptr, n);
    copy_row(w.c + b * n, r.initial_c ? r.initial_c + place : nullptr, n);
    for (isize t = w.length(b); r.y && t < r.steps; ++t)
      copy_row(r.y + t * r.y_time + direction * r.y_direction + b * r.y_batch, (const T*)nullptr,
               n);
    if (w.length(b) > 0)
      w.live[w.count++] = b;
    else
      finish(b);
  }
  while (w.count > 0) {
    cell(ctx, w);
    T* old = w.h;
    w.h = w.next, w.next = old;
    ++w.step;
    isize kept = 0;
    for (isize i = 0; i < w.count; ++i) {
      const isize b = w.live[i];
      if (w.step < w.length(b))
        w.live[kept++] = b;
      else
        finish(b);
    }
    w.count = kept;
  }
}

}  // namespace detail

// Runs the layer: cell(ctx, walk) takes one step. False where a length is no number of steps.
template <class T, class Cell>
inline bool recurrent(Context& ctx, const Recurrent<T>& r, const Cell& cell) {
  using namespace detail;
  for (isize b = 0; r.lengths && b < r.batch; ++b)
    if (r.lengths[b] < 0 || r.lengths[b] > r.steps) return false;
  // Threads take directions and examples for themselves; they share the steps only where
  // there is nothing else to share.
  const isize free = ctx.threads / r.directions;
  const isize parts = free > 1 && r.batch >= 2 * free ? free : 1;
  const isize tasks = r.directions * parts;
  if (ctx.threads > 1 && tasks > 1) {
    ctx.parallel(tasks, [&](isize begin, isize end, int) {
      for (isize t = begin; t < end; ++t) {
        const isize i = t % parts;
        walk(ctx, r, t / parts, r.batch * i / parts, r.batch * (i + 1) / parts, false, cell);
      }
    });
    return true;
  }
  for (isize d = 0; d < r.directions; ++d) walk(ctx, r, d, 0, r.batch, ctx.threads > 1, cell);
  return true;
}

}  // namespace recur
}  // namespace infuse
