// Places buffers with known lifetimes in one block of memory.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "isize.h"

#ifdef __cplusplus
namespace infuse {
#endif

#define ARENA_ALIGN ((isize)64)

/** Buffers to be placed: buffer i lives from step first[i] to last[i], both included. */
typedef struct ArenaItems {
  const isize* sizes;
  const int *first, *last;
  int count;
} ArenaItems;

/** Bytes of work space that arena_plan needs for `count` buffers. */
static inline isize arena_scratch(int count) {
  return (isize)count * (isize)(3 * sizeof(isize) + 3 * sizeof(int)) + 64;
}

/** The buffers placed so far that may live beside one to come, by their offsets. `soonest`: the
 * first step of those to come. */
typedef struct ArenaSpace {
  isize *begin, *end, *offsets;
  int *first, *last, *soonest;
  int placed;
} ArenaSpace;

/** The start of the tightest gap that fits among what lives between two steps; behind it if none
 * does. */
static inline isize arena_gap(const ArenaSpace* s, isize size, int first, int last) {
  isize cursor = 0, best = -1, tightest = 0;
  for (int i = 0; i < s->placed; ++i) {
    if (s->first[i] > last || s->last[i] < first) continue;
    isize gap = s->begin[i] - cursor;
    if (gap >= size && (best < 0 || gap < tightest)) {
      tightest = gap;
      best = cursor;
    }
    if (s->end[i] > cursor) cursor = s->end[i];
  }
  return best >= 0 ? best : cursor;
}

static inline void arena_insert(ArenaSpace* s, isize begin, isize end, int first, int last) {
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
static inline isize arena_place(const ArenaItems* items, const int* order, ArenaSpace* s) {
  const int count = items->count;
  for (int k = count - 1; k >= 0; --k) {
    const int first = items->first[order[k]];
    s->soonest[k] = k + 1 < count && s->soonest[k + 1] < first ? s->soonest[k + 1] : first;
  }
  isize total = 0;
  s->placed = 0;
  for (int k = 0; k < count; ++k) {
    const int item = order[k], first = items->first[item], last = items->last[item];
    const isize size = (items->sizes[item] + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    arena_drop(s, s->soonest[k]);
    const isize begin = arena_gap(s, size, first, last);
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
static inline isize arena_plan(const ArenaItems* items, const int* orders, int attempts, isize* offsets,
                       void* work) {
  const isize count = items->count;
  isize sum = 0, padded;
  for (isize i = 0; i < count; ++i) {
    if (items->sizes[i] < 0 || __builtin_add_overflow(items->sizes[i], ARENA_ALIGN - 1, &padded) ||
        __builtin_add_overflow(sum, padded, &sum))
      return -1;
  }
  isize* longs = (isize*)work;
  int* ints = (int*)(longs + 3 * count);
  ArenaSpace space = {longs,       longs + count,    longs + 2 * count, ints,
                        ints + count, ints + 2 * count, 0};
  isize total = -1;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const isize bytes = arena_place(items, orders + attempt * count, &space);
    if (total >= 0 && bytes >= total) continue;
    total = bytes;
    for (isize i = 0; i < count; ++i) offsets[i] = space.offsets[i];
  }
  return total;
}

#ifdef __cplusplus
}  // namespace infuse
#endif
