// Memory of the system, in C and in C++.
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "isize.h"

#if defined(_WIN32)
#include <malloc.h>
#elif defined(__linux__)
#include <sys/mman.h>
#endif

#ifdef __cplusplus
namespace infuse {
#endif

#define CACHE_LINE ((isize)64)
#define HUGE_PAGE ((isize)2 << 20)

/** Where memory comes from: functions of the host, or the system where it has none. */
typedef struct Heap {
  void* (*allocate)(void* user, size_t bytes, size_t alignment);
  void (*release)(void* user, void* memory);
  void* user;
} Heap;

/** Aligned memory, on huge pages when it is big; null when there is none. `heap` may be null. */
static inline char* memory_open(const Heap* heap, isize bytes) {
  isize align = bytes >= HUGE_PAGE ? HUGE_PAGE : 4096;
  size_t size;
  if (bytes < 0 || bytes > INTPTR_MAX - align) return NULL;
#if defined(__SANITIZE_ADDRESS__)
  align = CACHE_LINE;
  size = (size_t)bytes;
#else
  size = (size_t)(((bytes > 0 ? bytes : 1) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
#endif
  if (heap && heap->allocate) return (char*)heap->allocate(heap->user, size, (size_t)CACHE_LINE);
#if defined(_WIN32)
  return (char*)_aligned_malloc(size, (size_t)align);
#else
  {
    void* memory = NULL;
    if (posix_memalign(&memory, (size_t)align, size) != 0) return NULL;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (align == HUGE_PAGE) madvise(memory, size, MADV_HUGEPAGE);
#endif
    return (char*)memory;
  }
#endif
}

/** The same, all zeros. */
static inline char* memory_zeros(const Heap* heap, isize bytes) {
  char* memory = memory_open(heap, bytes);
  if (memory) memset(memory, 0, (size_t)bytes);
  return memory;
}

/** Frees memory of this heap; null is allowed. */
static inline void memory_close(const Heap* heap, char* memory) {
  if (heap && heap->allocate) {
    if (memory) heap->release(heap->user, memory);
    return;
  }
#if defined(_WIN32)
  _aligned_free(memory);
#else
  free(memory);
#endif
}

#ifdef __cplusplus
}  // namespace infuse
#endif
