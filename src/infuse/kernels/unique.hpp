// The different elements of a tensor, or slices of it.
#pragma once
#include "copy.hpp"
#include "sort.hpp"

namespace infuse {

namespace unique_detail {

/** The order of numbers, NaN last. */
template <class T>
INFUSE_INLINE bool below(T a, T b) {
  return a < b || (b != b && a == a);
}

template <class T>
struct Entry {
  T value;
  isize place;
};

/** Groups of neighbours among `n` sorted entries: where each begins, how many it has, which one each is in. */
template <class Place, class Same>
inline isize groups(isize n, const Place& place, const Same& same, int64_t* first, int64_t* inverse,
                   int64_t* counts) {
  isize count = 0;
  for (isize k = 0; k < n; ++k) {
    if (k == 0 || !same(k - 1, k)) {
      first[count] = place(k);
      counts[count++] = 0;
    }
    ++counts[count - 1];
    inverse[place(k)] = count - 1;
  }
  return count;
}

/** Groups in the order in which they occur; `space` holds 3n numbers. */
inline void by_occurrence(isize n, isize count, int64_t* space, int64_t* first, int64_t* inverse,
                          int64_t* counts) {
  int64_t *number = space, *old_first = space + n, *old_counts = space + 2 * n;
  isize next = 0;
  for (isize g = 0; g < count; ++g) old_first[g] = first[g], old_counts[g] = counts[g];
  for (isize i = 0; i < n; ++i) {
    const isize g = isize(inverse[i]);
    if (old_first[g] == i) {
      number[g] = next;
      first[next] = i;
      counts[next++] = old_counts[g];
    }
    inverse[i] = number[g];
  }
}

}  // namespace unique_detail

/** Numbers of 64 bits that unique works in for n elements or slices. */
inline isize unique_space(isize n) { return 4 * n; }

/**
 * How many of n elements differ: where each different one occurs first (in ascending order, or in that
 * of occurrence), which one every element is, how often it occurs; all of these hold n numbers. NaNs are equal.
 */
template <class T>
inline isize unique_elements(const T* x, isize n, bool sorted, int64_t* space, int64_t* first,
                            int64_t* inverse, int64_t* counts) {
  using namespace unique_detail;
  typedef Entry<T> E;
  static_assert(sizeof(E) <= 16, "two entries fit into the space of an element");
  E* entries = reinterpret_cast<E*>(space);
  for (isize i = 0; i < n; ++i) {
    entries[i].value = x[i];
    entries[i].place = i;
  }
  merge_sort(entries, entries + n, n, [](const E& a, const E& b) { return below(a.value, b.value); });
  const isize count = groups(
      n, [&](isize k) { return entries[k].place; },
      [&](isize a, isize b) {
        const T u = entries[a].value, v = entries[b].value;
        return u == v || (u != u && v != v);
      },
      first, inverse, counts);
  settle();
  if (!sorted) by_occurrence(n, count, space, first, inverse, counts);
  return count;
}

/** The same for n slices of x [outer, n, inner], compared element by element; NaN is equal to nothing. */
template <class T>
inline isize unique_slices(const T* x, isize outer, isize n, isize inner, bool sorted, int64_t* space,
                          int64_t* first, int64_t* inverse, int64_t* counts) {
  using namespace unique_detail;
  for (isize i = 0; i < n; ++i) space[i] = i;
  const auto at = [&](isize o, isize i) { return x + (o * n + i) * inner; };
  merge_sort(space, space + n, n, [&](int64_t a, int64_t b) {
    for (isize o = 0; o < outer; ++o) {
      const T *u = at(o, a), *v = at(o, b);
      for (isize j = 0; j < inner; ++j) {
        if (below(u[j], v[j])) return true;
        if (below(v[j], u[j])) return false;
      }
    }
    return false;
  });
  const isize count = groups(
      n, [&](isize k) { return space[k]; },
      [&](isize a, isize b) {
        for (isize o = 0; o < outer; ++o) {
          const T *u = at(o, space[a]), *v = at(o, space[b]);
          for (isize j = 0; j < inner; ++j)
            if (!(u[j] == v[j])) return false;
        }
        return true;
      },
      first, inverse, counts);
  if (!sorted) by_occurrence(n, count, space, first, inverse, counts);
  return count;
}

/** Slices of x [outer, n, inner bytes] at `count` places: y [outer, count, inner]. */
inline void take_slices(Context& context, const char* x, isize outer, isize n, isize inner,
                        const int64_t* places, isize count, char* y) {
  context.parallel(
      outer * count,
      [&](isize begin, isize end, int) {
        for (isize i = begin; i < end; ++i)
          copy_bytes(y + i * inner, x + (i / count * n + places[i % count]) * inner, inner);
      },
      1 + COPY_GRAIN / (inner + 16));
}

}  // namespace infuse
