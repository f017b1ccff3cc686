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
  long place;
};

/** Groups of neighbours among `n` sorted entries: where each begins, how many it has, which one each is in. */
template <class Place, class Same>
inline long groups(long n, const Place& place, const Same& same, int64_t* first, int64_t* inverse,
                   int64_t* counts) {
  long count = 0;
  for (long k = 0; k < n; ++k) {
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
inline void by_occurrence(long n, long count, int64_t* space, int64_t* first, int64_t* inverse,
                          int64_t* counts) {
  int64_t *number = space, *old_first = space + n, *old_counts = space + 2 * n;
  long next = 0;
  for (long g = 0; g < count; ++g) old_first[g] = first[g], old_counts[g] = counts[g];
  for (long i = 0; i < n; ++i) {
    const long g = long(inverse[i]);
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
inline long unique_space(long n) { return 4 * n; }

/**
 * How many of n elements differ: where each different one occurs first (in ascending order, or in that
 * of occurrence), which one every element is, how often it occurs; all of these hold n numbers. NaNs are equal.
 */
template <class T>
inline long unique_elements(const T* x, long n, bool sorted, int64_t* space, int64_t* first,
                            int64_t* inverse, int64_t* counts) {
  using namespace unique_detail;
  typedef Entry<T> E;
  static_assert(sizeof(E) <= 16, "two entries fit into the space of an element");
  E* entries = reinterpret_cast<E*>(space);
  for (long i = 0; i < n; ++i) {
    entries[i].value = x[i];
    entries[i].place = i;
  }
  merge_sort(entries, entries + n, n, [](const E& a, const E& b) { return below(a.value, b.value); });
  const long count = groups(
      n, [&](long k) { return entries[k].place; },
      [&](long a, long b) {
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
inline long unique_slices(const T* x, long outer, long n, long inner, bool sorted, int64_t* space,
                          int64_t* first, int64_t* inverse, int64_t* counts) {
  using namespace unique_detail;
  for (long i = 0; i < n; ++i) space[i] = i;
  const auto at = [&](long o, long i) { return x + (o * n + i) * inner; };
  merge_sort(space, space + n, n, [&](int64_t a, int64_t b) {
    for (long o = 0; o < outer; ++o) {
      const T *u = at(o, a), *v = at(o, b);
      for (long j = 0; j < inner; ++j) {
        if (below(u[j], v[j])) return true;
        if (below(v[j], u[j])) return false;
      }
    }
    return false;
  });
  const long count = groups(
      n, [&](long k) { return space[k]; },
      [&](long a, long b) {
        for (long o = 0; o < outer; ++o) {
          const T *u = at(o, space[a]), *v = at(o, space[b]);
          for (long j = 0; j < inner; ++j)
            if (!(u[j] == v[j])) return false;
        }
        return true;
      },
      first, inverse, counts);
  if (!sorted) by_occurrence(n, count, space, first, inverse, counts);
  return count;
}

/** Slices of x [outer, n, inner bytes] at `count` places: y [outer, count, inner]. */
inline void take_slices(Context& context, const char* x, long outer, long n, long inner,
                        const int64_t* places, long count, char* y) {
  context.parallel(
      outer * count,
      [&](long begin, long end, int) {
        for (long i = begin; i < end; ++i)
          copy_bytes(y + i * inner, x + (i / count * n + places[i % count]) * inner, inner);
      },
      1 + COPY_GRAIN / (inner + 16));
}

}  // namespace infuse
