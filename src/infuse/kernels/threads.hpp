// The execution context of a model: a pool of threads and scratch memory.
//
// All models of a machine share one object with the pool (INFUSE_POOL_HERE): files that are linked
// with it are compiled with INFUSE_POOL_APART. Others have the pool in them.
#pragma once
#include "failure.h"
#include "interface.h"
#include "permission.hpp"
#include "platform.hpp"

#if defined(INFUSE_POOL_APART) || defined(INFUSE_POOL_HERE)
#define INFUSE_POOL
#else
#define INFUSE_POOL inline
#endif

namespace infuse {

constexpr int MOST_THREADS = 256;
constexpr long long SPIN_NS = 40000;
constexpr isize PIECES = 4;            // of a worker's share, for whoever is free
constexpr isize WHOLE = PTRDIFF_MAX;  // a piece that no range has

// For sanitizers: so many threads at least, and however little there is to do, neighbouring pieces
// are by different ones. 0: never.
#if defined(INFUSE_ALTERNATE)
constexpr int ALTERNATE = INFUSE_ALTERNATE;
#else
constexpr int ALTERNATE = 0;
#endif

enum WorkerState { IDLE, POSTED, RUNNING, ASLEEP, QUITTING };

struct Context;

/** Does [begin, end) of what `body` is, as the worker of that number. */
typedef void (*RangeFunction)(const void* body, isize begin, isize end, int worker);

/** The mailbox of a worker, and its share, of which all claim pieces; alone on its cache lines.
 * `identity`: of the thread that is this worker now; 0 for the caller's and for none. */
struct alignas(2 * CACHE_LINE) Worker {
  Gate state;
  Context* context;
  Thread thread;
  int index;
  usize identity;
  alignas(2 * CACHE_LINE) isize next;
  isize end, piece;
};

/**
 * Runs one call at a time: a pool of `threads` workers, the caller being worker 0.
 * Made by context_open, ended by context_close.
 */
struct Context {
  int threads;

  /**
   * Calls body(long begin, long end, int worker) on contiguous ranges that cover [0, n)
   * and returns when all are done. Each worker has a share, which it does in pieces; who is done
   * goes on with pieces of others. No range is shorter than `grain` and `piece`, unless it is the
   * last of a share; a share is not shorter than `grain`, unless it is the only one. With WHOLE, a
   * share is one piece, and `worker` the number of the share. Called while another call is spread
   * over the pool, it runs the whole range on the calling worker.
   */
  template <class Body>
  void parallel(isize n, const Body& body, isize grain = 1, isize piece = 1);
  /** The same for a function and what it is given. */
  INFUSE_POOL void spread(isize n, RangeFunction call, const void* body, isize grain, isize piece);

  /** Aligned memory of worker `worker`, as many bytes as were reserved. */
  char* scratch(int worker) const { return scratch_memory + worker * scratch_stride; }

  /** Notes an index that lies outside of `limit` elements, for the message; any worker may. */
  void note_index(isize index, isize limit) {
    __atomic_store_n(&bad_index, index, __ATOMIC_RELAXED);
    __atomic_store_n(&index_limit, limit, __ATOMIC_RELAXED);
  }

  /** Grows scratch to at least this size, contents lost; false when out of memory. */
  INFUSE_POOL bool reserve(isize scratch_bytes_per_worker);

  Heap heap;
  /** The host's threads; null where the context has its own. */
  void (*host)(void* pool, int count, void (*task)(void* work, int index), void* work);
  void* host_pool;
  int cancelled, running;
  int lost;  // a worker ended with an error in the middle of its work
  char* scratch_memory;
  isize scratch_stride;
  Worker* workers;
  int started, used;
  RangeFunction call;
  const void* body;
  bool busy, whole;
  bool spins;
  isize bad_index, index_limit;  // the last index outside, and of how many elements; -1: none
  ForkMark mark;
  alignas(2 * CACHE_LINE) Gate pending;
  alignas(2 * CACHE_LINE) int waiting;
};

/**
 * Opens a context as the options say, which are valid; null when out of memory, or where the process
 * may not use the tile registers or vectors that the code is made for (permission.hpp).
 */
INFUSE_POOL Context* context_open(const infuse_options* options);

/** Opens a context of `threads` workers, one a processor when 0. */
inline Context* context_open(int threads) {
  infuse_options options = {};
  options.threads = threads;
  return context_open(&options);
}

/** Ends the threads and frees everything; null is allowed. */
INFUSE_POOL void context_close(Context* context);

/** Grows the scratch memory of a context (`Context::reserve`). */
inline bool context_reserve(Context* context, isize bytes) { return context->reserve(bytes); }

/** Whether the host wants the run to end. */
inline bool cancelled(const Context* context) {
  return __atomic_load_n(&context->cancelled, __ATOMIC_RELAXED) != 0;
}

/** Lets runs end before their next step, or go on; any thread may. */
inline void context_cancel(Context* context, int cancel) {
  __atomic_store_n(&context->cancelled, cancel, __ATOMIC_RELAXED);
}

/** Begins a call; false while another thread, or a call further out, is in one. */
inline bool context_begin(Context* context) {
  return __atomic_exchange_n(&context->running, 1, __ATOMIC_ACQUIRE) == 0;
}

/** Ends a call; what it returns: its own failure, or that a worker was lost. */
inline int context_end(Context* context, int failed) {
  if (__atomic_load_n(&context->lost, __ATOMIC_ACQUIRE)) failed = LOST;
  __atomic_store_n(&context->running, 0, __ATOMIC_RELEASE);
  return failed;
}

/** Keeps accesses in order around a kernel, which may see one tensor as several types. */
inline void settle() { __asm__ __volatile__("" ::: "memory"); }

template <class Body>
void call_body(const void* body, isize begin, isize end, int worker) {
  (*static_cast<const Body*>(body))(begin, end, worker);
}

template <class Body>
inline void Context::parallel(isize n, const Body& body, isize grain, isize piece) {
  spread(n, call_body<Body>, &body, grain, piece);
}

}  // namespace infuse

#if !defined(INFUSE_POOL_APART)
#include "workers.hpp"
#endif
