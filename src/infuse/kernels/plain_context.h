// The context of a run of plain C, with memory of the system.
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

typedef struct Context {
  char* scratch;
  isize reserved, bad_index, index_limit;  // the last index outside, and of how many; -1: none
} Context;

static inline Context* context_open(int threads) {
  Context* c = (Context*)calloc(1, sizeof(Context));
  (void)threads;
  if (c) c->index_limit = -1;
  return c;
}

static inline void context_close(Context* c) {
  if (c) memory_close(c->scratch);
  free(c);
}

static inline bool context_reserve(Context* c, isize bytes) {
  if (bytes > c->reserved) {
    memory_close(c->scratch);
    c->reserved = 0;
    c->scratch = memory_open(bytes);
    if (!c->scratch) return false;
    c->reserved = bytes;
  }
  return true;
}
