// The context of a run without a system, and what of the C library compilers call by themselves.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isize.h"

void* memcpy(void* to, const void* from, size_t bytes);
void* memmove(void* to, const void* from, size_t bytes);
void* memset(void* to, int value, size_t bytes);
#if defined(__GNUC__)  // a few bytes are moved in line, also where there is no C library
#define memcpy(to, from, bytes) __builtin_memcpy(to, from, bytes)
#define memmove(to, from, bytes) __builtin_memmove(to, from, bytes)
#define memset(to, value, bytes) __builtin_memset(to, value, bytes)
#endif

typedef struct Context {
  volatile int cancelled, running;
  isize bad_index, index_limit;  // the last index outside, and of how many; -1: none
} Context;

/** Begins a call; false while it is in one. Two threads that begin at once are not seen. */
static inline bool context_begin(Context* c) {
  if (c->running) return false;
  c->running = 1;
  return true;
}

/** Ends a call; what it returns. */
static inline int context_end(Context* c, int failed) {
  c->running = 0;
  return failed;
}

static inline bool cancelled(const Context* c) { return c->cancelled != 0; }
