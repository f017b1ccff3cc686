// Elements found in sorted lists: label encoders and counts of n-grams.
#pragma once
#include "simd.hpp"
#include "threads.hpp"

namespace infuse {

/** The place of x among `count` ascending keys, NaN after all others; -1 when it is none of them. */
template <class K>
INFUSE_INLINE isize find_key(const K* keys, isize count, K x) {
  if (count == 0) return -1;
  isize low = 0;
  for (isize size = count; size > 1;) {
    const isize half = size / 2;
    const K key = keys[low + half];
    low += (key <= x) | (x != x) ? half : 0;
    size -= half;
  }
  const K key = keys[low];
  return key == x || ((x != x) & (key != key)) ? low : -1;
}

/** y = the value beside x in a list of ascending keys, or `otherwise`; values are only moved. */
template <class K, class V>
inline void lookup(Context& context, isize n, const K* x, const K* keys, isize count, const V* values,
                   const V* otherwise, V* y) {
  context.parallel(
      n,
      [&](isize begin, isize end, int) {
        for (isize i = begin; i < end; ++i) {
          const isize at = find_key(keys, count, x[i]);
          y[i] = at < 0 ? *otherwise : values[at];
        }
      },
      4096);
}

/** Whether every element is one of the ascending keys. */
template <class K>
inline bool all_known(isize n, const K* x, const K* keys, isize count) {
  bool known = true;
  for (isize i = 0; i < n; ++i) known &= find_key(keys, count, x[i]) >= 0;
  return known;
}

/**
 * A tree of n-grams: node i continues with the ascending tokens[starts[i], starts[i + 1]), each leading to the node
 * children[...]; it ends the n-gram of column columns[i], none where that is negative.
 */
template <class K>
struct Ngrams {
  const int32_t* starts;
  const K* tokens;
  const int32_t* children;
  const int32_t* columns;
  isize least, most, skips;
};

/** Counts in y[rows, columns] the n-grams of each row of `size` tokens, with up to `skips` left out between two. */
template <class K>
inline void count_ngrams(Context& context, const Ngrams<K>& grams, isize rows, isize size,
                         isize columns, const K* x, float* y) {
  context.parallel(
      rows,
      [&](isize begin, isize end, int) {
        for (isize row = begin; row < end; ++row) {
          const K* tokens = x + row * size;
          float* counts = y + row * columns;
          for (isize i = 0; i < columns; ++i) counts[i] = 0;
          isize least = grams.least;
          for (isize stride = 1; stride <= grams.skips + 1 && least <= grams.most; ++stride) {
            for (isize first = 0; first + stride * (least - 1) < size; ++first) {
              int32_t node = 0;
              isize length = 1;
              for (isize at = first; at < size && length <= grams.most; at += stride, ++length) {
                const int32_t start = grams.starts[node];
                const isize place =
                    find_key(grams.tokens + start, grams.starts[node + 1] - start, tokens[at]);
                if (place < 0) break;
                node = grams.children[start + place];
                const int32_t column = grams.columns[node];
                if (length >= least && column >= 0) counts[column] += 1;
              }
            }
            // Single tokens have nothing left out between them, and are counted once.
            if (least == 1) least = 2;
          }
        }
      },
      1 + 2048 / (size + columns + 1));
}

}  // namespace infuse
