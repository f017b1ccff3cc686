// Memory of the host or of the system, in C and in C++.
#pragma once
#include <stdint.h>
#include <string.h>

#include "isize.h"
#include "system_memory.h"

#ifdef __cplusplus
namespace infuse {
#endif

/** Where memory comes from: functions of the host, or the system where it has none. */
typedef struct Heap {
  void* (*allocate)(void* user, size_t bytes, size_t alignment);
  void (*release)(void* user, void* memory);
  void* user;
} Heap;

/** Aligned memory; null when there is none. `heap` may be null. */
static inline char* memory_open(const Heap* heap, isize bytes) {
  size_t size;
  if (bytes < 0 || bytes > INTPTR_MAX - ((isize)2 << 20)) return NULL;
#if defined(__SANITIZE_ADDRESS__)
  size = (size_t)bytes;
#else
  size = (size_t)(((bytes > 0 ? bytes : 1) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
#endif
  if (heap && heap->allocate) return (char*)heap->allocate(heap->user, size, (size_t)CACHE_LINE);
  return system_open(size);
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
  system_close(memory);
}

#ifdef __cplusplus
}  // namespace infuse
#endif
