// Runs programs that are data (written by targets/cpu/closed) with the functions of a library.
//
// A program is loaded once, checked, and shared by contexts; a context runs one call at a time. The
// functions have the meaning of those in model.h, and are given the program where these know it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INFUSE_POOL_APART
#include "arena.h"
#include "blocks.h"
#include "failure.h"
#include "program_reader.hpp"
#include "threads.hpp"
#include "whole.h"

#define INFUSE_API extern "C" __attribute__((visibility("default")))

namespace infuse {

namespace {

enum Status { OK = 0, OUT_OF_MEMORY = 1, BAD_DATA = 2 };

// ---- sizes -------------------------------------------------------------------------------------

long evaluated(const Term& term, const long* d) {
  long stack[MOST_DEPTH + 1];
  long* top = stack;
  for (int i = 0; i < term.length; ++i) {
    const int64_t kind = term.code[i];
    if (kind == CONST) {
      *top++ = long(term.code[++i]);
      continue;
    }
    if (kind == SYMBOL) {
      *top++ = d[term.code[++i]];
      continue;
    }
    const long b = *--top, a = *--top;
    long c = 0;
    switch (kind) {
      case ADD: c = long((unsigned long)a + (unsigned long)b); break;
      case MUL: c = long((unsigned long)a * (unsigned long)b); break;
      case DIV: c = floor_div(a, b); break;
      case MOD: c = floor_mod(a, b); break;
      case MAX: c = max_long(a, b); break;
      case MIN: c = min_long(a, b); break;
      case BROADCAST: c = broadcast_size(a, b); break;
      case EQUAL: c = a == b; break;
      case LESS: c = a < b; break;
      case AT_MOST: c = a <= b; break;
      case MORE: c = a > b; break;
      case AT_LEAST: c = a >= b; break;
      case AND: c = a && b; break;
      case OR: c = a || b; break;
      case DO_BROADCAST: c = do_broadcast(a, b); break;
    }
    *top++ = c;
  }
  return stack[0];
}

/** The same of numbers that may be too large, for terms without conditions. */
double estimated(const Term& term, const long* d) {
  double stack[MOST_DEPTH + 1];
  double* top = stack;
  for (int i = 0; i < term.length; ++i) {
    const int64_t kind = term.code[i];
    if (kind == CONST || kind == SYMBOL) {
      ++i;
      *top++ = kind == CONST ? double(term.code[i]) : double(d[term.code[i]]);
      continue;
    }
    const double b = *--top, a = *--top;
    double c = 0;
    switch (kind) {
      case ADD: c = a + b; break;
      case MUL: c = a * b; break;
      case DIV: c = estimated_div(a, b); break;
      case MOD: c = estimated_mod(a, b); break;
      case MAX: c = estimated_max(a, b); break;
      case MIN: c = estimated_min(a, b); break;
      case BROADCAST: c = estimated_broadcast(a, b); break;
    }
    *top++ = c;
  }
  return stack[0];
}

bool too_large(const Program* p, const long* d) {
  for (int i = 0; i < p->before_run.count; ++i)
    if (!(estimated(p->term[p->before_run.items[i]], d) < TOO_LARGE)) return true;
  return false;
}

}  // namespace

// ---- running -----------------------------------------------------------------------------------

struct Run {
  const Program* p;
  Context* pool;
  long *d, *key, *offsets, *values, *bytes;
  bool planned;
  Block arena;
  Block *late, *left, *own;
  Slot* slots;
  const void* const* in;
  void* const* out;
  const void** all_inputs;
  const char* error;
  char text[512];
};

namespace {

long value_of(const Run* m, int term) {
  const Term& t = m->p->term[term];
  return t.late ? evaluated(t, m->d) : m->values[term];
}

char* lies(const Run* m, const Site& site) {
  char* base = nullptr;
  switch (site.base) {
    case IN_INPUT: base = (char*)m->in[site.number]; break;
    case IN_OUTPUT: base = (char*)m->out[site.number]; break;
    case IN_OWN: base = m->own[site.number].data; break;
    case IN_WEIGHTS: base = (char*)m->p->weights + site.number; break;
    case IN_ARENA: base = m->arena.data + m->offsets[site.number]; break;
    case IN_LATE: base = m->late[site.number].data; break;
    case IN_BLOCK: base = m->left[site.number].data; break;
  }
  return site.offset == NOT_THERE ? base : base + value_of(m, site.offset) * site.bytes;
}

long called(Run* m, const Call& call) {
  Slot* slots = m->slots;
  for (int i = 0; i < call.fill_count; ++i) {
    const Fill& each = call.fills[i];
    Slot& slot = slots[each.slot];
    switch (each.kind) {
      case SIZE: slot.i = value_of(m, int(each.value)); break;
      case BITS: slot.i = each.value; break;
      case ESTIMATE: slot.f = estimated(m->p->term[each.value], m->d); break;
      case FOUND: slot.p = m->d + each.value; break;
      case TENSOR: slot.p = lies(m, each.sites[0]); break;
      case EITHER: {
        char* at = lies(m, each.sites[value_of(m, int(each.value)) == 0 ? 0 : 1]);
        slot.p = each.offset == NOT_THERE ? at : at + value_of(m, each.offset) * each.bytes;
        break;
      }
      case LIST: slot.p = slots + each.extra; break;
      case WORK:
        slot.p = m->p->work + each.value;
        slots[each.slot + 1].p = slots + each.extra;
        break;
    }
  }
  return call.function(*m->pool, slots);
}

int fail(Run* m, int failure, const char* where) {
  if (m->error) return failure;
  int used = snprintf(m->text, sizeof m->text, "%s: %s", where, failure_text(failure));
  const long limit = m->pool->index_limit;
  if (failure == BAD_INDEX && limit >= 0 && used > 0 && used < (int)sizeof m->text)
    snprintf(m->text + used, sizeof m->text - (size_t)used, ": %ld of %ld elements",
             m->pool->bad_index, limit);
  m->error = m->text;
  return failure;
}

/** The arena's bytes for these sizes; negative when memory runs out. */
long place(Run* m) {
  const Program* p = m->p;
  if (p->total >= 0) {
    for (int i = 0; i < p->buffers; ++i) m->offsets[i] = p->offsets[i];
    return p->total;
  }
  for (int i = 0; i < p->buffers; ++i) m->bytes[i] = m->values[p->buffer_terms[i]];
  const ArenaItems items = {m->bytes, p->first, p->last, p->buffers};
  void* work = malloc(size_t(arena_scratch(p->buffers)));
  if (!work) return -1;
  const long total = arena_plan(&items, p->orders, p->attempts, m->offsets, work);
  free(work);
  return total;
}

/** Plans anew where sizes changed. */
int prepare(Run* m) {
  const Program* p = m->p;
  const size_t key = sizeof(long) * size_t(p->input_symbols);
  if (m->planned && memcmp(m->d, m->key, key) == 0) return 0;
  m->planned = false;
  if (too_large(p, m->d)) {
    m->error = "the sizes of the inputs make tensors that are too large";
    return DIFFERENT_SIZES;
  }
  for (int i = 0; i < p->terms; ++i)
    if (!p->term[i].late) m->values[i] = evaluated(p->term[i], m->d);
  for (int i = 0; i < p->checks; ++i) {
    if (m->values[p->check[i].term]) continue;
    m->error = p->check[i].message;
    return DIFFERENT_SIZES;
  }
  const long bytes = place(m);
  long scratch = 64;
  for (int i = 0; i < p->scratch_count; ++i) scratch = max_long(scratch, called(m, p->scratch[i]));
  if (bytes < 0 || !m->pool->reserve(scratch) || !obtain(&m->arena, bytes))
    return fail(m, NO_MEMORY, "the working buffers");
  memcpy(m->key, m->d, key);
  m->planned = true;
  return 0;
}

int run_step(Run* m, const ProgramStep& step) {
  for (int i = 0; i < step.room_count; ++i) {
    const Room& room = step.rooms[i];
    const Term& term = m->p->term[room.term];
    const bool possible = !room.estimated || estimated(term, m->d) < TOO_LARGE;
    Block* block = (room.output ? m->own : m->late) + room.number;
    if (!possible || !obtain(block, value_of(m, room.term)))
      return fail(m, NO_MEMORY, step.where);
  }
  for (int i = 0; i < step.scratch_count; ++i)
    if (!m->pool->reserve(called(m, step.scratch[i]))) return fail(m, NO_MEMORY, step.where);
  if (step.written.count) {
    bool any = false;
    for (int i = 0; i < step.written.count; ++i) any |= value_of(m, step.written.items[i]) > 0;
    if (!any) return 0;
  }
  const long failed = called(m, step.call);
  return step.checks && failed ? fail(m, int(failed), step.where) : 0;
}

long held(const Block* blocks, int count) { return block_bytes(blocks, count); }

template <class T> T* zeros(long count) {
  return (T*)calloc(size_t(count) + 1, sizeof(T));
}

}  // namespace

}  // namespace infuse

