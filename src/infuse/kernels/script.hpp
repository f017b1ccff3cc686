// Functions that find sizes and run bodies, as code on slots (targets/cpu/closed/script.py).
#pragma once
#include "program.hpp"

namespace infuse {

enum ScriptKind {
  DO_CONST, DO_MOVE, DO_ADD, DO_SUB, DO_MUL, DO_DIV, DO_MOD, DO_EQUAL, DO_LESS, DO_AT_MOST, DO_MORE,
  DO_AT_LEAST, DO_NOT, DO_ADD_DOUBLE, DO_SUB_DOUBLE, DO_MUL_DOUBLE, DO_DIV_DOUBLE, DO_EQUAL_DOUBLE,
  DO_LESS_DOUBLE, DO_AT_MOST_DOUBLE, DO_MORE_DOUBLE, DO_AT_LEAST_DOUBLE, DO_TO_DOUBLE, DO_TO_LONG,
  DO_LOAD, DO_STORE, DO_ADDRESS, DO_OFFSET, DO_JUMP, DO_UNLESS, DO_END, DO_CALL, DO_BODY, DO_RESULT,
  DO_BLOCK, DO_TERM, DO_ESTIMATE, DO_GET, DO_SET, SCRIPT_KINDS
};

/** One instruction: what it does, and four numbers that are slots, places in the code, or what else
 * it has to do with. */
struct ScriptStep {
  int kind;
  int64_t a, b, c, d;
};

struct Script {
  int slots, count;
  const ScriptStep* steps;
};

/** The element at a place, by the number of its C type. */
inline void load_slot(Slot* to, const void* from, int64_t index, int64_t type) {
  switch (type) {
    case 0: to->i = ((const bool*)from)[index]; break;
    case 1: to->i = ((const int8_t*)from)[index]; break;
    case 2: to->i = ((const uint8_t*)from)[index]; break;
    case 3: to->i = ((const int16_t*)from)[index]; break;
    case 4: to->i = ((const uint16_t*)from)[index]; break;
    case 5: to->i = ((const int32_t*)from)[index]; break;
    case 6: to->i = ((const uint32_t*)from)[index]; break;
    case 9: to->f = double(((const float*)from)[index]); break;
    case 10: to->f = ((const double*)from)[index]; break;
    case 11: to->p = ((const void* const*)from)[index]; break;
    default: to->i = ((const int64_t*)from)[index]; break;
  }
}

inline void store_slot(const Slot& from, void* to, int64_t index, int64_t type) {
  switch (type) {
    case 0: ((bool*)to)[index] = from.i != 0; break;
    case 1:
    case 2: ((uint8_t*)to)[index] = uint8_t(from.i); break;
    case 3:
    case 4: ((uint16_t*)to)[index] = uint16_t(from.i); break;
    case 5:
    case 6: ((uint32_t*)to)[index] = uint32_t(from.i); break;
    case 9: ((float*)to)[index] = float(from.f); break;
    case 10: ((double*)to)[index] = from.f; break;
    case 11: ((const void**)to)[index] = from.p; break;
    default: ((int64_t*)to)[index] = from.i; break;
  }
}

/** Does what numbers alone decide; false for what the machine has to do. */
inline bool compute(const ScriptStep& step, Slot* s) {
  Slot* to = s + step.a;
  const int64_t b = s[step.b].i, c = s[step.c].i;
  const double x = s[step.b].f, y = s[step.c].f;
  switch (step.kind) {
    case DO_MOVE: *to = s[step.b]; return true;
    case DO_ADD: to->i = int64_t(uint64_t(b) + uint64_t(c)); return true;
    case DO_SUB: to->i = int64_t(uint64_t(b) - uint64_t(c)); return true;
    case DO_MUL: to->i = int64_t(uint64_t(b) * uint64_t(c)); return true;
    case DO_DIV: to->i = c == 0 ? 0 : c == -1 ? int64_t(-uint64_t(b)) : b / c; return true;
    case DO_MOD: to->i = c == 0 || c == -1 ? 0 : b % c; return true;
    case DO_EQUAL: to->i = b == c; return true;
    case DO_LESS: to->i = b < c; return true;
    case DO_AT_MOST: to->i = b <= c; return true;
    case DO_MORE: to->i = b > c; return true;
    case DO_AT_LEAST: to->i = b >= c; return true;
    case DO_NOT: to->i = b == 0; return true;
    case DO_ADD_DOUBLE: to->f = x + y; return true;
    case DO_SUB_DOUBLE: to->f = x - y; return true;
    case DO_MUL_DOUBLE: to->f = x * y; return true;
    case DO_DIV_DOUBLE: to->f = x / y; return true;
    case DO_EQUAL_DOUBLE: to->i = x == y; return true;
    case DO_LESS_DOUBLE: to->i = x < y; return true;
    case DO_AT_MOST_DOUBLE: to->i = x <= y; return true;
    case DO_MORE_DOUBLE: to->i = x > y; return true;
    case DO_AT_LEAST_DOUBLE: to->i = x >= y; return true;
    case DO_TO_DOUBLE: to->f = double(b); return true;
    case DO_TO_LONG: to->i = x >= -0x1p63 && x < 0x1p63 ? int64_t(x) : INT64_MIN; return true;
    case DO_ADDRESS: to->p = s + step.b; return true;
    case DO_OFFSET: to->p = (const char*)s[step.b].p + c * step.d; return true;
    case DO_LOAD: load_slot(to, s[step.b].p, c, step.d); return true;
    case DO_STORE: store_slot(s[step.c], (void*)s[step.a].p, b, step.d); return true;
  }
  return false;
}

}  // namespace infuse
