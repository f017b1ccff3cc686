// Runs programs that are data (written by targets/cpu/closed) with the functions of a library.
//
// A program is loaded once, checked, and shared by contexts; a context runs one call at a time. The
// functions have the meaning of those in model.h, and are given the program where these know it.
// A program may call functions of a library of its own, besides those of this one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INFUSE_POOL_APART
#include "failure.h"
#include "frame.hpp"
#include "options.h"
#include "program_plan.hpp"
#include "program_terms.hpp"
#include "refusal.hpp"
#include "threads.hpp"

namespace infuse {

// ---- running -----------------------------------------------------------------------------------

struct Run {
  const Program* p;
  Heap heap;
  Context* pool;
  isize *d, *values;
  Frame* frames;
  const void** all_inputs;
  const char* error;
  char text[512];
};

namespace {

isize value_of(const Run* m, int term) {
  const Term& t = m->p->term[term];
  return t.late ? evaluated(t, m->d) : m->values[term];
}

/** The blocks of the outputs that a run makes now; bodies have two of each, in turn. */
Block* own_blocks(const Frame* f) { return f->own + f->turn * f->q->outputs; }

char* lies(const Run* m, const Frame* f, const Site& site) {
  char* base = nullptr;
  switch (site.base) {
    case IN_INPUT: base = (char*)f->in[site.number]; break;
    case IN_OUTPUT: base = (char*)f->out[site.number]; break;
    case IN_OWN: base = own_blocks(f)[site.number].data; break;
    case IN_WEIGHTS: base = (char*)m->p->weights + site.number; break;
    case IN_ARENA: base = f->arena.data + f->offsets[site.number]; break;
    case IN_LATE: base = f->late[site.number].data; break;
    case IN_BLOCK: base = f->left[site.number].data; break;
  }
  return site.offset == NOT_THERE ? base : base + value_of(m, site.offset) * site.bytes;
}

int run_part(Run* m, int number, const void* const* in, void* const* out);

/** Does a script; what it ends with. */
isize scripted(Run* m, const Script& script, Slot* s) {
  for (int at = 0; at < script.count; ++at) {
    const ScriptStep& step = script.steps[at];
    switch (step.kind) {
      case DO_CONST: s[step.a].i = step.b; break;
      case DO_JUMP: at = int(step.a) - 1; break;
      case DO_UNLESS:
        if (!s[step.a].i) at = int(step.b) - 1;
        break;
      case DO_END: return isize(step.a);
      case DO_CALL: s[step.a].i = m->p->called[step.b]->call(*m->pool, s + step.c); break;
      case DO_BODY: {
        const int failed = run_part(m, int(step.a), &s[step.b].p, nullptr);
        if (failed) return failed;
        break;
      }
      case DO_RESULT: s[step.a].p = m->frames[step.b].results[step.c]; break;
      case DO_BLOCK: s[step.a].p = m->frames[step.b].left + step.c; break;
      case DO_TERM: s[step.a].i = value_of(m, int(step.b)); break;
      case DO_ESTIMATE: s[step.a].f = estimated(m->p->term[step.b], m->d); break;
      case DO_GET: s[step.a].i = m->d[step.b]; break;
      case DO_SET: m->d[step.a] = isize(s[step.b].i); break;
      default: compute(step, s); break;
    }
  }
  return 0;
}

isize called(Run* m, const Frame* f, const Call& call) {
  Slot* slots = f->slots;
  for (int i = 0; i < call.fill_count; ++i) {
    const Fill& each = call.fills[i];
    Slot& slot = slots[each.slot];
    switch (each.kind) {
      case SIZE: slot.i = value_of(m, int(each.value)); break;
      case BITS: slot.i = each.value; break;
      case ESTIMATE: slot.f = estimated(m->p->term[each.value], m->d); break;
      case FOUND: slot.p = m->d + each.value; break;
      case TENSOR: slot.p = lies(m, f, each.sites[0]); break;
      case EITHER: {
        char* at = lies(m, f, each.sites[value_of(m, int(each.value)) == 0 ? 0 : 1]);
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
  return call.script ? scripted(m, *call.script, slots) : call.function(*m->pool, slots);
}

int fail(Run* m, int failure, const char* where) {
  if (m->error) return failure;
  int used = snprintf(m->text, sizeof m->text, "%s: %s", where, failure_text(failure));
  const isize limit = m->pool->index_limit;
  if (failure == BAD_INDEX && limit >= 0 && used > 0 && used < (int)sizeof m->text)
    snprintf(m->text + used, sizeof m->text - (size_t)used, ": %lld of %lld elements",
             (long long)m->pool->bad_index, (long long)limit);
  m->error = m->text;
  return failure;
}

/** The arena's bytes for these sizes; negative when memory runs out, or a buffer does not fit. */
isize place(Run* m, Frame* f) {
  const ProgramPart* q = f->q;
  for (int i = 0; i < q->buffers; ++i) f->bytes[i] = value_of(m, q->buffer_terms[i]);
  return planned_bytes(q, f->bytes, f->offsets, &m->pool->heap);
}

/** Plans anew where sizes changed: those of the inputs, and for a body all that are known. */
int prepare(Run* m, Frame* f) {
  const Program* p = m->p;
  const ProgramPart* q = f->q;
  const bool outermost = f == m->frames;
  const size_t key = sizeof(isize) * size_t(outermost ? p->input_symbols : p->symbols);
  if (f->planned && memcmp(m->d, f->key, key) == 0) return 0;
  f->planned = false;
  if (too_large(p, q->before_run, m->d)) {
    m->error = "the sizes of the inputs make tensors that are too large";
    return DIFFERENT_SIZES;
  }
  for (int i = 0; i < p->terms && outermost; ++i)
    if (!p->term[i].late) m->values[i] = evaluated(p->term[i], m->d);
  for (int i = 0; i < q->checks; ++i) {
    if (value_of(m, q->check[i].term)) continue;
    m->error = q->check[i].message;
    return DIFFERENT_SIZES;
  }
  const isize bytes = place(m, f);
  isize scratch = 64;
  for (int i = 0; i < q->scratch_count; ++i)
    scratch = max_long(scratch, called(m, f, q->scratch[i]));
  if (f->arena.lent && bytes > f->arena.capacity) {
    snprintf(m->text, sizeof m->text, "the arena has %lld bytes, and these sizes need %lld",
             (long long)f->arena.capacity, (long long)bytes);
    m->error = m->text;
    return NO_MEMORY;
  }
  if (bytes < 0 || !m->pool->reserve(scratch) || !obtain(&f->arena, bytes))
    return fail(m, NO_MEMORY, "the working buffers");
  memcpy(f->key, m->d, key);
  f->planned = true;
  return 0;
}

int run_step(Run* m, Frame* f, const ProgramStep& step) {
  if (cancelled(m->pool)) return fail(m, CANCELLED, step.where);
  for (int i = 0; i < step.room_count; ++i) {
    const Room& room = step.rooms[i];
    const Term& term = m->p->term[room.term];
    const bool possible = !room.estimated || estimated(term, m->d) < TOO_LARGE;
    Block* block = (room.output ? own_blocks(f) : f->late) + room.number;
    if (!possible || !obtain(block, value_of(m, room.term)))
      return fail(m, NO_MEMORY, step.where);
  }
  for (int i = 0; i < step.scratch_count; ++i)
    if (!m->pool->reserve(called(m, f, step.scratch[i]))) return fail(m, NO_MEMORY, step.where);
  if (step.written.count) {
    bool any = false;
    for (int i = 0; i < step.written.count; ++i) any |= value_of(m, step.written.items[i]) > 0;
    if (!any) return 0;
  }
  const isize failed = called(m, f, step.call);
  return step.checks && failed ? fail(m, int(failed), step.where) : 0;
}

/** Runs one of the programs; nonzero at the first step that finds something wrong. */
int run_part(Run* m, int number, const void* const* in, void* const* out) {
  Frame* f = m->frames + number;
  int failed = prepare(m, f);
  if (failed) return failed;
  f->in = in, f->out = out;
  if (number) f->turn ^= 1;
  for (int k = 0; k < f->q->steps && !failed; ++k) failed = run_step(m, f, f->q->step[k]);
  for (int k = 0; k < f->q->outputs && !failed; ++k) {
    const Output& output = f->q->output[k];
    if (output.owned)
      f->results[k] = output.alias < 0 ? own_blocks(f)[k].data : (const char*)in[output.alias];
  }
  return failed;
}

/** Frees all that a context has, some of which may be missing. */
void close_run(Run* m) {
  const Heap heap = m->heap;
  for (int i = 0; m->frames && i < m->p->parts; ++i)
    if (m->frames[i].q) close_frame(m->frames + i, &heap);
  void* const lists[] = {m->d, m->values, m->frames, (void*)m->all_inputs};
  for (void* each : lists) memory_close(&heap, (char*)each);
  context_close(m->pool);
  memory_close(&heap, (char*)m);
}

Run* open_run(const Program* p, const infuse_options* options) {
  const Heap heap = {options->allocate, options->release, options->heap};
  Run* m = zeros<Run>(&heap, 1);
  if (!m) return nullptr;
  m->p = p;
  m->heap = heap;
  m->error = "";
  m->pool = context_open(options);
  m->d = zeros<isize>(&heap, p->symbols), m->values = zeros<isize>(&heap, p->terms);
  m->frames = zeros<Frame>(&heap, p->parts);
  m->all_inputs = zeros<const void*>(&heap, p->part[0].inputs);
  bool whole = m->pool && m->d && m->values && m->frames && m->all_inputs;
  for (int i = 0; i < p->parts && whole; ++i)
    whole = open_frame(p, p->part + i, m->frames + i, &m->heap);
  if (whole) return m;
  close_run(m);
  return nullptr;
}

}  // namespace

}  // namespace infuse

using namespace infuse;

INFUSE_API void infuse_close(void* context) {
  Run* m = (Run*)context;
  if (m) close_run(m);
}

INFUSE_API int infuse_program_create(void* program, const infuse_options* options, void** context) {
  *context = nullptr;
  if (options->weights || !options_valid(options, 0, true)) return INFUSE_BAD_OPTIONS;
  if (refusal()) return INFUSE_REFUSED;
  Run* m = open_run((const Program*)program, options);
  if (!m) return INFUSE_OUT_OF_MEMORY;
  lend(&m->frames[0].arena, options);
  *context = m;
  return INFUSE_OK;
}

INFUSE_API void* infuse_program_open(void* program, int threads) {
  const infuse_options options = usual_options(nullptr, threads);
  void* context;
  infuse_program_create(program, &options, &context);
  return context;
}

INFUSE_API void infuse_cancel(void* context, int cancel) {
  context_cancel(((Run*)context)->pool, cancel);
}

INFUSE_API const char* infuse_status(int code) { return status_text(code); }

INFUSE_API int infuse_run(void* context, const int64_t* symbols, const void* const* inputs,
                          void* const* outputs) {
  const FlushSubnormals flush;
  Run* m = (Run*)context;
  const ProgramPart* q = m->p->part;
  if (!context_begin(m->pool)) return INFUSE_BUSY;
  m->error = nullptr;
  m->pool->index_limit = -1;
  for (int i = 0; i < m->p->input_symbols; ++i) m->d[i] = isize(symbols[i]);
  if (q->has_defaults) {
    for (int i = 0; i < q->inputs; ++i)
      m->all_inputs[i] =
          inputs[i] || q->defaults[i] < 0 ? inputs[i] : m->p->weights + q->defaults[i];
    inputs = m->all_inputs;
  }
  const int failed = run_part(m, 0, inputs, outputs);
  return failure_status(context_end(m->pool, failed));
}

INFUSE_API const void* infuse_output(void* context, int number, int64_t* dims) {
  Run* m = (Run*)context;
  const ProgramPart* q = m->p->part;
  if (number < 0 || number >= q->outputs || !q->output[number].owned) return nullptr;
  const List& sizes = q->output[number].sizes;
  for (int i = 0; i < sizes.count; ++i) dims[i] = value_of(m, sizes.items[i]);
  return m->frames[0].results[number];
}

INFUSE_API const char* infuse_error(void* context) {
  if (!context) {
    const char* why = refusal();
    return why ? why : "";
  }
  const char* text = ((Run*)context)->error;
  return text ? text : "";
}

INFUSE_API int64_t infuse_arena_bytes(void* context) {
  const Run* m = (const Run*)context;
  isize bytes = 0;
  for (int i = 0; i < m->p->parts; ++i) {
    const Frame& f = m->frames[i];
    bytes += (f.planned ? f.arena.capacity : 0) + block_bytes(f.late, f.q->late_blocks) +
             block_bytes(f.left, f.q->left_blocks) + block_bytes(f.own, 2 * f.q->outputs);
  }
  return bytes;
}

INFUSE_API int64_t infuse_live_bytes(void* context) {
  const Run* m = (const Run*)context;
  const ProgramPart* q = m->p->part;
  isize most = 0;
  for (int step = 0; step < q->steps; ++step) {
    isize live = 0;
    for (int i = 0; i < q->buffers; ++i)
      if (q->first[i] <= step && step <= q->last[i])
        live += (evaluated(m->p->term[q->buffer_terms[i]], m->d) + 63) / 64 * 64;
    most = max_long(most, live);
  }
  return most;
}
