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

template <class T> inline T* zeros(const Heap* heap, isize count) {
  return (T*)memory_zeros(heap, (count + 1) * isize(sizeof(T)));
}

inline bool open_frame(const Program* p, const ProgramPart* q, Frame* f, const Heap* heap) {
  f->q = q;
  f->key = zeros<isize>(heap, p->symbols);
  f->offsets = zeros<isize>(heap, q->buffers), f->bytes = zeros<isize>(heap, q->buffers);
  f->late = zeros<Block>(heap, q->late_blocks), f->left = zeros<Block>(heap, q->left_blocks);
  f->own = zeros<Block>(heap, isize(2) * q->outputs);
  f->results = zeros<const char*>(heap, q->outputs);
  f->slots = zeros<Slot>(heap, q->most_slots);
  open_blocks(&f->arena, 1, heap);
  if (f->late) open_blocks(f->late, q->late_blocks, heap);
  if (f->left) open_blocks(f->left, q->left_blocks, heap);
  if (f->own) open_blocks(f->own, 2 * q->outputs, heap);
  return f->key && f->offsets && f->bytes && f->late && f->left && f->own && f->results && f->slots;
}

inline void close_frame(Frame* f, const Heap* heap) {
  close_blocks(&f->arena, 1);
  if (f->late) close_blocks(f->late, f->q->late_blocks);
  if (f->left) close_blocks(f->left, f->q->left_blocks);
  if (f->own) close_blocks(f->own, 2 * f->q->outputs);
  void* const lists[] = {f->key, f->offsets, f->bytes,          f->late,
                         f->left, f->own,    (void*)f->results, f->slots};
  for (void* each : lists) memory_close(heap, (char*)each);
}

}  // namespace infuse
