// Products with a matrix of 2, 3, 4 or 8 bits, whose rows share scales block by block.
#pragma once
#include "matmul.hpp"

namespace infuse {

/**
 * a [m, k] times a matrix [k, n] of codes: one of a block of rows stands for
 * (code − 2^(bits − 1)) · scale + shift of that block and column. k may end inside the last block.
 *
 * Codes lie in panels of NR columns, and in a panel in units of rows, [panel, unit, word, column]:
 * a word has some rows of its column (NBits). `steps` [panel, block, 1 or 2, column] has the scales
 * of a block and, where there are two, the shifts behind them.
 */
struct NBitsSizes {
  long m, n, k, block, row;  // row: elements from one row of a to the next
};

/** How the codes of a column lie in its words. */
template <int BITS> struct NBits {
  static_assert(BITS == 2 || BITS == 3 || BITS == 4 || BITS == 8, "codes that words are filled with");
  static constexpr int WORDS = BITS == 3 ? 3 : 1;        // of a unit
  static constexpr int ROWS = WORDS * 32 / BITS;         // of a unit
  static constexpr int CODES = 32 / BITS;                // that lie in one word, bits side by side
  static constexpr int MANTISSA = 23;
  static constexpr int DIRECT = MANTISSA / BITS * BITS;  // bits that are numbers where they lie
  static constexpr int MOVED = (32 - DIRECT + BITS - 1) / BITS * BITS;  // how far others move

  /** The row of a unit whose code is number `i` of a word: bytes have rows side by side. */
  static constexpr int row(int word, int i) {
    return BITS == 3 ? word * CODES + i : i % (8 / BITS) * 4 + i / (8 / BITS);
  }
};

namespace nbits_detail {

constexpr int FEW = 4;           // rows that are multiplied by codes as these are decoded
constexpr long GRAIN = 1 << 16;  // products that are worth a thread

inline long padded(const NBitsSizes& s) { return (s.k + s.block - 1) / s.block * s.block; }

/** Words of a panel. */
template <int BITS>
inline long panel_size(const NBitsSizes& s) {
  return padded(s) / NBits<BITS>::ROWS * NBits<BITS>::WORDS * NR;
}

/**
 * The number, less half of all there are, whose bits begin at `from`: put into the mantissa of a
 * float whose last bits they are, then that float is taken off. Exact.
 */
template <int BITS>
INFUSE_INLINE vf number_at(vi word, int from) {
  constexpr int lead = NBits<BITS>::MANTISSA;
  const int32_t mask = ((1 << BITS) - 1) << from, start = (127 + lead - from) << lead;
  const vf held = as_float((word & splat(mask)) | splat(start));
  return held - splat(float(1 << (lead - from)) + float(1 << (BITS - 1)));
}

/** Calls use(row, number) for each row of a unit, whose words are NR apart. */
template <int BITS, class Use>
INFUSE_INLINE void each_row(const int32_t* w, const Use& use) {
  using L = NBits<BITS>;
  vi spare[L::WORDS];
#pragma GCC unroll 3
  for (int word = 0; word < L::WORDS; ++word) {
    const vi codes = load(w + word * NR, Full{}), moved = (vi)((vu)codes >> L::MOVED);
    spare[word] = codes;
#pragma GCC unroll 16
    for (int i = 0; i < L::CODES; ++i) {
      const int from = i * BITS;
      const bool direct = from < L::DIRECT;
      use(L::row(word, i), number_at<BITS>(direct ? codes : moved, direct ? from : from - L::MOVED));
    }
  }
  if constexpr (BITS == 3) {  // two bits of each word are left, which hold two codes
    const vi a = (vi)((vu)spare[0] >> 30), b = (vi)((vu)spare[1] >> 30), c = (vi)((vu)spare[2] >> 30);
    use(30, number_at<BITS>(a | b << 2, 0));
    use(31, number_at<BITS>((vi)((vu)b >> 1) | c << 1, 0));
  }
}

/** R rows, `pitch` apart, times one panel. sums[r][blocks]: of the elements of each block. */
template <int BITS, int STEPS, int R>
INFUSE_NOINLINE void few(const float* a, long pitch, const float* sums, const NBitsSizes& s,
                         const int32_t* w, const float* steps, float* out) {
  using L = NBits<BITS>;
  constexpr int U = R == 1 ? 2 : 1;  // sums that are independent, beside those of columns and rows
  const long blocks = padded(s) / s.block, units = s.block / L::ROWS;
  vf total[R][2] = {};
#pragma GCC unroll 1
  for (long block = 0; block < blocks; ++block, steps += STEPS * NR) {
    vf part[U][R][2] = {};
#pragma GCC unroll 1
    for (long unit = 0; unit < units; ++unit, w += L::WORDS * NR, a += L::ROWS) {
      prefetch(w + 16 * NR);
      prefetch(w + 16 * NR + LANES);
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v)
        each_row<BITS>(w + v * LANES, [&](int row, vf number) __attribute__((always_inline)) {
#pragma GCC unroll 4
          for (int r = 0; r < R; ++r)
            part[row % U][r][v] = fma(splat(a[r * pitch + row]), number, part[row % U][r][v]);
        });
    }
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v)
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const vf all = U == 2 ? part[0][r][v] + part[U - 1][r][v] : part[0][r][v];
        total[r][v] = fma(all, load(steps + v * LANES, Full{}), total[r][v]);
        if constexpr (STEPS == 2)
          total[r][v] = fma(splat(sums[r * blocks + block]), load(steps + NR + v * LANES, Full{}),
                            total[r][v]);
      }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < 2; ++v) store(out + r * NR + v * LANES, total[r][v], Full{});
}

