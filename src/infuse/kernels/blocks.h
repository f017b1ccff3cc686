// Memory whose size only a run finds out: results of data-dependent size, what a loop carries and stacks.
#pragma once
#include <stdbool.h>
#include <string.h>

#include "memory.h"

#ifdef __cplusplus
namespace infuse {
#endif

/** Where a tensor lies: in memory of the block's own, or in somebody else's. `lent`: the only memory
 * that it may use, of `capacity` bytes; null for what its heap has. */
typedef struct Block {
  char* data;
  char* own;
  isize capacity;
  const Heap* heap;
  char* lent;
} Block;

/** Lets the block hold `bytes` in its own memory, contents lost; false when out of memory. */
static inline bool obtain(Block* block, isize bytes) {
  if (bytes < 0) return false;
  if (block->lent) {
    block->data = block->lent;
    return bytes <= block->capacity;
  }
#if defined(__SANITIZE_ADDRESS__)
  if (bytes != block->capacity) {  // exactly as large, so that every access outside is seen
    memory_close(block->heap, block->own);
    block->own = NULL;
    block->capacity = 0;
  }
#endif
  if (bytes > block->capacity || !block->own) {
    const isize spare = block->own ? bytes / 4 : 0;
    char* memory = memory_open(block->heap, bytes + spare);
    if (!memory) return false;
    memory_close(block->heap, block->own);
    block->own = memory;
    block->capacity = bytes + spare;
  }
  block->data = block->own;
  return true;
}

/** Writes `bytes` bytes behind the first `used` ones, which stay; false when out of memory. */
static inline bool append(Block* block, isize used, const void* source, isize bytes) {
  isize total, wanted;
  if (__builtin_add_overflow(used, bytes, &total)) return false;
  if (total > block->capacity || !block->own) {
    if (__builtin_mul_overflow(total, (isize)2, &wanted)) return false;
    char* memory = memory_open(block->heap, wanted);
    if (!memory) return false;
    if (used > 0) memcpy(memory, block->own, (size_t)used);
    memory_close(block->heap, block->own);
    block->own = memory;
    block->capacity = wanted;
  }
  if (bytes > 0) memcpy(block->own + used, source, (size_t)bytes);
  block->data = block->own;
  return true;
}

/** A copy of `bytes` bytes in the block's own memory; false when out of memory. */
static inline bool keep(Block* block, const void* source, isize bytes) {
  return append(block, 0, source, bytes);
}

/** Lets `count` blocks, which are all zeros, have their memory from a heap. */
static inline void open_blocks(Block* blocks, int count, const Heap* heap) {
  for (int i = 0; i < count; ++i) blocks[i].heap = heap;
}

/** Frees the memory of `count` blocks. */
static inline void close_blocks(Block* blocks, int count) {
  for (int i = 0; i < count; ++i) memory_close(blocks[i].heap, blocks[i].own);
}

/** Bytes that `count` blocks hold. */
static inline isize block_bytes(const Block* blocks, int count) {
  isize total = 0;
  for (int i = 0; i < count; ++i) total += blocks[i].capacity;
  return total;
}

#ifdef __cplusplus
}  // namespace infuse
#endif
