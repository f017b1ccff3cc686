// Operators that make or order sequences: range, running sums, triangles, one-hot, top k, non-zero.
#pragma once
#include "copy.hpp"
#include "simd.hpp"
#include "sort.hpp"
#include "wrap.hpp"

namespace infuse {

/** y[i] = start + i · step. */
template <class T>
inline void range(Context& context, T start, T step, isize count, T* y) {
  context.parallel(
      count,
      [&](isize begin, isize end, int) {
        for (isize i = begin; i < end; ++i) y[i] = plus(start, times(T(i), step));
      },
      COPY_GRAIN / isize(sizeof(T)));
}

/** Keeps x[.., i, j] where j >= i + k (upper) or j <= i + k (lower); zero elsewhere. */
template <class T>
inline void triangle(Context& context, isize batch, isize rows, isize cols, isize k, bool upper,
                     const T* x, T* y) {
  k = k < -rows ? -rows : k > cols ? cols : k;
  context.parallel(
      batch * rows,
      [&](isize begin, isize end, int) {
        for (isize row = begin; row < end; ++row) {
          isize edge = row % rows + k + (upper ? 0 : 1);
          if (edge < 0) edge = 0;
          if (edge > cols) edge = cols;
          const T* from = x + row * cols;
          T* to = y + row * cols;
          for (isize j = 0; j < edge; ++j) to[j] = upper ? T(0) : from[j];
          for (isize j = edge; j < cols; ++j) to[j] = upper ? from[j] : T(0);
        }
      },
      1 + COPY_GRAIN / (cols * isize(sizeof(T)) + 1));
}

/** Running sums over `size` elements; x and y [outer, size, inner]. */
template <class T>
inline void cumsum(Context& context, isize outer, isize size, isize inner, bool exclusive,
                   bool reverse, const T* x, T* y) {
  constexpr isize WIDTH = 64;
  isize blocks = (inner + WIDTH - 1) / WIDTH;
  context.parallel(
      outer * blocks,
      [&](isize begin, isize end, int) {
        for (isize unit = begin; unit < end; ++unit) {
          isize first = unit % blocks * WIDTH;
          isize width = inner - first < WIDTH ? inner - first : WIDTH;
          T sum[WIDTH] = {};
          for (isize i = 0; i < size; ++i) {
            isize at = (unit / blocks * size + (reverse ? size - 1 - i : i)) * inner + first;
            for (isize j = 0; j < width; ++j) {
              T next = plus(sum[j], x[at + j]);
              y[at + j] = exclusive ? sum[j] : next;
              sum[j] = next;
            }
          }
        }
      },
      1 + COPY_GRAIN / (size * (inner < WIDTH ? inner : WIDTH) + 1));
}

/**
 * y[outer, d, inner] = on where index[outer, inner] is d, else off. A negative index counts from
 * the end; one out of range gives a column of off.
 */
template <class T, class Index>
inline void one_hot(Context& context, isize outer, isize depth, isize inner, const Index* index, T off,
                    T on, T* y) {
  context.parallel(
      outer * depth,
      [&](isize begin, isize end, int) {
        for (isize row = begin; row < end; ++row) {
          const Index* wanted = index + row / depth * inner;
          for (isize j = 0; j < inner; ++j) {
            isize at = static_cast<isize>(wanted[j]);
            y[row * inner + j] = (at < 0 ? at + depth : at) == row % depth ? on : off;
          }
        }
      },
      1 + COPY_GRAIN / (inner * isize(sizeof(T)) + 1));
}

// ---------------------------------------------------------------- top k

/** Bytes of scratch per worker for top_k. */
inline isize top_k_scratch(isize k) { return 2 * k * isize(sizeof(isize)) + CACHE_LINE; }

namespace sequence_detail {

/** Orders places by value, then by index; NaN is larger than every number. */
template <bool Largest, class T>
struct Before {
  const T* x;
  isize step;

