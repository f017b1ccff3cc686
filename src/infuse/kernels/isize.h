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
#if defined(__SIZEOF_INT128__)
__extension__ typedef __int128 isize_wide;
#else
typedef int64_t isize_wide;  // which holds sums of sizes that `as_size` has cut
#endif
#else
#define MOST_BYTES ((isize)1 << 30)
typedef int64_t isize_wide;
#endif

/** An integer of a tensor as a size or an index; the nearest where it is wider than addresses. */
static inline isize as_size(int64_t x) {
#if PTRDIFF_MAX > INT32_MAX && !defined(__SIZEOF_INT128__)
  return x > PTRDIFF_MAX / 4 ? PTRDIFF_MAX / 4 : x < -PTRDIFF_MAX / 4 ? -PTRDIFF_MAX / 4 : (isize)x;
#endif
  return x > PTRDIFF_MAX ? PTRDIFF_MAX : x < PTRDIFF_MIN ? PTRDIFF_MIN : (isize)x;
}
