// Places buffers with known lifetimes in one block of memory.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
namespace infuse {
#endif

#define ARENA_ALIGN 64L

/** Buffers to be placed: buffer i lives from step first[i] to last[i], both included. */
typedef struct ArenaItems {
  const long* sizes;
  const int *first, *last;
  int count;
} ArenaItems;

/** Bytes of work space that arena_plan needs for `count` buffers. */
static inline long arena_scratch(int count) {
  return (long)count * (long)(3 * sizeof(long) + 3 * sizeof(int)) + 64;
}

/** The buffers placed so far that may live beside one to come, by their offsets. `soonest`: the
 * first step of those to come. */
typedef struct ArenaSpace {
  long *begin, *end, *offsets;
  int *first, *last, *soonest;
  int placed;
} ArenaSpace;

/** The start of the tightest gap that fits among what lives between two steps; behind it if none
 * does. */
static inline long arena_gap(const ArenaSpace* s, long size, int first, int last) {
  long cursor = 0, best = -1, tightest = 0;
  for (int i = 0; i < s->placed; ++i) {
    if (s->first[i] > last || s->last[i] < first) continue;
    long gap = s->begin[i] - cursor;
    if (gap >= size && (best < 0 || gap < tightest)) {
      tightest = gap;
      best = cursor;
    }
    if (s->end[i] > cursor) cursor = s->end[i];
  }
  return best >= 0 ? best : cursor;
}

static inline void arena_insert(ArenaSpace* s, long begin, long end, int first, int last) {
  int at = s->placed++;
  for (; at > 0 && s->begin[at - 1] > begin; --at) {
    s->begin[at] = s->begin[at - 1];
    s->end[at] = s->end[at - 1];
    s->first[at] = s->first[at - 1];
    s->last[at] = s->last[at - 1];
  }
  s->begin[at] = begin;
  s->end[at] = end;
  s->first[at] = first;
  s->last[at] = last;
}

/** Forgets what ends before a step. */
static inline void arena_drop(ArenaSpace* s, int step) {
  int remaining = 0;
  for (int i = 0; i < s->placed; ++i) {
    if (s->last[i] < step) continue;
    s->begin[remaining] = s->begin[i];
    s->end[remaining] = s->end[i];
    s->first[remaining] = s->first[i];
    s->last[remaining++] = s->last[i];
  }
  s->placed = remaining;
}

/** Gives each buffer in its turn the tightest gap; returns the bytes needed. */
static inline long arena_place(const ArenaItems* items, const int* order, ArenaSpace* s) {
  const int count = items->count;
  for (int k = count - 1; k >= 0; --k) {
    const int first = items->first[order[k]];
    s->soonest[k] = k + 1 < count && s->soonest[k + 1] < first ? s->soonest[k + 1] : first;
  }
  long total = 0;
  s->placed = 0;
  for (int k = 0; k < count; ++k) {
    const int item = order[k], first = items->first[item], last = items->last[item];
    const long size = (items->sizes[item] + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    arena_drop(s, s->soonest[k]);
    const long begin = arena_gap(s, size, first, last);
    arena_insert(s, begin, begin + size, first, last);
    s->offsets[item] = begin;
    if (begin + size > total) total = begin + size;
  }
  return total;
}

/**
 * Gives buffers that live at the same time disjoint places, 64-byte aligned, and returns the bytes
 * needed; -1 when that overflows. `orders` holds the numbers of the buffers as they are to be
 * placed, `attempts` times; the best counts. `work` holds arena_scratch(items->count) bytes, 8-byte
 * aligned.
 */
static inline long arena_plan(const ArenaItems* items, const int* orders, int attempts, long* offsets,
                       void* work) {
  const long count = items->count;
  long sum = 0, padded;
  for (long i = 0; i < count; ++i) {
    if (items->sizes[i] < 0 || __builtin_add_overflow(items->sizes[i], ARENA_ALIGN - 1, &padded) ||
        __builtin_add_overflow(sum, padded, &sum))
      return -1;
  }
  long* longs = (long*)work;
  int* ints = (int*)(longs + 3 * count);
  ArenaSpace space = {longs,       longs + count,    longs + 2 * count, ints,
                        ints + count, ints + 2 * count, 0};
  long total = -1;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const long bytes = arena_place(items, orders + attempt * count, &space);
    if (total >= 0 && bytes >= total) continue;
    total = bytes;
    for (long i = 0; i < count; ++i) offsets[i] = space.offsets[i];
  }
  return total;
}

#ifdef __cplusplus
}  // namespace infuse
#endif
