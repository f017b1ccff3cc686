// What the interfaces of all models share: codes, and how a context is opened. The header of a model
// has this text in it.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifndef INFUSE_ABI
#define INFUSE_ABI 3

enum {
  INFUSE_OK = 0,
  INFUSE_OUT_OF_MEMORY = 1,
  INFUSE_BAD_DATA = 2,
  INFUSE_CANCELLED = 3,
  INFUSE_BAD_OPTIONS = 4,
  INFUSE_REFUSED = 5,
  INFUSE_BUSY = 6
};

/** How a context is opened. Set all to zero and `abi` to INFUSE_ABI, then what differs. */
typedef struct infuse_options {
  int abi;
  int threads;           /* that a run uses, the caller's among them; 0: one a processor */
  const void* weights;   /* the content of weights.bin, as infuse_open says */
  int64_t weights_bytes; /* its length, which is compared with the model's; 0: it is not */
  /* Memory for intermediate tensors, at a multiple of 64, which nobody else uses while the context
   * is open: runs that need more end with INFUSE_OUT_OF_MEMORY. NULL: it is allocated. */
  void* arena;
  int64_t arena_bytes;
  /* All other memory: `allocate` gives an address that is a multiple of `alignment` (a power of 2),
   * or NULL; both are called by the thread that opens, runs or closes. NULL: the system's. */
  void* (*allocate)(void* heap, size_t bytes, size_t alignment);
  void (*release)(void* heap, void* memory);
  void* heap;
  /* The host's threads in place of own ones: calls task(work, i) once for each i in 0 .. count - 1,
   * count being at most `threads`, in any order and as many at once as it likes, and returns when
   * all have returned. NULL: the context has threads of its own. */
  void (*parallel)(void* pool, int count, void (*task)(void* work, int index), void* work);
  void* pool;
} infuse_options;
#endif