  bool operator()(isize a, isize b) const {
    T u = x[a * step], v = x[b * step];
    if (u == v || (u != u && v != v)) return a < b;
    bool larger = u != u || (v == v && u > v);
    return larger == Largest;
  }
};

/** Moves the root of a heap, whose last comes first, down to its place. */
template <class Order>
inline void sink_root(isize* heap, isize count, const Order& before) {
  isize item = heap[0], at = 0;
  for (isize child = 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count && before(heap[child], heap[child + 1])) ++child;
    if (!before(item, heap[child])) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = item;
}

template <class Order>
inline void raise_last(isize* heap, isize at, const Order& before) {
  isize item = heap[at];
  while (at > 0 && before(heap[(at - 1) / 2], item)) {
    heap[at] = heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  heap[at] = item;
}

/** Whether x may come before a value that lies earlier; false only where it surely does not. */
template <bool Largest, class T>
INFUSE_INLINE bool may_beat(T x, T bar) {
  return Largest ? !(x <= bar) : !(x >= bar);
}

/** The next i >= `from`, below `size`, whose element may come before `bar`; `size` where none is. */
template <bool Largest, class T>
inline isize next_candidate(const T* x, isize step, isize from, isize size, T bar) {
  while (from < size && !may_beat<Largest>(x[from * step], bar)) ++from;
  return from;
}
template <bool Largest>
inline isize next_candidate(const float* x, isize step, isize from, isize size, float bar) {
  constexpr isize BLOCK = 4 * LANES;
  if (step == 1) {
    const vf limit = splat(bar);
    for (; from + BLOCK <= size; from += BLOCK) {
      vi beats = vi{};
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) {
        const vf y = load(x + from + v * LANES, Full{});
        beats |= Largest ? ~(y <= limit) : ~(y >= limit);
      }
      if (any(beats)) break;
    }
  }
  while (from < size && !may_beat<Largest>(x[from * step], bar)) ++from;
  return from;
}

}  // namespace sequence_detail

/**
 * The k largest (or smallest) of `size` values in order, equal ones by index; x [outer, size,
 * inner], values and index [outer, k, inner], k <= size. Needs top_k_scratch(k).
 */
template <bool Largest, class T>
inline void top_k(Context& context, isize outer, isize size, isize inner, isize k, const T* x,
                  T* values, int64_t* index) {
  using namespace sequence_detail;
  if (k == 0) return;
  context.parallel(
      outer * inner,
      [&](isize begin, isize end, int worker) {
        isize* heap = reinterpret_cast<isize*>(context.scratch(worker));
        for (isize unit = begin; unit < end; ++unit) {
          const T* from = x + unit / inner * size * inner + unit % inner;
          Before<Largest, T> before = {from, inner};
          for (isize i = 0; i < k; ++i) {
            heap[i] = i;
            raise_last(heap, i, before);
          }
          for (isize i = k;; ++i) {
            i = next_candidate<Largest>(from, inner, i, size, from[heap[0] * inner]);
            if (i >= size) break;
            if (!before(i, heap[0])) continue;
            heap[0] = i;
            sink_root(heap, k, before);
          }
          merge_sort(heap, heap + k, k, before);
          isize to = unit / inner * k * inner + unit % inner;
          for (isize i = 0; i < k; ++i) {
            values[to + i * inner] = from[heap[i] * inner];
            index[to + i * inner] = heap[i];
          }
        }
      },
      1 + 4096 / (size + 1));
}

// ---------------------------------------------------------------- non-zero

/** How many of n elements are not zero. */
template <class T>
inline isize nonzero_count(const T* x, isize n) {
  isize count = 0;
  for (isize i = 0; i < n; ++i) count += x[i] != T(0);
  return count;
}

/** Writes the places of the `count` non-zero elements, in order; y [rank, count]. */
template <class T>
inline void nonzero_fill(int rank, const isize* dims, const T* x, isize count, int64_t* y) {
  isize n = 1, found = 0;
  for (int d = 0; d < rank; ++d) n *= dims[d];
  for (isize i = 0; i < n && found < count; ++i) {
    if (x[i] == T(0)) continue;
    isize rest = i;
    for (int d = rank - 1; d >= 0; --d) {
      y[d * count + found] = rest % dims[d];
      rest /= dims[d];
    }
    ++found;
  }
}

}  // namespace infuse
