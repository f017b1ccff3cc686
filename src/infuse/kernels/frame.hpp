// What a context keeps of one of the programs of a model.
#pragma once
#include <stdlib.h>

#include "blocks.h"
#include "program_file.hpp"

namespace infuse {

/** Sizes that it was planned for, where its tensors lie, and the slots of its calls. `turn`: which of
 * its two blocks each output of a body gets. */
struct Frame {
  const ProgramPart* q;
  bool planned;
  int turn;
  isize *key, *offsets, *bytes;
  Block arena;
  Block *late, *left, *own;
  const char** results;
  Slot* slots;
  const void* const* in;
  void* const* out;
};

template <class T> inline T* zeros(isize count) {
  return (T*)calloc(size_t(count) + 1, sizeof(T));
}

inline bool open_frame(const Program* p, const ProgramPart* q, Frame* f) {
  f->q = q;
  f->key = zeros<isize>(p->symbols);
  f->offsets = zeros<isize>(q->buffers), f->bytes = zeros<isize>(q->buffers);
  f->late = zeros<Block>(q->late_blocks), f->left = zeros<Block>(q->left_blocks);
  f->own = zeros<Block>(isize(2) * q->outputs);
  f->results = zeros<const char*>(q->outputs);
  f->slots = zeros<Slot>(q->most_slots);
  return f->key && f->offsets && f->bytes && f->late && f->left && f->own && f->results && f->slots;
}

inline void close_frame(Frame* f) {
  memory_close(f->arena.own);
  if (f->late) close_blocks(f->late, f->q->late_blocks);
  if (f->left) close_blocks(f->left, f->q->left_blocks);
  if (f->own) close_blocks(f->own, 2 * f->q->outputs);
  void* const lists[] = {f->key, f->offsets, f->bytes,          f->late,
                         f->left, f->own,    (void*)f->results, f->slots};
  for (void* each : lists) free(each);
}

}  // namespace infuse
