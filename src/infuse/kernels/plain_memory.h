// Memory of the system as C99 has it, in place of system_memory.h.
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "isize.h"

#define CACHE_LINE ((isize)64)

/** Aligned memory, behind a pointer to what `malloc` gave; null when there is none. */
static inline char* system_open(size_t bytes) {
  const size_t more = (size_t)CACHE_LINE + sizeof(void*);
  char* whole = bytes < SIZE_MAX - more ? (char*)malloc(bytes + more) : NULL;
  if (!whole) return NULL;
  char* start = whole + sizeof(void*);
  start += (CACHE_LINE - (isize)((uintptr_t)start % (uintptr_t)CACHE_LINE)) % CACHE_LINE;
  memcpy(start - sizeof(void*), &whole, sizeof whole);
  return start;
}

static inline void system_close(char* memory) {
  void* whole;
  if (!memory) return;
  memcpy(&whole, memory - sizeof(void*), sizeof whole);
  free(whole);
}
