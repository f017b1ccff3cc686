// Whole numbers as generated code computes sizes with them, in C and in C++.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "isize.h"

#ifdef __cplusplus
namespace infuse {
#endif

/** The quotient rounded down; 0 for a divisor of 0. */
static inline isize floor_div(isize a, isize b) {
  if (b == 0) return 0;
  const isize q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
static inline isize floor_mod(isize a, isize b) { return a - floor_div(a, b) * b; }
static inline isize max_long(isize a, isize b) { return a > b ? a : b; }
static inline isize min_long(isize a, isize b) { return a < b ? a : b; }

/** The size of an axis along which operands of sizes a and b are combined. */
static inline isize broadcast_size(isize a, isize b) { return a == 1 ? b : a; }

/** Whether they can be: equal, or one of them 1. */
static inline bool do_broadcast(isize a, isize b) { return a == b || a == 1 || b == 1; }

/** The same as estimates of what does not fit into a long. */
static inline double estimated_div(double a, double b) { return b == 0 ? 0 : __builtin_floor(a / b); }
static inline double estimated_mod(double a, double b) { return a - estimated_div(a, b) * b; }
static inline double estimated_max(double a, double b) { return a > b ? a : b; }
static inline double estimated_min(double a, double b) { return a < b ? a : b; }
static inline double estimated_broadcast(double a, double b) { return a == 1 ? b : a; }

/** Bytes that no tensor reaches: what is larger comes of sizes that overflow. */
#define TOO_LARGE ((double)MOST_BYTES)

#ifdef __cplusplus
}  // namespace infuse
#endif
