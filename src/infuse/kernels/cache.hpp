// Keys and values of attention that are kept from run to run.
#pragma once
#include "attention.hpp"
#include "copy.hpp"

namespace infuse {

/** Sizes: `past` rows are there, `length` new ones come, `stored` rows leave. */
struct CacheSizes {
  isize batch, heads, past, length, stored, dim;
};

/**
 * valid[b]: how many keys count in batch b, whose last one is last[b], or all new ones where nothing
 * else is stored. False where rows would lie outside of the cache, or behind `most` rows of a mask.
 */
template <class Index, class Total>
inline bool count_keys(const CacheSizes& shape, isize most, const Index* last, Total total,
                       int64_t* valid) {
  for (isize b = 0; b < shape.batch; ++b) {
    isize before = isize(total) == shape.length ? 0 : isize(last[b]) + 1 - shape.length;
    isize count = before + shape.length;
    if (before < 0 || count > shape.stored || count > most) return false;
    valid[b] = count;
  }
  return true;
}

/** The rows of the past, and the new ones as the last that count in their batch; zeros elsewhere. */
inline void store_rows(Context& context, const CacheSizes& shape, const HeadRows& past,
                       const HeadRows& fresh, const int64_t* valid, float* to) {
  isize row = shape.dim * 4, known = shape.past < shape.stored ? shape.past : shape.stored;
  context.parallel(
      shape.batch * shape.heads,
      [&](isize begin, isize end, int) {
        for (isize unit = begin; unit < end; ++unit) {
          isize b = unit / shape.heads, h = unit % shape.heads, first = valid[b] - shape.length;
          float* rows = to + unit * shape.stored * shape.dim;
          auto copy = [&](const HeadRows& from, isize count, float* target) {
            if (from.row == shape.dim) {
              if (count > 0) memcpy(target, from.at(b, h, 0), count * row);
            } else {
              for (isize i = 0; i < count; ++i)
                memcpy(target + i * shape.dim, from.at(b, h, i), row);
            }
          };
          copy(past, known, rows);
          memset(rows + known * shape.dim, 0, (shape.stored - known) * row);
          copy(fresh, shape.length, rows + first * shape.dim);
        }
      },
      1 + COPY_GRAIN / (shape.stored * row + 1));
}

}  // namespace infuse
