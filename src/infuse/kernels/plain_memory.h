// Memory of the system as C99 has it, in place of memory.h.
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "isize.h"

#define CACHE_LINE ((isize)64)

/** Aligned memory, with a pointer to what `malloc` gave in front of it; null when there is none. */
static inline char* memory_open(isize bytes) {
  const isize more = CACHE_LINE + (isize)sizeof(void*);
  if (bytes < 0 || bytes > PTRDIFF_MAX - more) return NULL;
  char* whole = (char*)malloc((size_t)(bytes + more));
  if (!whole) return NULL;
  char* start = whole + sizeof(void*);
  start += (CACHE_LINE - (isize)((uintptr_t)start % (uintptr_t)CACHE_LINE)) % CACHE_LINE;
  memcpy(start - sizeof(void*), &whole, sizeof whole);
  return start;
}

static inline void memory_close(char* memory) {
  void* whole;
  if (!memory) return;
  memcpy(&whole, memory - sizeof(void*), sizeof whole);
  free(whole);
}
