// Where the largest or smallest of some values lies.
#pragma once
#include "reduce.hpp"

namespace infuse {

namespace extreme_detail {

constexpr isize GRAIN = 16384;
constexpr isize TOGETHER = 2 * LANES;  // columns whose extremes are found at once

/** The place of the extreme of `size` values that lie `step` apart. */
template <bool Largest, class T>
inline int64_t extreme_place(const T* value, isize size, isize step, bool last_of_equals) {
  T best = *value;
  int64_t place = 0;
  for (isize i = 1; i < size; ++i) {
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

/** The extreme of a row of floats, NaN where it holds one. */
template <bool Largest>
INFUSE_INLINE float row_extreme(const float* row, isize size) {
  using namespace reduce_detail;
  const Rows in = {row, 0};
  return Largest ? across<Max>(whole_row<Max>(0, size, in))
                 : across<Min>(whole_row<Min>(0, size, in));
}

/** The place of the last extreme of a row of floats. */
template <bool Largest>
inline int64_t last_extreme(const float* row, isize size) {
  const float best = row_extreme<Largest>(row, size);
  isize i = size;
  for (; i >= LANES; i -= LANES) {
    vf x = load(row + i - LANES, Full{});
    if (any((x == best) | (x != x))) break;
  }
  while (row[i - 1] != best && row[i - 1] == row[i - 1]) --i;
  return i - 1;
}

/** The place of the first extreme of a row of floats. */
template <bool Largest>
inline int64_t first_extreme(const float* row, isize size) {
  const float best = row_extreme<Largest>(row, size);
  isize i = 0;
  for (; i + LANES <= size; i += LANES) {
    vf x = load(row + i, Full{});
    if (any((x == best) | (x != x))) break;
  }
  while (row[i] != best && row[i] == row[i]) ++i;
  return i;
}

INFUSE_INLINE void store_places(int64_t* index, vi place, Full) {
  typedef int64_t places __attribute__((vector_size(LANES * 8)));
  const places wide = __builtin_convertvector(place, places);
  memcpy(index, &wide, sizeof wide);
}
INFUSE_INLINE void store_places(int64_t* index, vi place, Tail lanes) {
  for (int i = 0; i < lanes.n; ++i) index[i] = place[i];
}

/** The places of the extremes of two vectors of columns of rows that lie `inner` apart. */
template <bool Largest, bool Last, class A, class B>
INFUSE_INLINE void vector_extremes(const float* value, isize size, isize inner, A a, B b,
                                   int64_t* index) {
  vf best[2] = {load(value, a), load(value + LANES, b)};
  vi place[2] = {};
  for (isize i = 1; i < size; ++i) {
    value += inner;
    const vf x[2] = {load(value, a), load(value + LANES, b)};
    const vi row = splat(int32_t(i));
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      const vi none = x[k] != x[k], number = best[k] == best[k];
      vi better = Largest ? x[k] > best[k] : x[k] < best[k];
      if (Last) better |= x[k] == best[k];
      const vi take = Last ? better | none : better | (none & number);
      best[k] = select(take, x[k], best[k]);
      place[k] = (row & take) | (place[k] & ~take);
    }
  }
  store_places(index, place[0], a);
  store_places(index + LANES, place[1], b);
}

/** The places of the extremes of `width` columns, at most TOGETHER. */
template <bool Largest, bool Last, class T>
inline void extreme_columns(const T* value, isize size, isize inner, isize width, int64_t* index) {
  if constexpr (reduce_detail::is_float<T> && sizeof(T) == 4) {
    if (width == TOGETHER) {
      vector_extremes<Largest, Last>(value, size, inner, Full{}, Full{}, index);
    } else {
      const int first = int(width < LANES ? width : LANES), rest = int(width) - first;
      vector_extremes<Largest, Last>(value, size, inner, Tail{first}, Tail{rest}, index);
    }
    return;
  }
  T best[TOGETHER];
  int32_t place[TOGETHER] = {};
  for (isize j = 0; j < width; ++j) best[j] = value[j];
  for (isize i = 1; i < size; ++i) {
    value += inner;
    for (isize j = 0; j < width; ++j) {
      const T v = value[j], b = best[j];
      const bool better = Largest ? v > b : v < b;
      if (!(better || (Last && v == b) || (v != v && (Last || b == b)))) continue;
      best[j] = v;
      place[j] = int32_t(i);
    }
  }
  for (isize j = 0; j < width; ++j) index[j] = place[j];
}

/** The places of the extremes of dense rows of few floats. */
template <bool Largest, bool Last>
inline void short_row_extremes(Context& context, isize rows, isize size, const float* x,
                               int64_t* index) {
  using short_rows::BLOCK;
  short_rows::each_block(context, rows, size, x, GRAIN,
                         [&](const float* columns, isize first, isize count) {
                           for (isize c = 0; c < count; c += TOGETHER)
                             extreme_columns<Largest, Last>(
                                 columns + c, size, BLOCK,
                                 count - c < TOGETHER ? count - c : TOGETHER, index + first + c);
                         });
}

}  // namespace extreme_detail

/**
 * Where the largest (or smallest) of `size` values lies, the first or the last of equal ones;
 * NaN counts as extreme. x [outer, size, inner], index [outer, inner].
 */
template <bool Largest, class T>
inline void arg_extreme(Context& context, isize outer, isize size, isize inner, bool last_of_equals,
                        const T* x, int64_t* index) {
  using namespace extreme_detail;
  if constexpr (reduce_detail::is_float<T> && sizeof(T) == 4) {
    if (inner == 1 && size <= short_rows::MOST && outer >= LANES) {
      return last_of_equals ? short_row_extremes<Largest, true>(context, outer, size, x, index)
                            : short_row_extremes<Largest, false>(context, outer, size, x, index);
    }
  }
  if (inner > 1 && size < INT64_C(1) << 31) {
    const isize blocks = (inner + TOGETHER - 1) / TOGETHER;
    context.parallel(
        outer * blocks,
        [&](isize begin, isize end, int) {
          for (isize unit = begin; unit < end; ++unit) {
            const isize row = unit / blocks, col = unit % blocks * TOGETHER;
            const isize width = inner - col < TOGETHER ? inner - col : TOGETHER;
            const T* value = x + row * size * inner + col;
            int64_t* to = index + row * inner + col;
            if (last_of_equals)
              extreme_columns<Largest, true>(value, size, inner, width, to);
            else
              extreme_columns<Largest, false>(value, size, inner, width, to);
          }
        },
        1 + GRAIN / (size * (inner < TOGETHER ? inner : TOGETHER) + 1));
    return;
  }
  context.parallel(
      outer * inner,
      [&](isize begin, isize end, int) {
        for (isize at = begin; at < end; ++at) {
          const T* value = x + at / inner * size * inner + at % inner;
          if constexpr (reduce_detail::is_float<T> && sizeof(T) == 4) {
            if (inner == 1) {
              index[at] = last_of_equals ? last_extreme<Largest>(value, size)
                                         : first_extreme<Largest>(value, size);
              continue;
            }
          }
          index[at] = extreme_place<Largest>(value, size, inner, last_of_equals);
        }
      },
      1 + GRAIN / (size + 1));
}

}  // namespace infuse
