// The memory plan of a program for the symbols of a run.
#pragma once
#include "arena.h"
#include "memory.h"
#include "program_terms.hpp"

namespace infuse {

/** Whether sizes that are known before the run are beyond what can be computed. */
inline bool too_large(const Program* p, const List& sizes, const isize* d) {
  for (int i = 0; i < sizes.count; ++i)
    if (!(estimated(p->term[sizes.items[i]], d) < TOO_LARGE)) return true;
  return false;
}

/** Places buffers of these bytes; the bytes of all, or -1 where memory runs out or a buffer does not
 * fit. */
inline isize planned_bytes(const ProgramPart* q, const isize* bytes, isize* offsets,
                           const Heap* heap) {
  if (q->total >= 0) {
    for (int i = 0; i < q->buffers; ++i) {
      offsets[i] = q->offsets[i];
      if (bytes[i] < 0 || bytes[i] > q->total - q->offsets[i]) return -1;
    }
    return q->total;
  }
  const ArenaItems items = {bytes, q->first, q->last, q->buffers};
  char* work = memory_open(heap, arena_scratch(q->buffers));
  if (!work) return -1;
  const isize total = arena_plan(&items, q->orders, q->attempts, offsets, work);
  memory_close(heap, work);
  return total;
}

}  // namespace infuse
