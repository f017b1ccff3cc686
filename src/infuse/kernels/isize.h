// Whole numbers that are as wide as addresses, in C and in C++.
#pragma once
#include <stddef.h>
#include <stdint.h>

/** Sizes, indices and offsets: `long` has 32 bits on 64-bit Windows. */
typedef ptrdiff_t isize;
typedef size_t usize;

/** `MOST_BYTES`: no tensor has so many; what does comes of sizes that overflow. `isize_wide` holds sums
 * and products of two. */
#if PTRDIFF_MAX > INT32_MAX
#define MOST_BYTES ((isize)1 << 46)
typedef __int128 isize_wide;
#else
#define MOST_BYTES ((isize)1 << 30)
typedef int64_t isize_wide;
#endif

/** An integer of a tensor as a size or an index; the nearest where it is wider than addresses. */
static inline isize as_size(int64_t x) {
  return x > PTRDIFF_MAX ? PTRDIFF_MAX : x < PTRDIFF_MIN ? PTRDIFF_MIN : (isize)x;
}