using namespace infuse;

/** The target of this library, the features that it needs, and the stamp of its kernels: lines. */
INFUSE_API const char* infuse_library(void) { return LIBRARY_FACTS; }

INFUSE_API long infuse_functions(const char** names, long room) {
  const long count = FUNCTION_COUNT + ELEMENT_COUNT;
  for (long i = 0; i < count && i < room; ++i)
    names[i] = i < FUNCTION_COUNT ? FUNCTIONS[i].name : ELEMENTS[i - FUNCTION_COUNT].name;
  return count;
}

INFUSE_API void* infuse_program_load(const void* content, int64_t bytes, const void* weights,
                                     int64_t weight_bytes, char* why, int64_t room) {
  return load_program((const char*)content, bytes, weights, weight_bytes, why, long(room));
}

INFUSE_API void infuse_program_close(void* program) {
  if (program) close_program((Program*)program);
}

INFUSE_API void infuse_close(void* context) {
  Run* m = (Run*)context;
  if (!m) return;
  memory_close(m->arena.own);
  if (m->late) close_blocks(m->late, m->p->late_blocks);
  if (m->left) close_blocks(m->left, m->p->left_blocks);
  if (m->own) close_blocks(m->own, m->p->outputs);
  void* const lists[] = {m->d,    m->key,  m->offsets, m->values, m->bytes,
                         m->late, m->left, m->own,     m->slots,  (void*)m->all_inputs};
  for (void* each : lists) free(each);
  context_close(m->pool);
  free(m);
}

