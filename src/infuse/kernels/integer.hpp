// Products of 8-bit integers, summed up in 32 bits.
//
// Operands are widened to 16 bits with their zero points taken off. Two neighbours along the sum
// share a 32-bit lane, so that one instruction multiplies and adds pairs.
#pragma once
#include "narrow.hpp"
#include "threads.hpp"
#include "windows.hpp"

namespace infuse {

namespace integer_detail {

constexpr int PANEL = 2 * LANES;                   // columns of a panel
constexpr int ROWS = INFUSE_LANES == 16 ? 12 : 6;  // rows of a tile: its sums fill the registers
constexpr int BLOCK = 4 * ROWS;                    // rows that are widened at once
constexpr long GRAIN = 1 << 16;                    // products that are worth a thread

#if INFUSE_LANES == 16 && defined(__AVX512BW__)
typedef short v_pairs __attribute__((vector_size(64)));
#elif INFUSE_LANES == 8 && defined(__AVX2__)
typedef short v_pairs __attribute__((vector_size(32)));
#elif INFUSE_LANES == 4 && defined(__SSE2__)
typedef short v_pairs __attribute__((vector_size(16)));
#endif

/** Adds both products of each pair of 16-bit integers. */
INFUSE_INLINE vi add_pairs(vi sum, vi a, vi b) {
#if INFUSE_LANES == 16 && defined(__AVX512BW__) && defined(__clang__)
  return sum + (vi)__builtin_ia32_pmaddwd512((v_pairs)a, (v_pairs)b);
#elif INFUSE_LANES == 16 && defined(__AVX512VNNI__)
  return __builtin_ia32_vpdpwssd_v16si(sum, a, b);
#elif INFUSE_LANES == 16 && defined(__AVX512BW__)
  return sum + (vi)__builtin_ia32_pmaddwd512_mask((v_pairs)a, (v_pairs)b, vi{}, (short)-1);
#elif INFUSE_LANES == 8 && defined(__AVX2__)
  return sum + (vi)__builtin_ia32_pmaddwd256((v_pairs)a, (v_pairs)b);
#elif INFUSE_LANES == 4 && defined(__SSE2__)
  return sum + (vi)__builtin_ia32_pmaddwd128((v_pairs)a, (v_pairs)b);
#else
  return sum + (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16);
#endif
}

inline long pairs(long k) { return (k + 1) / 2; }
inline long panels(long n) { return (n + PANEL - 1) / PANEL; }

/** R rows of a, widened, times one panel of b. */
template <int R>
INFUSE_INLINE void tile(long count, const int16_t* a, const int16_t* b, int32_t* y, long step,
                        long columns) {
  vi sum[R][2] = {};
  for (long k = 0; k < count; ++k, b += 2 * PANEL) {
    const vi first = load((const int32_t*)b, Full{}), second = load((const int32_t*)b + LANES, Full{});
    for (int r = 0; r < R; ++r) {
      int32_t pair;
      memcpy(&pair, a + 2 * (r * count + k), sizeof pair);
      const vi wide = splat(pair);
      sum[r][0] = add_pairs(sum[r][0], wide, first);
      sum[r][1] = add_pairs(sum[r][1], wide, second);
    }
  }
  for (int r = 0; r < R; ++r, y += step)
    sweep(0, columns, [&](long c, auto lanes) { store(y + c, sum[r][c / LANES], lanes); });
}

inline void tiles(long rows, long count, const int16_t* a, const int16_t* b, int32_t* y, long step,
                  long columns) {
  long r = 0;
  for (; r + ROWS <= rows; r += ROWS) tile<ROWS>(count, a + 2 * r * count, b, y + r * step, step, columns);
  for (; r + 3 <= rows; r += 3) tile<3>(count, a + 2 * r * count, b, y + r * step, step, columns);
  for (; r < rows; ++r) tile<1>(count, a + 2 * r * count, b, y + r * step, step, columns);
}

/** Elements as 16-bit integers without their zero point. */
template <class T>
INFUSE_INLINE void widen_to(int16_t* to, const T* from, long n, int zero) {
  for (long i = 0; i < n; ++i) to[i] = int16_t(from[i] - zero);
}

/** Rows that `fill(row, to)` widens, k integers each, times b, n columns, to y. */
template <class Fill>
inline void product(Context& c, long m, long n, long k, const Fill& fill, const int16_t* b,
                    int32_t* y, long step) {
  const long count = pairs(k), blocks = (m + BLOCK - 1) / BLOCK, all = panels(n);
  const long enough = 4L * c.threads, wanted = c.threads == 1 ? 1 : (enough + blocks - 1) / blocks;
  const long parts = wanted < all ? wanted : all, share = parts ? (all + parts - 1) / parts : 0;
  const long rows = m < BLOCK ? m : BLOCK;
  const auto run = [&](long begin, long end, int worker) {
    int16_t* a = (int16_t*)c.scratch(worker);
    for (long unit = begin; unit < end; ++unit) {
      const long first = unit / parts * BLOCK, last = first + BLOCK < m ? first + BLOCK : m;
      for (long r = first; r < last; ++r) {
        int16_t* row = a + 2 * (r - first) * count;
        row[2 * count - 1] = 0;
        fill(r, row);
      }
      const long from = unit % parts * share, to = from + share < all ? from + share : all;
      for (long p = from; p < to; ++p) {
        const long left = n - p * PANEL;
        tiles(last - first, count, a, b + p * count * 2 * PANEL, y + first * step + p * PANEL, step,
              left < PANEL ? left : PANEL);
      }
    }
  };
  c.parallel(blocks * parts, run, 1 + GRAIN / (rows * k * n / (parts + 1) + 1));
}

}  // namespace integer_detail

/** Bytes of scratch of a product of m rows of k integers. */
inline long integer_scratch(long m, long k) {
  using namespace integer_detail;
  return (m < BLOCK ? m : BLOCK) * pairs(k) * 4;
}

/** How many 16-bit integers a packed matrix of k rows and n columns has. */
inline long integer_packed(long k, long n) {
  using namespace integer_detail;
  return panels(n) * pairs(k) * 2 * PANEL;
}

/**
 * Packs matrices b, element (i, j) at i · row + j · column, without their zero points (column j of
 * matrix g has zero[(g · shift + j) · step]), one after another: [panel, pair of rows, column, row of the pair].
 */
template <class T>
inline void integer_pack(Context& c, long matrices, long k, long n, long matrix, long row,
                         long column, const T* b, const T* zero, long step, long shift,
                         int16_t* to) {
  using namespace integer_detail;
  const long count = pairs(k), each = panels(n);
  c.parallel(matrices * each, [&](long begin, long end, int) {
    for (long unit = begin; unit < end; ++unit) {
      const T* from = b + unit / each * matrix;
      int16_t* out = to + unit * count * 2 * PANEL;
      const long first = unit % each * PANEL;
      for (long i = 0; i < 2 * count; ++i)
        for (long j = 0; j < PANEL; ++j) {
          const bool inside = i < k && first + j < n;
          const int off = inside && zero ? zero[(unit / each * n + first + j) * step] : 0;
          out[(i / 2 * PANEL + j) * 2 + i % 2] =
              inside ? int16_t(from[i * row + (first + j) * column] - off) : int16_t(0);
        }
    }
  });
}

/** y[m, n] = (a − zero[row · step]) · b: a has rows of k integers, `row` apart; b is packed. */
template <class T>
inline void integer_matmul(Context& c, long m, long n, long k, long row, const T* a, const T* zero,
                           long step, const int16_t* b, int32_t* y) {
  using namespace integer_detail;
  product(c, m, n, k, [&](long r, int16_t* to) { widen_to(to, a + r * row, k, zero ? zero[r * step] : 0); },
          b, y, n);
}

/**
 * Convolution of x − zero [n, in .., c] to y [n, out .., filters]; the filters are packed matrices
 * [taps · c / groups, filters / groups], one for each group. Padding counts as the zero point.
 */
template <class T>
inline void integer_conv(Context& c, const Windows& shape, long filters, long groups, const T* x,
                         const T* zero, const int16_t* w, int32_t* y) {
  using namespace integer_detail;
  using namespace window_detail;
  const long all = outputs(shape), pixels = inputs(shape), count = taps(shape);
  const long depth = shape.c / groups, wide = filters / groups, k = count * depth;
  const int off = zero ? *zero : 0;
  for (long g = 0; g < groups; ++g) {
    const auto fill = [&](long row, int16_t* to) {
      const Place p = place(shape, row % all);
      const T* image = x + row / all * pixels * shape.c + g * depth;
      if (p.inside < count) memset(to, 0, size_t(k) * sizeof *to);
      each_tap(shape, p, [&](long tap, long pixel, long) {
        widen_to(to + tap * depth, image + pixel * shape.c, depth, off);
      });
    };
    product(c, shape.n * all, wide, k, fill, w + g * integer_packed(k, wide), y + g * wide, filters);
  }
}

/** The same for filters of one channel each, w [taps, c] widened without zero points. */
template <class T>
inline void integer_depthwise(Context& c, const Windows& shape, const T* x, const T* zero,
                              const int16_t* w, int32_t* y) {
  using namespace window_detail;
  const long all = outputs(shape), pixels = inputs(shape), count = taps(shape);
  const int off = zero ? *zero : 0;
  c.parallel(
      shape.n * all,
      [&](long begin, long end, int) {
        for (long row = begin; row < end; ++row) {
          const Place p = place(shape, row % all);
          const T* image = x + row / all * pixels * shape.c;
          for (long first = 0; first < shape.c; first += BLOCK) {
            const long block = shape.c - first < BLOCK ? shape.c - first : BLOCK;
            int32_t sum[BLOCK] = {};
            each_tap(shape, p, [&](long tap, long pixel, long) {
              const T* from = image + pixel * shape.c + first;
              const int16_t* weight = w + tap * shape.c + first;
              for (long j = 0; j < block; ++j) sum[j] += (int32_t(from[j]) - off) * weight[j];
            });
            memcpy(y + row * shape.c + first, sum, size_t(block) * sizeof *sum);
          }
        }
      },
      1 + window_detail::GRAIN / (count * shape.c + 1));
}

}  // namespace infuse
