// The functions of the interface that tell of programs, and need no context.
#include <stdio.h>

#define INFUSE_POOL_APART
#include "model_file.hpp"
#include "program_plan.hpp"
#include "program_reader.hpp"
#include "refusal.hpp"

using namespace infuse;

namespace {

void* loaded(const void* content, int64_t bytes, const void* weights, int64_t weight_bytes,
             const void* own, char* why, int64_t room) {
  return load_program((const char*)content, bytes, weights, weight_bytes, (const FunctionTable*)own,
                      why, isize(room));
}

void* read_model(const void* content, int64_t bytes, char* why, int64_t room) {
  ModelFile file;
  if (!open_model_file((const char*)content, bytes, &file, why, isize(room))) return nullptr;
  void* program = loaded(file.program, file.program_bytes, file.weights, file.weights_bytes, nullptr,
                         why, room);
  if (program) ((Program*)program)->description = file.description;
  return program;
}

/** Whether the processor runs the library; `why` tells what it lacks. */
INFUSE_ANYWHERE bool runs_here(char* why, int64_t room) {
  const char* text = refusal();
  if (text) snprintf(why, size_t(room), "%s", text);
  return !text;
}

/** Symbols of a program with the values of a call; null where memory runs out, or, with `valid`
 * false, they are invalid. To be freed. */
isize* symbols_of(const Program* p, const int64_t* symbols, bool* valid) {
  isize* d = (isize*)memory_zeros(nullptr, (isize(p->symbols) + 1) * isize(sizeof(isize)));
  *valid = d;
  if (!d) return nullptr;
  for (int i = 0; i < p->input_symbols; ++i) {
    d[i] = isize(symbols[i]);
    *valid &= d[i] >= 0;
  }
  *valid = *valid && !too_large(p, p->part->before_run, d);
  return d;
}

/** The bytes of the arena of a run, as its symbols say; -1 where they do not fit. */
isize needed(const Program* p, const isize* d) {
  const ProgramPart* q = p->part;
  for (int i = 0; i < q->checks; ++i)
    if (!evaluated(p->term[q->check[i].term], d)) return -1;
  isize* bytes = (isize*)memory_zeros(nullptr, (isize(q->buffers) * 2 + 1) * isize(sizeof(isize)));
  if (!bytes) return -1;
  for (int i = 0; i < q->buffers; ++i) bytes[i] = evaluated(p->term[q->buffer_terms[i]], d);
  const isize total = planned_bytes(q, bytes, bytes + q->buffers, nullptr);
  memory_close(nullptr, (char*)bytes);
  return total;
}

}  // namespace

INFUSE_API INFUSE_ANYWHERE void* infuse_program_load(const void* content, int64_t bytes,
                                                     const void* weights, int64_t weight_bytes,
                                                     const void* own, char* why, int64_t room) {
  if (!runs_here(why, room)) return nullptr;
  return loaded(content, bytes, weights, weight_bytes, own, why, room);
}

INFUSE_API INFUSE_ANYWHERE void* infuse_program_read(const void* content, int64_t bytes, char* why,
                                                     int64_t room) {
  if (!runs_here(why, room)) return nullptr;
  return read_model(content, bytes, why, room);
}

INFUSE_API const char* infuse_program_metadata(void* program) {
  const char* text = ((Program*)program)->description;
  return text ? text : "{}";
}

/** What callers have to agree with: how many symbols, inputs and outputs it has, and the rank of each
 * output. Stores `room` numbers of them at most, and returns how many there are. */
INFUSE_API int64_t infuse_program_counts(void* program, int64_t* counts, int64_t room) {
  const Program* p = (const Program*)program;
  const ProgramPart* q = p->part;
  const int64_t head[] = {p->input_symbols, q->inputs, q->outputs};
  for (int64_t i = 0; i < 3 + q->outputs && i < room; ++i)
    counts[i] = i < 3 ? head[i] : q->output[i - 3].sizes.count;
  return 3 + q->outputs;
}

INFUSE_API int infuse_program_shapes(void* program, const int64_t* symbols, int64_t* dims) {
  const Program* p = (const Program*)program;
  const ProgramPart* q = p->part;
  bool valid;
  isize* d = symbols_of(p, symbols, &valid);
  if (!d) return INFUSE_OUT_OF_MEMORY;
  isize at = 0;
  for (int k = 0; k < q->outputs && valid; ++k) {
    for (int i = 0; i < q->output[k].sizes.count; ++i) {
      const Term& term = p->term[q->output[k].sizes.items[i]];
      dims[at] = term.late ? -1 : evaluated(term, d);
      valid &= term.late || dims[at] >= 0;
      ++at;
    }
  }
  memory_close(nullptr, (char*)d);
  return valid ? INFUSE_OK : INFUSE_BAD_DATA;
}

INFUSE_API int64_t infuse_program_needed_bytes(void* program, const int64_t* symbols) {
  bool valid;
  isize* d = symbols_of((const Program*)program, symbols, &valid);
  const isize total = valid ? needed((const Program*)program, d) : -1;
  memory_close(nullptr, (char*)d);
  return total;
}

INFUSE_API void infuse_program_close(void* program) {
  if (program) close_program((Program*)program);
}