INFUSE_API void* infuse_program_open(void* program, int threads) {
  const Program* p = (const Program*)program;
  Run* m = (Run*)calloc(1, sizeof(Run));
  if (!m) return nullptr;
  m->p = p;
  m->error = "";
  m->pool = context_open(threads);
  m->d = zeros<long>(p->symbols), m->key = zeros<long>(p->input_symbols);
  m->offsets = zeros<long>(p->buffers), m->bytes = zeros<long>(p->buffers);
  m->values = zeros<long>(p->terms);
  m->late = zeros<Block>(p->late_blocks), m->left = zeros<Block>(p->left_blocks);
  m->own = zeros<Block>(p->outputs);
  m->slots = zeros<Slot>(p->most_slots);
  m->all_inputs = zeros<const void*>(p->inputs);
  if (m->pool && m->d && m->key && m->offsets && m->bytes && m->values && m->late && m->left &&
      m->own && m->slots && m->all_inputs)
    return m;
  infuse_close(m);
  return nullptr;
}

INFUSE_API int infuse_program_shapes(void* program, const int64_t* symbols, int64_t* dims) {
  const Program* p = (const Program*)program;
  long* d = zeros<long>(p->symbols);
  if (!d) return OUT_OF_MEMORY;
  bool valid = true;
  for (int i = 0; i < p->input_symbols; ++i) {
    d[i] = long(symbols[i]);
    valid &= d[i] >= 0;
  }
  valid = valid && !too_large(p, d);
  long at = 0;
  for (int k = 0; k < p->outputs && valid; ++k) {
    for (int i = 0; i < p->output[k].sizes.count; ++i) {
      const Term& term = p->term[p->output[k].sizes.items[i]];
      dims[at] = term.late ? -1 : evaluated(term, d);
      valid &= term.late || dims[at] >= 0;
      ++at;
    }
  }
  free(d);
  return valid ? OK : BAD_DATA;
}

INFUSE_API int infuse_run(void* context, const int64_t* symbols, const void* const* inputs,
                          void* const* outputs) {
  const FlushSubnormals flush;
  Run* m = (Run*)context;
  const Program* p = m->p;
  m->error = nullptr;
  m->pool->index_limit = -1;
  for (int i = 0; i < p->input_symbols; ++i) m->d[i] = long(symbols[i]);
  m->in = inputs, m->out = outputs;
  if (p->has_defaults) {
    for (int i = 0; i < p->inputs; ++i)
      m->all_inputs[i] = inputs[i] || p->defaults[i] < 0 ? inputs[i] : p->weights + p->defaults[i];
    m->in = m->all_inputs;
  }
  int failed = prepare(m);
  for (int k = 0; k < p->steps && !failed; ++k) failed = run_step(m, p->step[k]);
  if (!failed) return OK;
  return failed == NO_MEMORY ? OUT_OF_MEMORY : BAD_DATA;
}

INFUSE_API const void* infuse_output(void* context, int number, int64_t* dims) {
  Run* m = (Run*)context;
  if (number < 0 || number >= m->p->outputs || !m->p->output[number].owned) return nullptr;
  const List& sizes = m->p->output[number].sizes;
  for (int i = 0; i < sizes.count; ++i) dims[i] = value_of(m, sizes.items[i]);
  return m->own[number].data;
}

INFUSE_API const char* infuse_error(void* context) {
  if (!context) return tiles_granted() ? "" : TILES_REFUSED;
  const char* text = ((Run*)context)->error;
  return text ? text : "";
}

INFUSE_API int64_t infuse_arena_bytes(void* context) {
  const Run* m = (const Run*)context;
  return (m->planned ? m->arena.capacity : 0) + held(m->late, m->p->late_blocks) +
         held(m->left, m->p->left_blocks) + held(m->own, m->p->outputs);
}

INFUSE_API int64_t infuse_live_bytes(void* context) {
  const Run* m = (const Run*)context;
  const Program* p = m->p;
  long most = 0;
  for (int step = 0; step < p->steps; ++step) {
    long live = 0;
    for (int i = 0; i < p->buffers; ++i)
      if (p->first[i] <= step && step <= p->last[i])
        live += (evaluated(p->term[p->buffer_terms[i]], m->d) + 63) / 64 * 64;
    most = max_long(most, live);
  }
  return most;
}
