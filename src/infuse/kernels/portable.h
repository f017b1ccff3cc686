// What compilers of C say differently. Tensors of several types lie at one place after another, and sums
// are rounded as they are written.
#pragma once

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#pragma clang diagnostic ignored "-Wunused-function"
#elif defined(__GNUC__)
#pragma GCC optimize("no-strict-aliasing", "fp-contract=off")
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wunused-function"
#endif

#if !defined(__GNUC__) && !defined(__cplusplus)
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#define __attribute__(x)
#define __builtin_inff() INFINITY
#define __builtin_inf() ((double)INFINITY)
#define __builtin_nanf(x) NAN
#define __builtin_nan(x) ((double)NAN)
#define __builtin_floor(x) floor(x)

/** Whether the sum of a and b overflows; else it is in *sum. */
static inline bool overflows_sum(ptrdiff_t a, ptrdiff_t b, ptrdiff_t* sum) {
  if (b > 0 ? a > PTRDIFF_MAX - b : a < PTRDIFF_MIN - b) return true;
  *sum = a + b;
  return false;
}
static inline bool overflows_product(ptrdiff_t a, ptrdiff_t b, ptrdiff_t* product) {
  const ptrdiff_t most = PTRDIFF_MAX, x = a < 0 ? -a : a, y = b < 0 ? -b : b;
  if (x < 0 || y < 0 || (y > 0 && x > most / y)) return true;
  *product = a * b;
  return false;
}
#define __builtin_add_overflow(a, b, r) overflows_sum(a, b, r)
#define __builtin_mul_overflow(a, b, r) overflows_product(a, b, r)
#endif
