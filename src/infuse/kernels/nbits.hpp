// Products with a matrix of 4 or 8 bits, whose rows share scales block by block.
#pragma once
#include "narrow.hpp"
#include "threads.hpp"

namespace infuse {

/**
 * a [m, k] times the transpose of w [n, blocks, block elements]: element i of a block stands for
 * code · scale + shift, with scale and shift [n, blocks]. Lower bits come first; k may end inside
 * the last block.
 */
struct NBitsSizes {
  long m, n, k, block, row;  // row: elements from one row of a to the next
};

namespace nbits_detail {

constexpr int ROWS = INFUSE_LANES == 4 ? 4 : 8;  // rows that share a decoded vector
constexpr long GRAIN = 1 << 16;                  // products that are worth a thread

inline long padded(const NBitsSizes& s) { return (s.k + s.block - 1) / s.block * s.block; }

/** A row of a as the codes lie: with 4 bits, of every two vectors first the even elements. */
template <int BITS>
inline void arrange(float* to, const float* from, long k, long all) {
  constexpr long chunk = BITS == 4 ? 2 * LANES : LANES;
  for (long i = 0; i < all; i += chunk)
    for (long j = 0; j < chunk; ++j) {
      const long at = i + (BITS == 4 ? j % LANES * 2 + j / LANES : j);
      to[i + j] = at < k ? from[at] : 0.0f;
    }
}

/** R rows times C columns, whose codes are `bytes` and whose scales `blocks` apart. */
template <int BITS, int R, int C>
INFUSE_INLINE void dots(const float* a, const NBitsSizes& s, const uint8_t* w, const float* scale,
                        const float* shift, float* out) {
  const long all = padded(s), blocks = all / s.block, bytes = all * BITS / 8;
  vf sum[C][R] = {};
  for (long i = 0; i < all; i += s.block, ++scale, ++shift) {
    for (long j = i; j < i + s.block; j += LANES * 8 / BITS, w += LANES)
      for (int c = 0; c < C; ++c) {
        const vi codes = load_wide(w + c * bytes, Full{});
        const vf factor = splat(scale[c * blocks]), offset = splat(shift[c * blocks]);
        const auto add = [&](vi code, const float* x) __attribute__((always_inline)) {
          const vf weight = fma(to_float(code), factor, offset);
          for (int r = 0; r < R; ++r) sum[c][r] = fma(weight, load(x + r * all, Full{}), sum[c][r]);
        };
        add(BITS == 8 ? codes : codes & 15, a + j);
        if (BITS == 4) add(codes >> 4, a + j + LANES);
      }
  }
  for (int c = 0; c < C; ++c)
    for (int r = 0; r < R; ++r) out[r * LANES + c] = hsum(sum[c][r]);
}

/** R rows times a group of columns. */
template <int BITS, int R>
INFUSE_INLINE void group(const float* a, const NBitsSizes& s, long columns, const uint8_t* w,
                         const float* scale, const float* shift, float* out) {
  // Enough sums to hide the time of an addition, no more than the registers hold.
  constexpr int C = R == 1 ? 4 : INFUSE_LANES == 16 ? 2 : 1;
  const long all = padded(s), blocks = all / s.block, bytes = all * BITS / 8;
  long j = 0;
  for (; j + C <= columns; j += C)
    dots<BITS, R, C>(a, s, w + j * bytes, scale + j * blocks, shift + j * blocks, out + j);
  for (; j < columns; ++j)
    dots<BITS, R, 1>(a, s, w + j * bytes, scale + j * blocks, shift + j * blocks, out + j);
}

}  // namespace nbits_detail

/** Bytes of scratch of a product. */
inline long nbits_scratch(const NBitsSizes& s) {
  using namespace nbits_detail;
  return (ROWS * padded(s) + ROWS * LANES) * long(sizeof(float));
}

template <int BITS, class Sink>
inline void nbits_matmul(Context& c, const NBitsSizes& s, const float* a, const uint8_t* w,
                         const float* scale, const float* shift, const Sink& sink) {
  using namespace nbits_detail;
  const long all = padded(s), blocks = all / s.block, bytes = all * BITS / 8;
  const long groups = (s.n + LANES - 1) / LANES;
  const auto run = [&](long begin, long end, int worker) {
    float* rows = (float*)c.scratch(worker);
    float* found = rows + ROWS * all;
    for (long first = 0; first < s.m; first += ROWS) {
      const long count = s.m - first < ROWS ? s.m - first : ROWS;
      for (long r = 0; r < count; ++r)
        arrange<BITS>(rows + r * all, a + (first + r) * s.row, s.k, all);
      for (long unit = begin; unit < end; ++unit) {
        const long start = unit * LANES, columns = s.n - start < LANES ? s.n - start : LANES;
        const uint8_t* codes = w + start * bytes;
        const float *f = scale + start * blocks, *o = shift + start * blocks;
        if (count == ROWS)
          group<BITS, ROWS>(rows, s, columns, codes, f, o, found);
        else
          for (long r = 0; r < count; ++r)
            group<BITS, 1>(rows + r * all, s, columns, codes, f, o, found + r * LANES);
        for (long r = 0; r < count; ++r) {
          if (columns == LANES)
            sink(load(found + r * LANES, Full{}), first + r, start, Full{});
          else
            sink(load(found + r * LANES, Tail{int(columns)}), first + r, start, Tail{int(columns)});
        }
      }
    }
  };
  c.parallel(groups, run, 1 + GRAIN / (s.m * s.k * LANES + 1));
}

}  // namespace infuse
