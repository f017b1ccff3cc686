// Sizes and conditions of a program, for the symbols of a run.
#pragma once
#include "program_file.hpp"
#include "whole.h"

namespace infuse {

/** A size or a condition for these symbols. */
inline isize evaluated(const Term& term, const isize* d) {
  isize stack[MOST_DEPTH + 1];
  isize* top = stack;
  for (int i = 0; i < term.length; ++i) {
    const int64_t kind = term.code[i];
    if (kind == CONST) {
      *top++ = isize(term.code[++i]);
      continue;
    }
    if (kind == SYMBOL) {
      *top++ = d[term.code[++i]];
      continue;
    }
    const isize b = *--top, a = *--top;
    isize c = 0;
    switch (kind) {
      case ADD: c = isize((usize)a + (usize)b); break;
      case MUL: c = isize((usize)a * (usize)b); break;
      case DIV: c = b == -1 ? isize(0 - (usize)a) : floor_div(a, b); break;
      case MOD: c = b == -1 ? 0 : floor_mod(a, b); break;
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
inline double estimated(const Term& term, const isize* d) {
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

}  // namespace infuse
