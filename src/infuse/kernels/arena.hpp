// Places buffers with known lifetimes in one block of memory.
#pragma once
#include <stdint.h>

#include "sort.hpp"

namespace infuse {

constexpr long ARENA_ALIGN = 64;

/** What a planner works with; lifetimes are steps, both ends included. */
struct ArenaItems {
  const long* sizes;
  const int* first;
  const int* last;
  int count;
};

/** Bytes of work space that arena_plan needs for `count` buffers. */
inline long arena_plan_scratch(int count) {
  return static_cast<long>(count) * (5 * sizeof(long) + 6 * sizeof(int)) + 64;
}

namespace arena {

struct Space {
  long *begin, *end, *best, *weight, *padded;
  int *first, *last, *order, *spare;
};

inline Space divide(void* work, int count) {
  Space s;
  long* longs = static_cast<long*>(work);
  s.begin = longs;
  s.end = longs + count;
  s.best = longs + 2L * count;
  s.weight = longs + 3L * count;
  s.padded = longs + 4L * count;
  int* ints = reinterpret_cast<int*>(longs + 5L * count);
  s.first = ints;
  s.last = ints + count;
  s.order = ints + 2L * count;
  s.spare = ints + 3L * count;
  return s;
}

/** The largest sum of bytes that are alive at one step: no plan is smaller. */
inline long lower_bound(const ArenaItems& items, const Space& s) {
  int *starts = s.order, *ends = s.spare + items.count;
  for (int i = 0; i < items.count; ++i) starts[i] = ends[i] = i;
  merge_sort(starts, s.spare, items.count,
             [&](int a, int b) { return items.first[a] < items.first[b]; });
  merge_sort(ends, s.spare, items.count,
             [&](int a, int b) { return items.last[a] < items.last[b]; });
  long alive = 0, most = 0;
  int ended = 0;
  for (int i = 0; i < items.count; ++i) {
    int item = starts[i];
    while (ended < items.count && items.last[ends[ended]] < items.first[item])
      alive -= s.padded[ends[ended++]];
    alive += s.padded[item];
    if (alive > most) most = alive;
  }
  return most;
}

/** The start of the tightest gap that fits, among buffers placed in order of their offset. */
inline long find_gap(const Space& s, int placed, long size, int first, int last) {
  long cursor = 0, found = -1, tightest = INT64_MAX >> (64 - 8 * sizeof(long));
  for (int i = 0; i < placed; ++i) {
    if (s.first[i] > last || s.last[i] < first) continue;
    long gap = s.begin[i] - cursor;
    if (gap >= size && gap < tightest) {
      tightest = gap;
      found = cursor;
    }
    if (s.end[i] > cursor) cursor = s.end[i];
  }
  return found >= 0 ? found : cursor;
}

inline void insert(const Space& s, int placed, long begin, long end, int first, int last) {
  int at = placed;
  for (; at > 0 && s.begin[at - 1] > begin; --at) {
    s.begin[at] = s.begin[at - 1];
    s.end[at] = s.end[at - 1];
    s.first[at] = s.first[at - 1];
    s.last[at] = s.last[at - 1];
  }
  s.begin[at] = begin;
  s.end[at] = end;
  s.first[at] = first;
  s.last[at] = last;
}

/** Places the buffers in the given order and returns the bytes used. */
inline long place(const ArenaItems& items, const Space& s, long* offsets) {
  long total = 0;
  int placed = 0;
  for (int k = 0; k < items.count; ++k) {
    int item = s.order[k];
    long size = s.padded[item];
    offsets[item] = 0;
    if (size == 0) continue;
    long begin = find_gap(s, placed, size, items.first[item], items.last[item]);
    insert(s, placed++, begin, begin + size, items.first[item], items.last[item]);
    offsets[item] = begin;
    if (begin + size > total) total = begin + size;
  }
  return total;
}

/** Largest weight first; equal weights by start of life. */
inline void order_by_weight(const ArenaItems& items, const Space& s) {
  for (int i = 0; i < items.count; ++i) s.order[i] = i;
  merge_sort(s.order, s.spare, items.count, [&](int a, int b) {
    return s.weight[a] != s.weight[b] ? s.weight[a] > s.weight[b] : items.first[a] < items.first[b];
  });
}

/** What decides the order of placement in attempt `attempt`. */
inline long weight(const ArenaItems& items, long size, int item, int attempt) {
  long life = items.last[item] - items.first[item] + 1L;
  if (attempt == 0) return size;
  if (attempt == 1) return size / ARENA_ALIGN * life;
  return attempt == 2 ? -static_cast<long>(items.first[item]) : life;
}

}  // namespace arena

/**
 * Gives buffers that live at the same time disjoint places, 64-byte aligned, and returns the bytes
 * needed; -1 when that overflows. Buffer i lives from step first[i] to last[i], both included.
 * `work` holds arena_plan_scratch(count) bytes, 8-byte aligned.
 */
inline long arena_plan(const long* sizes, const int* first, const int* last, int count,
                       long* offsets, void* work) {
  ArenaItems items = {sizes, first, last, count};
  arena::Space s = arena::divide(work, count);
  long sum = 0;
  for (int i = 0; i < count; ++i) {
    if (sizes[i] < 0 || __builtin_add_overflow(sizes[i], ARENA_ALIGN - 1, &s.padded[i])) return -1;
    s.padded[i] -= s.padded[i] % ARENA_ALIGN;
    if (__builtin_add_overflow(sum, s.padded[i], &sum)) return -1;
  }
  long bound = arena::lower_bound(items, s), total = -1;
  for (int attempt = 0; attempt < 4 && (total < 0 || total - bound > bound / 256); ++attempt) {
    for (int i = 0; i < count; ++i) s.weight[i] = arena::weight(items, s.padded[i], i, attempt);
    arena::order_by_weight(items, s);
    long bytes = arena::place(items, s, s.best);
    if (total >= 0 && bytes >= total) continue;
    total = bytes;
    for (int i = 0; i < count; ++i) offsets[i] = s.best[i];
  }
  return total;
}

}  // namespace infuse
