// Programs as data: what the calls of closed functions are filled with, and the functions of a
// library by their names.
#pragma once
#include <stdint.h>

#include "isize.h"

#define INFUSE_API extern "C" __attribute__((visibility("default")))

namespace infuse {

struct Context;

/** An argument of a closed function: a size, a number, or where something lies. */
union Slot {
  int64_t i;
  double f;
  const void* p;
};

/** A function of a library, called with its slots; it returns a failure (failure.h), or what it
 * tells. */
typedef isize (*ClosedFunction)(Context&, const Slot*);

/** A function of n elements; `found_zero` is told of integers that are divided by zero. */
typedef void (*ElementFunction)(void* out, const void* const* in, isize n, bool* found_zero);

/** Behind the name another text follows, as each pointer takes 32 bytes of a library: a letter for
 * each slot that it takes: t a tensor, i a whole number, f a double, l a list of whole numbers, o a
 * size that it finds, and for elementwise work w and the bytes of an element that this gives. */
struct NamedFunction {
  const char* name;
  ClosedFunction call;
};
/** `vector`: the same of one vector, where all that it takes and gives are floats and masks
 * (`VectorFunction`); null otherwise. Behind the name: bytes of what it takes, and last of what it
 * gives, a digit each. */
struct NamedElement {
  const char* name;
  ElementFunction call;
  void (*vector)();
};

/** All functions of a library, sorted by name. */
struct FunctionTable {
  const NamedFunction* functions;
  isize function_count;
  const NamedElement* elements;
  isize element_count;
};
extern const FunctionTable LIBRARY_TABLE;
/** What the library is made for: the target, the features of processors, the stamp of kernels. */
extern const char* const LIBRARY_FACTS;

// ---- elementwise work --------------------------------------------------------------------------

constexpr int NOT_THERE = -1;      // the number of an argument that is not there
constexpr int REPEATED = -2;       // the column stride of what all columns share
constexpr int MOST_OPERANDS = 8;   // of a function of elements
constexpr int MOST_VECTORS = 32;   // registers of work that is done a vector at a time
constexpr int MOST_REGISTERS = 512;  // of any work: they lie on the stack

/** How rows move along an axis: ((row / below) % size) · stride, each the number of a slot. */
struct RowCode {
  int below, size, stride;
};

/** Where elements of so many bytes lie: the pointer, the column stride and the rows, by slot. */
struct PlaceCode {
  int pointer, bytes, column, row_count;
  const RowCode* rows;
};

enum InstructionKind { LOAD, SPLAT, APPLY, PUT };

/** What is done with the registers of a block. `argument`: the slot that is repeated, or whether a
 * register holds the elements in memory themselves. */
struct Instruction {
  int kind, target, argument, operand_count;
  const int* operands;
  ElementFunction function;
  void (*vector)();
  PlaceCode place;
};

/** One axis of blocks of pixels: the slot of their count, pixels of each, those cut off before the
 * first, and the slot of the size. */
struct BlockAxisCode {
  int count, step, cut, size;
};

/** Where a vector is, by slots: where rows begin and their distance. `pointer` is NOT_THERE for what
 * the kernel hands over, `stride` for ONE_ROW, which all rows have in common. */
struct VectorPlace {
  int pointer, stride;
};
constexpr int ONE_ROW = -3;

/** Work of one function of at most three vectors, which is stored at most once. */
struct SimpleCode {
  void (*vector)();  // null: what it does is to store
  VectorPlace operands[3];
  int operand_count;
  bool puts;
  VectorPlace put;
};

/** What elementwise work does for a block of columns of one row. `columns`: the slot of the
 * channels of a pixel, where rows are blocks of these. */
struct WorkCode {
  bool in_vectors;  // it can be done in registers of the processor, a vector at a time
  int registers, result, arguments, columns, axis_count, count;
  const int* widths;
  const BlockAxisCode* axes;
  const Instruction* instructions;
  const SimpleCode* simple;  // null where it is more than that
};

/** Elementwise work with what it is called with. */
struct WorkCall {
  const WorkCode* code;
  const Slot* slots;
};

/**
 * Does elementwise work for n columns of a row, from `col` on. `handed`: what a kernel made of
 * them; `result`: where what the work gives is to be stored, or null.
 */
void work_block(const WorkCall& work, isize row, isize col, int n, const void* handed, void* result,
                bool* found_zero);

}  // namespace infuse
