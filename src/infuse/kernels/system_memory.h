// Memory of the system, in C and in C++.
#pragma once
#include <stdint.h>
#include <stdlib.h>

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

/** How memory of so many bytes is aligned: to huge pages where it is big. */
static inline isize system_alignment(isize bytes) {
#if defined(__SANITIZE_ADDRESS__)
  (void)bytes;
  return CACHE_LINE;
#else
  return bytes >= HUGE_PAGE ? HUGE_PAGE : 4096;
#endif
}

/** Aligned memory, on huge pages when it is big; null when there is none. */
static inline char* system_open(size_t bytes) {
  const isize align = system_alignment((isize)bytes);
#if defined(_WIN32)
  return (char*)_aligned_malloc(bytes, (size_t)align);
#else
  void* memory = NULL;
  if (posix_memalign(&memory, (size_t)align, bytes) != 0) return NULL;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (align == HUGE_PAGE) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  return (char*)memory;
#endif
}

static inline void system_close(char* memory) {
#if defined(_WIN32)
  _aligned_free(memory);
#else
  free(memory);
#endif
}

#ifdef __cplusplus
}  // namespace infuse
#endif
