// Programs that are data: what a file of them consists of.
#pragma once
#include "script.hpp"

namespace infuse {

enum FillKind { SIZE, BITS, ESTIMATE, FOUND, TENSOR, EITHER, WORK, LIST };
enum Base { IN_INPUT, IN_OUTPUT, IN_OWN, IN_WEIGHTS, IN_ARENA, IN_LATE, IN_BLOCK };
enum TermKind {
  CONST, SYMBOL, ADD, MUL, DIV, MOD, MAX, MIN, BROADCAST,
  EQUAL, LESS, AT_MOST, MORE, AT_LEAST, AND, OR, DO_BROADCAST, TERM_KINDS
};

constexpr int64_t MAGIC = 0x5250455355464e49, VERSION = 1;
constexpr int MOST_DEPTH = 64;
constexpr int MOST_PARTS = 1 << 12;  // bodies may lie within each other, and each takes stack

// ---- what a program consists of ----------------------------------------------------------------

struct Term {
  const int64_t* code;
  int length;
  bool late;
};
struct Site {
  int base, offset, bytes;
  isize number;
};
struct Fill {
  int kind, slot, extra;
  int64_t value;
  Site sites[2];
  int offset, bytes;
};
/** A call of a function, or of a script where there is none. */
struct Call {
  ClosedFunction function;
  const Script* script;
  int slot_count, fill_count;
  const Fill* fills;
};
struct Room {
  int output, number, term, estimated;
};
struct List {
  int count;
  const int* items;
};
struct ProgramStep {
  const char* where;
  int checks, room_count, scratch_count;
  List written;
  const Room* rooms;
  const Call* scratch;
  Call call;
};
struct Output {
  int owned, alias;  // alias: the input that it is, unchanged
  List sizes;
};
struct Check {
  int term;
  const char* message;
};

/** One of the programs of a model: the outermost first, then the bodies of control flow. */
struct ProgramPart {
  int inputs, outputs, checks, buffers, attempts, late_blocks, left_blocks, scratch_count, steps;
  int most_slots;
  isize total;
  const int64_t* defaults;
  bool has_defaults;
  const Output* output;
  List before_run;
  const Check* check;
  const int* buffer_terms;
  const int *first, *last, *orders;
  const isize* offsets;
  const Call* scratch;
  const ProgramStep* step;
};

struct Program {
  int64_t* words;
  char* texts;
  int64_t word_count, text_bytes;
  void** owned;  // memory of the lists
  int owned_count, owned_room;
  const char* weights;
  const char* description;  // null where it was not read from a file with one
  int64_t weight_bytes;
  int input_symbols, symbols, functions, elements, terms, works, scripts, parts;
  const Term* term;
  const WorkCode* work;
  const Script* script;
  const NamedFunction* const* called;  // functions by number
  const ProgramPart* part;
};

}  // namespace infuse
