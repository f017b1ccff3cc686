// The threads of a context: how they wait, start and end, and how a call is spread over them.
#pragma once
#include "threads.hpp"

namespace infuse {

// ---------------------------------------------------------------- waiting

/** Spins until the word differs from `value`, for SPIN_NS at the longest. */
inline bool spin_while(const Gate* gate, int value) {
  long long stop = 0;
  for (int round = 0;; ++round) {
    for (int i = 0; i < 32; ++i) {
      if (__atomic_load_n(&gate->word, __ATOMIC_ACQUIRE) != value) return true;
      cpu_pause();
    }
    long long now = now_ns();
    if (round == 0) stop = now + SPIN_NS;
    if (now >= stop) return false;
  }
}

inline bool change(Gate* gate, int from, int to) {
  return __atomic_compare_exchange_n(&gate->word, &from, to, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST);
}

/** Returns once there may be something to do. */
inline void worker_wait(Worker* worker) {
  if (worker->context->spins && spin_while(&worker->state, IDLE)) return;
  if (!change(&worker->state, IDLE, ASLEEP)) return;
  while (gate_load(&worker->state) == ASLEEP) gate_wait(&worker->state, ASLEEP);
}

inline void worker_post(Worker* worker, int state) {
  int before = __atomic_exchange_n(&worker->state.word, state, __ATOMIC_SEQ_CST);
  if (before == ASLEEP) gate_wake(&worker->state);
}

/** Notes which thread a worker is; 0: none. */
inline void identify(Worker* worker, usize identity) {
  __atomic_store_n(&worker->identity, identity, __ATOMIC_RELAXED);
}

/** Does pieces of the share of `owner` until none is left, as worker number `index`. */
inline void claim_pieces(const Context* context, Worker* owner, int index) {
  const isize end = owner->end, piece = owner->piece;
  while (__atomic_load_n(&owner->next, __ATOMIC_RELAXED) < end) {
    const isize begin = __atomic_fetch_add(&owner->next, piece, __ATOMIC_RELAXED);
    if (begin >= end) return;
    const isize last = end - begin < piece ? end : begin + piece;
    context->call(context->body, begin, last, context->whole ? owner->index : index);
  }
}

/** Does the pieces of all shares whose turn it is, as worker number `index`. */
inline void alternate(const Context* context, int index) {
  int turn = 0;
  for (int i = 0; i < context->used; ++i) {
    const Worker* owner = context->workers + i;
    for (isize begin = owner->next, last; begin < owner->end; begin = last) {
      last = owner->end - begin < owner->piece ? owner->end : begin + owner->piece;
      if (turn++ % context->used == index) context->call(context->body, begin, last, index);
    }
  }
}

/** Does its own share, then pieces of the others'. */
inline void claim_all(const Context* context, int index) {
  if (ALTERNATE) return alternate(context, index);
  for (int i = 0; i < context->used; ++i)
    claim_pieces(context, context->workers + (index + i) % context->used, index);
}

/** One posted range is done; the last one wakes the caller. */
inline void report(Context* context) {
  int left = __atomic_sub_fetch(&context->pending.word, 1, __ATOMIC_SEQ_CST);
  if (left == 0 && __atomic_load_n(&context->waiting, __ATOMIC_SEQ_CST))
    gate_wake(&context->pending);
}

inline ThreadResult INFUSE_THREAD_CALL worker_main(void* argument) {
  Worker* worker = static_cast<Worker*>(argument);
  identify(worker, thread_identity());
  const FlushSubnormals flush;
  while (gate_load(&worker->state) != QUITTING) {
    worker_wait(worker);
    if (!change(&worker->state, POSTED, RUNNING)) continue;
    claim_all(worker->context, worker->index);
    __atomic_store_n(&worker->state.word, IDLE, __ATOMIC_SEQ_CST);
    report(worker->context);
  }
  return 0;
}

#if defined(INFUSE_WORKERS)
/** What is called in place of the rest of a thread that ended with an error: runs of its context
 * fail from then on, and do not wait for it. */
extern "C" __attribute__((weak, used, export_name("infuse_thread_lost"))) void infuse_thread_lost(
    Thread* thread) {
  Worker* worker = static_cast<Worker*>(thread->argument);
  __atomic_store_n(&worker->context->lost, 1, __ATOMIC_SEQ_CST);
  if (change(&worker->state, RUNNING, IDLE)) report(worker->context);
  __atomic_store_n(&thread->ended.word, 1, __ATOMIC_SEQ_CST);
  gate_wake(&thread->ended);
}
#endif

/** What a thread of the host does as worker number `index`. */
inline void host_task(void* work, int index) {
  Context* context = static_cast<Context*>(work);
  Worker* worker = context->workers + index;
  const FlushSubnormals flush;
  identify(worker, thread_identity());
  claim_all(context, index);
  identify(worker, 0);
}

/** Tells workers that have not begun that nothing is left, then waits for the others. */
inline void finish_workers(Context* context) {
  Gate* pending = &context->pending;
  for (int i = 1; i < context->used && !ALTERNATE; ++i)
    if (change(&context->workers[i].state, POSTED, IDLE)) report(context);
  int left = gate_load(pending);
  long long stop = left && context->spins ? now_ns() + SPIN_NS : 0;
  while (left && stop) {
    spin_while(pending, left);
    left = gate_load(pending);
    if (now_ns() >= stop) stop = 0;
  }
  if (left == 0) return;
  __atomic_store_n(&context->waiting, 1, __ATOMIC_SEQ_CST);
  while ((left = gate_load(pending)) != 0) gate_wait(pending, left);
  __atomic_store_n(&context->waiting, 0, __ATOMIC_SEQ_CST);
}

// ---------------------------------------------------------------- start and end

/** Starts the workers of a new or forked context; fewer when the system refuses one. */
inline void start_workers(Context* context) {
  fork_mark_close(&context->mark);
  fork_mark_open(&context->mark);
  gate_open(&context->pending, 0);
  context->waiting = 0;
  context->started = 0;
  context->busy = false;
  context->spins = processors() >= context->threads;
  for (int i = 1; i < context->threads; ++i) {
    Worker* worker = context->workers + i;
    gate_open(&worker->state, IDLE);
    worker->context = context;
    worker->index = i;
    identify(worker, 0);
    if (context->host) continue;
    if (!thread_open(&worker->thread, worker_main, worker)) {
      gate_close(&worker->state);
      context->threads = i;
      break;
    }
    context->started = i;
  }
}

inline void stop_workers(Context* context) {
  for (int i = 1; i <= context->started; ++i) worker_post(context->workers + i, QUITTING);
  for (int i = 1; i <= context->started; ++i) {
    thread_join(&context->workers[i].thread);
    gate_close(&context->workers[i].state);
  }
  gate_close(&context->pending);
}

INFUSE_POOL Context* context_open(const infuse_options* options) {
  if (!machine_granted()) return nullptr;
  const Heap heap = {options->allocate, options->release, options->heap};
  int threads = options->threads;
  if (threads <= 0) threads = processors();
  if (threads < ALTERNATE) threads = ALTERNATE;
  if (threads > MOST_THREADS) threads = MOST_THREADS;
  isize head = round_up(sizeof(Context), 2 * CACHE_LINE);
  isize bytes = head + threads * static_cast<isize>(sizeof(Worker));
  char* memory = memory_zeros(&heap, bytes);
  if (!memory) return nullptr;
  Context* context = reinterpret_cast<Context*>(memory);
  context->heap = heap;
  context->host = options->parallel;
  context->host_pool = options->pool;
  context->threads = threads;
  context->workers = reinterpret_cast<Worker*>(memory + head);
  start_workers(context);
  return context;
}

INFUSE_POOL void context_close(Context* context) {
  if (!context) return;
  if (!forked(&context->mark)) stop_workers(context);
  fork_mark_close(&context->mark);
  const Heap heap = context->heap;
  memory_close(&heap, context->scratch_memory);
  memory_close(&heap, reinterpret_cast<char*>(context));
}

INFUSE_POOL bool Context::reserve(isize scratch_bytes_per_worker) {
  if (scratch_bytes_per_worker > scratch_stride) {
    isize stride = round_up(scratch_bytes_per_worker, CACHE_LINE), total;
    if (__builtin_mul_overflow(stride, static_cast<isize>(threads), &total)) return false;
    char* memory = memory_open(&heap, total);
    if (!memory) return false;
    memory_close(&heap, scratch_memory);
    scratch_memory = memory;
    scratch_stride = stride;
  }
  return true;
}

// ---------------------------------------------------------------- parallel

/** The worker that the calling thread is, while the context is busy. */
inline int current_worker(const Context* context) {
  const usize self = thread_identity();
  for (int i = 0; i < context->used; ++i)
    if (__atomic_load_n(&context->workers[i].identity, __ATOMIC_RELAXED) == self) return i;
  return 0;
}

/** Gives workers their shares of [0, n), with pieces of `least` or more. */
inline void share_out(Context* context, isize n, isize least) {
  const int used = context->used;
  const isize share = n / used, extra = n % used;
  isize begin = 0;
  for (int i = 0; i < used; ++i) {
    Worker* worker = context->workers + i;
    const isize length = share + (i < extra), part = (length + PIECES - 1) / PIECES;
    worker->next = begin;
    worker->end = begin += length;
    worker->piece = part > least ? part : least < length ? least : length;
  }
}

INFUSE_POOL void Context::spread(isize n, RangeFunction call, const void* body, isize grain,
                                 isize piece) {
  if (n <= 0) return;
  if (ALTERNATE) grain = 1;
  isize most = grain > 1 ? n / grain : n;
  if (most > 1 && threads > 1 && forked(&mark)) start_workers(this);
  const int workers_used = most < threads ? static_cast<int>(most) : threads;
  if (workers_used <= 1 || busy) {
    settle();
    call(body, isize(0), n, busy ? current_worker(this) : 0);
    settle();
    return;
  }
  busy = true;
  used = workers_used;
  this->call = call;
  this->body = body;
  whole = piece == WHOLE;
  share_out(this, n, piece > grain ? piece : grain);
  if (host) {
    host(host_pool, used, host_task, this);
    busy = false;
    return;
  }
  __atomic_store_n(&pending.word, used - 1, __ATOMIC_RELAXED);
  for (int i = 1; i < used; ++i) worker_post(workers + i, POSTED);
  claim_all(this, 0);
  finish_workers(this);
  busy = false;
}

}  // namespace infuse