/** One panel in floats [k, NR]. */
template <int BITS, int STEPS>
INFUSE_NOINLINE void decode(const NBitsSizes& s, const int32_t* w, const float* steps, float* to) {
  using L = NBits<BITS>;
  const long all = padded(s);
#pragma GCC unroll 1
  for (long k = 0; k < all; k += s.block, steps += STEPS * NR)
#pragma GCC unroll 1
    for (long unit = 0; unit < s.block; unit += L::ROWS, w += L::WORDS * NR, to += L::ROWS * NR)
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        const vf scale = load(steps + v * LANES, Full{});
        const vf shift = STEPS == 2 ? load(steps + (STEPS - 1) * NR + v * LANES, Full{}) : vf{};
        each_row<BITS>(w + v * LANES, [&](int row, vf number) __attribute__((always_inline)) {
          store(to + row * NR + v * LANES, fma(number, scale, shift), Full{});
        });
      }
}

/** Rows [0, count) of a as they are multiplied, and the sums of their blocks. */
inline void arrange(const NBitsSizes& s, const float* a, long count, float* rows, float* sums) {
  const long all = padded(s);
  for (long r = 0; r < count; ++r, a += s.row, rows += all) {
    sweep(0, s.k, [&](long k, auto lanes) { store(rows + k, load(a + k, lanes), lanes); });
    for (long k = s.k; k < all; ++k) rows[k] = 0;
    for (long k = 0; k < all; k += s.block) {
      vf sum = {};
      sweep(0, s.block, [&](long i, auto lanes) { sum += load(rows + k + i, lanes); });
      *sums++ = hsum(sum);
    }
  }
}

template <int BITS, int STEPS>
INFUSE_INLINE void few_of(long count, const float* a, const float* sums, const NBitsSizes& s,
                          const int32_t* w, const float* steps, float* out) {
  const long pitch = padded(s);
  if (count == 1) few<BITS, STEPS, 1>(a, pitch, sums, s, w, steps, out);
  if (count == 2) few<BITS, STEPS, 2>(a, pitch, sums, s, w, steps, out);
  if (count == 3) few<BITS, STEPS, 3>(a, pitch, sums, s, w, steps, out);
  if (count == 4) few<BITS, STEPS, 4>(a, pitch, sums, s, w, steps, out);
}

constexpr long copied_rows(long k) { return 2 * MR * detail::gemm_pitch(k); }

}  // namespace nbits_detail

/** Bytes of scratch of a product. */
inline long nbits_scratch(const NBitsSizes& s) {
  using namespace nbits_detail;
  const long all = padded(s), few = FEW * (all + all / s.block), many = all * NR + copied_rows(s.k);
  return max(few, s.m > FEW ? many : 0L) * long(sizeof(float));
}

template <int BITS, int STEPS, class Sink>
inline void nbits_matmul(Context& c, const NBitsSizes& s, const float* a, const int32_t* w,
                         const float* steps, const Sink& sink) {
  using namespace nbits_detail;
  if (s.m <= 0) return;
  const long panels = detail::ceil_div(s.n, NR), words = panel_size<BITS>(s);
  const long all = padded(s), step_size = all / s.block * STEPS * NR;
  if (s.m <= FEW) {
    const auto run = [&](long begin, long end, int worker) {
      float* rows = (float*)c.scratch(worker);
      float* sums = rows + s.m * all;
      alignas(64) float out[FEW * NR];
      arrange(s, a, s.m, rows, sums);
      for (long p = begin; p < end; ++p) {
        few_of<BITS, STEPS>(s.m, rows, sums, s, w + p * words, steps + p * step_size, out);
        detail::drain(out, s.m, 0, p * NR, s.n, sink);
      }
    };
    return c.parallel(panels, run, 1 + GRAIN / (s.m * s.k * NR + 1));
  }
  const bool copies = detail::collides(s.row, s.k);
  const long pitch = detail::gemm_pitch(s.k);
  const GemmSizes sizes = {s.m, s.n, s.k, copies ? pitch : s.row};
  detail::gemm_parallel(c, s.m, panels, s.k, [&](long m0, long m1, long p0, long p1, int worker) {
    float* panel = (float*)c.scratch(worker);
    float* rows = panel + all * NR;
    for (long p = p0; p < p1; ++p) {
      decode<BITS, STEPS>(s, w + p * words, steps + p * step_size, panel);
      for (long row = m0, next; row < m1; row = next) {
        next = copies ? detail::chunk_end(row, m1, MR) : m1;
        const float* from = a + row * s.row;
        if (copies) detail::copy_matrix(rows, pitch, from, s.row, 1, next - row, s.k);
        const float* base = copies ? rows - row * pitch : a;
        detail::gemm_rows(sizes, base, panel, row, next, p * NR, sink);
      }
    }
  });
}

}  // namespace infuse
