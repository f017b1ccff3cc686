/* Uses what hosts may bring and do: memory, threads, an arena, cancelling. Prints one line a case. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum { ROWS = 64, WIDTH = 96 };

static char* weights;
static float input[ROWS * WIDTH], expected[ROWS * WIDTH], result[ROWS * WIDTH];
static int64_t rows = ROWS;

static int run(void* context) {
  const void* inputs[] = {input};
  void* outputs[] = {result};
  memset(result, 0xff, sizeof result);
  return infuse_run(context, &rows, inputs, outputs);
}

static int same(void) { return memcmp(result, expected, sizeof result) == 0; }

static infuse_options zero(void) {
  infuse_options o;
  memset(&o, 0, sizeof o);
  o.abi = INFUSE_ABI;
  o.weights = weights;
  o.weights_bytes = WEIGHTS_BYTES;
  o.threads = 3;
  return o;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static long live, calls, refuse_from = -1;

static void* allocate(void* heap, size_t bytes, size_t alignment) {
  void* memory = NULL;
  if (heap != &live || (refuse_from >= 0 && calls >= refuse_from)) return NULL;
  calls++;
  if (posix_memalign(&memory, alignment, bytes)) return NULL;
  live++;
  memset(memory, 0xab, bytes);
  return memory;
}

static void release(void* heap, void* memory) {
  if (heap == &live) live--;
  free(memory);
}

static void memory_of_the_host(void) {
  infuse_options o = zero();
  void* context;
  long i, whole;
  int status = INFUSE_OUT_OF_MEMORY;
  o.allocate = allocate, o.release = release, o.heap = &live;
  if (infuse_create(&o, &context) || run(context)) return;
  printf("heap: %d", same());
  infuse_close(context);
  printf(" %ld\n", live);
  whole = calls;
  for (i = 0; i < whole; i++) { /* each allocation fails once */
    refuse_from = i, calls = 0;
    status = infuse_create(&o, &context);
    if (!status) {
      status = run(context);
      if (status == INFUSE_OK) break;
      if (!*infuse_error(context)) break;
      infuse_close(context);
    }
    if (status != INFUSE_OUT_OF_MEMORY) break;
  }
  printf("refused: %d %ld %d\n", i == whole && whole > 2, live, status);
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct {
  void (*task)(void*, int);
  void* work;
  int index;
} Task;

static int parallel_calls, most, busy = INFUSE_BUSY, cancel_at = -1;
static void* cancelled_context;

/* A call of a context that is in another one. */
static int run_again(void* context) {
  const void* inputs[] = {input};
  static float other[ROWS * WIDTH];
  void* outputs[] = {other};
  return infuse_run(context, &rows, inputs, outputs);
}

static void* task_main(void* argument) {
  Task* t = argument;
  t->task(t->work, t->index);
  return NULL;
}

static void parallel(void* pool, int count, void (*task)(void*, int), void* work) {
  pthread_t threads[8];
  Task tasks[8];
  if (pool != &most || count > 3) abort();
  if (++parallel_calls == cancel_at) {
    busy = run_again(cancelled_context);
    infuse_cancel(cancelled_context, 1);
  }
  if (count > most) most = count;
  for (int i = 0; i < count; i++) {
    tasks[i] = (Task){task, work, count - 1 - i};
    if (pthread_create(threads + i, NULL, task_main, tasks + i)) abort();
  }
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

static void threads_of_the_host(void) {
  infuse_options o = zero();
  void* context;
  int status, total;
  o.parallel = parallel, o.pool = &most;
  if (infuse_create(&o, &context) || run(context)) return;
  printf("threads: %d %d\n", same(), SINGLE || most > 1);
  total = parallel_calls;
  cancelled_context = context;
  parallel_calls = 0, cancel_at = total / 2;
  if (SINGLE) infuse_cancel(context, 1);
  status = run(context);
  printf("cancelled: %d %d %s\n", status, SINGLE || parallel_calls == cancel_at, infuse_error(context));
  printf("busy: %d %s\n", busy, infuse_status(busy));
  status = run(context); /* until the host takes it back */
  printf("again: %d", status);
  infuse_cancel(context, 0);
  status = run(context);
  printf(" %d %d\n", status, same());
  infuse_close(context);
}

/* ---- the arena ------------------------------------------------------------------------------- */

static void arena_of_the_host(void) {
  infuse_options o = zero();
  const int64_t bytes = infuse_needed_bytes(&rows);
  int64_t bad = -1;
  int status;
  char* memory = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64 + 64);
  void* context;
  memset(memory + bytes, 0x5a, 64);
  o.arena = memory, o.arena_bytes = bytes;
  if (infuse_create(&o, &context)) return;
  status = run(context);
  printf("arena: %d %d", status, same());
  for (int i = 0; i < 64; i++)
    if (memory[bytes + i] != 0x5a) printf(" %d changed", i);
  infuse_close(context);
  o.arena_bytes = bytes - 64;
  if (infuse_create(&o, &context)) return;
  printf(" %d %d\n", bytes > 64, (int)infuse_needed_bytes(&bad));
  status = run(context);
  printf("small: %d %s\n", status, infuse_error(context));
  infuse_close(context);
  free(memory);
}

/* ---- options --------------------------------------------------------------------------------- */

static int created(infuse_options o) {
  void* context = &o;
  const int status = infuse_create(&o, &context);
  if (context) infuse_close(context);
  return status * 10 + (context != NULL);
}

static void bad_options(void) {
  infuse_options o[7];
  for (int i = 0; i < 7; i++) o[i] = zero();
  o[0].abi = 2;
  o[1].weights = NULL;
  o[2].weights_bytes = WEIGHTS_BYTES - 1;
  o[3].weights = weights + 8;
  o[4].arena = weights + 8, o[4].arena_bytes = 64;
  o[5].allocate = allocate;
  o[6].weights_bytes = 0; /* not checked */
  printf("options:");
  for (int i = 0; i < 7; i++) printf(" %d", created(o[i]));
  printf(" %s; %s\n", infuse_status(INFUSE_CANCELLED), infuse_status(77));
}

int main(void) {
  FILE* file = fopen("weights.bin", "rb");
  void* context;
  weights = aligned_alloc(64, (WEIGHTS_BYTES + 63) / 64 * 64 + 64);
  if (!file || !weights || fread(weights, 1, WEIGHTS_BYTES, file) != WEIGHTS_BYTES) return 1;
  fclose(file);
  for (int i = 0; i < ROWS * WIDTH; i++) input[i] = (float)(i * 7919 % 1000) / 500 - 1;
  context = infuse_open(weights, 1);
  if (!context || run(context)) return 2;
  memcpy(expected, result, sizeof result);
  infuse_close(context);
  memory_of_the_host();
  threads_of_the_host();
  arena_of_the_host();
  bad_options();
  free(weights);
  return 0;
}
