// How a context is opened, in C and in C++.
#pragma once
#include <stdbool.h>
#include <string.h>

#include "interface.h"
#include "blocks.h"

#ifdef __cplusplus
namespace infuse {
#endif

/** Whether a model with so many bytes of weights, which may be `inside` of its library, is opened with
 * these options. */
static inline bool options_valid(const infuse_options* o, int64_t weights_bytes, bool inside) {
  const uintptr_t weights = weights_bytes ? (uintptr_t)o->weights : 0;
  if (o->abi != INFUSE_ABI || o->arena_bytes < 0) return false;
  if ((weights | (uintptr_t)o->arena) % CACHE_LINE) return false;
  if (!o->allocate != !o->release) return false;
  if (o->weights_bytes && o->weights_bytes != weights_bytes) return false;
  return o->weights || inside || weights_bytes == 0;
}

/** Options that name weights and threads. */
static inline infuse_options usual_options(const void* weights, int threads) {
  infuse_options options;
  memset(&options, 0, sizeof options);
  options.abi = INFUSE_ABI;
  options.threads = threads;
  options.weights = weights;
  return options;
}

/** Lets the arena of a context be memory of the host, if it gives some. */
static inline void lend(Block* arena, const infuse_options* o) {
  arena->lent = (char*)o->arena;
  arena->capacity = o->arena ? (isize)o->arena_bytes : 0;
}

#ifdef __cplusplus
}  // namespace infuse
#endif
