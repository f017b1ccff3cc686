// The context of a run of plain C, with memory of the system.
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "interface.h"
#include "memory.h"

typedef struct Context {
  Heap heap;
  volatile int cancelled, running;
  char* scratch;
  isize reserved, bad_index, index_limit;  // the last index outside, and of how many; -1: none
} Context;

/** One thread, the caller's, whatever the options say of threads. */
static inline Context* context_open(const infuse_options* options) {
  const Heap heap = {options->allocate, options->release, options->heap};
  Context* c = (Context*)memory_zeros(&heap, sizeof(Context));
  if (c) c->heap = heap, c->index_limit = -1;
  return c;
}

static inline void context_close(Context* c) {
  const Heap heap = c->heap;
  memory_close(&heap, c->scratch);
  memory_close(&heap, (char*)c);
}

static inline bool cancelled(const Context* c) { return c->cancelled != 0; }

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

static inline void context_cancel(Context* c, int cancel) { c->cancelled = cancel; }

static inline bool context_reserve(Context* c, isize bytes) {
  if (bytes > c->reserved) {
    memory_close(&c->heap, c->scratch);
    c->reserved = 0;
    c->scratch = memory_open(&c->heap, bytes);
    if (!c->scratch) return false;
    c->reserved = bytes;
  }
  return true;
}
