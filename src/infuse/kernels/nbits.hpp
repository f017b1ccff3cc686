// Products with a matrix of 2, 3, 4 or 8 bits, whose rows share scales block by block; codes of 8
// bits may be floats.
#pragma once
#include "matmul.hpp"

namespace infuse {

/**
 * a [m, k] times a matrix [k, n] of codes: one of a block of rows stands for
 * (code − 2^(bits − 1)) · scale + shift of that block and column, or for itself as a float that is
 * scaled. k may end inside the last block.
 *
 * Codes lie in panels of NR columns, and in a panel in units of rows, [panel, unit, word, column]:
 * a word has some rows of its column (NBits). `steps` [panel, block, 1 or 2, column] has the scales
 * of a block and, where there are two, the shifts behind them.
 */
struct NBitsSizes {
  isize m, n, k, block, row;  // row: elements from one row of a to the next
};

/** Kinds of codes that are floats of 8 bits; all of them are finite. */
enum { FLOAT8_E4M3FN = 43, FLOAT8_E5M2 = 52 };

/** How the codes of a column lie in its words. KIND: bits of integers, or floats. */
template <int KIND> struct NBits {
  static constexpr bool FLOATS = KIND == FLOAT8_E4M3FN || KIND == FLOAT8_E5M2;
  static constexpr int BITS = FLOATS ? 8 : KIND;
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

constexpr int FEW = INFUSE_LANES == 16 ? 8 : 4;  // rows that share a code as it is decoded
constexpr isize PASSES = 2;  // groups of so many rows at most; a panel is decoded at once for more
constexpr isize GRAIN = 1 << 16;  // products that are worth a thread

template <class Sizes>
inline isize padded(const Sizes& s) { return (s.k + s.block - 1) / s.block * s.block; }

/** Words of a panel. */
template <int KIND, class Sizes>
inline isize panel_size(const Sizes& s) {
  return padded(s) / NBits<KIND>::ROWS * NBits<KIND>::WORDS * NR;
}

/**
 * The float whose bits begin at `from`: its exponent and mantissa where a float has them, and a factor
 * for the bias. The factor makes normal numbers of subnormal ones, which operands may be.
 */
template <int KIND>
INFUSE_INLINE vf float_at(vi word, int from) {
  constexpr int mantissa = KIND == FLOAT8_E4M3FN ? 3 : 2, bias = KIND == FLOAT8_E4M3FN ? 7 : 15;
  constexpr int lead = NBits<KIND>::MANTISSA - mantissa;
  const vi rest = word << (lead - from) & splat(int32_t(0x7f << lead));
  const vi sign = word << (24 - from) & splat(INT32_MIN);
  return as_float(rest | sign) * splat(as_float(int32_t((254 - bias) << 23)));
}

/**
 * The number, less half of all there are, whose bits begin at `from`: put into the mantissa of a
 * float whose last bits they are, then that float is taken off. Exact.
 */
template <int BITS>
INFUSE_INLINE vf number_at(vi word, int from) {
  constexpr int lead = NBits<BITS>::MANTISSA;
  const int32_t mask = ((1 << BITS) - 1) << from, start = (127 + lead - from) << lead;
  const vf whole = as_float((word & splat(mask)) | splat(start));
  return whole - splat(float(1 << (lead - from)) + float(1 << (BITS - 1)));
}

/** The numbers of one row of a panel. */
struct PanelRow {
  vf half[2];
};

template <int KIND>
INFUSE_INLINE PanelRow numbers_at(const vi (&word)[2], int from) {
  if constexpr (NBits<KIND>::FLOATS)
    return {{float_at<KIND>(word[0], from), float_at<KIND>(word[1], from)}};
  else
    return {{number_at<KIND>(word[0], from), number_at<KIND>(word[1], from)}};
}

/** Calls use(row, numbers) for each row of a unit. */
template <int KIND, class Use>
INFUSE_INLINE void each_row(const int32_t* w, const Use& use) {
  using L = NBits<KIND>;
  constexpr int BITS = L::BITS;
  vi spare[L::WORDS][2];  // what is left of each word
#pragma GCC unroll 3
  for (int word = 0; word < L::WORDS; ++word) {
    vi codes[2], moved[2];
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      codes[v] = load(w + word * NR + v * LANES, Full{});
      moved[v] = (vi)((vu)codes[v] >> L::MOVED);
      spare[word][v] = (vi)((vu)codes[v] >> 30);
    }
#pragma GCC unroll 16
    for (int i = 0; i < L::CODES; ++i) {
      const int from = i * BITS;
      const bool direct = from < L::DIRECT;
      use(L::row(word, i), direct ? numbers_at<KIND>(codes, from) : numbers_at<KIND>(moved, from - L::MOVED));
    }
  }
  if constexpr (BITS == 3) {  // two bits of each word, which hold two codes
    vi first[2], last[2];
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      first[v] = spare[0][v] | spare[1][v] << 2;
      last[v] = (vi)((vu)spare[1][v] >> 1) | spare[2][v] << 1;
    }
    use(30, numbers_at<KIND>(first, 0));
    use(31, numbers_at<KIND>(last, 0));
  }
}

/** R rows a[k][R] times one panel: out[R][NR]. sums[block][R]: of the elements of each block. */
template <int KIND, int STEPS, int R>
INFUSE_NOINLINE void few(const float* a, const float* sums, const NBitsSizes& s,
                         const int32_t* w, const float* steps, float* out) {
  using L = NBits<KIND>;
  constexpr int U = R == 1 ? 2 : 1;  // sums that are independent, beside those of columns and rows
  const isize blocks = padded(s) / s.block, units = s.block / L::ROWS;
  for (int i = 0; i < R * NR; i += LANES) store(out + i, vf{}, Full{});
#pragma GCC unroll 1
  for (isize block = 0; block < blocks; ++block, steps += STEPS * NR, sums += R) {
    vf part[U][R][2] = {};
#pragma GCC unroll 1
    for (isize unit = 0; unit < units; ++unit, w += L::WORDS * NR, a += L::ROWS * R) {
      prefetch(w + 16 * NR);
      prefetch(w + 16 * NR + LANES);
      each_row<KIND>(w, [&](int row, const PanelRow& x) __attribute__((always_inline)) {
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const vf factor = splat(a[row * R + r]);
#pragma GCC unroll 2
          for (int v = 0; v < 2; ++v)
            part[row % U][r][v] = fma(factor, x.half[v], part[row % U][r][v]);
        }
      });
    }
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v)
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        float* total = out + r * NR + v * LANES;
        const vf all = U == 2 ? part[0][r][v] + part[U - 1][r][v] : part[0][r][v];
        vf sum = fma(all, load(steps + v * LANES, Full{}), load(total, Full{}));
        if constexpr (STEPS == 2)
          sum = fma(splat(sums[r]), load(steps + NR + v * LANES, Full{}), sum);
        store(total, sum, Full{});
      }
  }
}

/** One panel in floats [k, NR]. */
template <int KIND, int STEPS>
INFUSE_NOINLINE void decode(const NBitsSizes& s, const int32_t* w, const float* steps, float* to) {
  using L = NBits<KIND>;
  const isize all = padded(s);
#pragma GCC unroll 1
  for (isize k = 0; k < all; k += s.block, steps += STEPS * NR) {
    vf scale[2], shift[2] = {};
    for (int v = 0; v < 2; ++v) {
      scale[v] = load(steps + v * LANES, Full{});
      if (STEPS == 2) shift[v] = load(steps + (STEPS - 1) * NR + v * LANES, Full{});
    }
#pragma GCC unroll 1
    for (isize unit = 0; unit < s.block; unit += L::ROWS, w += L::WORDS * NR, to += L::ROWS * NR)
      each_row<KIND>(w, [&](int row, const PanelRow& x) __attribute__((always_inline)) {
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v)
          store(to + row * NR + v * LANES, fma(x.half[v], scale[v], shift[v]), Full{});
      });
  }
}

/** The rows that are multiplied with the next `count`: those that do not exist are zeros. */
inline int together(isize count) {
  if (FEW == 8 && count > 4) return count > 6 ? 8 : 6;
  return count > 2 ? 4 : count;
}

/** `count` rows of a as rows[k][R] with zeros behind them, R = together(count), and sums[block][R]. */
inline void arrange(const NBitsSizes& s, const float* a, isize count, float* rows, float* sums) {
  const isize all = padded(s), width = together(count);
  for (isize r = 0; r < width; ++r, a += s.row, ++rows, ++sums) {
    const isize k = r < count ? s.k : 0;
    for (isize i = 0; i < k; ++i) rows[i * width] = a[i];
    for (isize i = k; i < all; ++i) rows[i * width] = 0;
    for (isize i = 0, block = 0; i < all; i += s.block, ++block) {
      vf sum = {};
      sweep(i, min(i + s.block, max(i, k)), [&](isize j, auto lanes) { sum += load(a + j, lanes); });
      sums[block * width] = hsum(sum);
    }
  }
}

template <int KIND, int STEPS>
INFUSE_INLINE void few_of(int rows, const float* a, const float* sums, const NBitsSizes& s,
                          const int32_t* w, const float* steps, float* out) {
  if (rows == 1) few<KIND, STEPS, 1>(a, sums, s, w, steps, out);
  if (rows == 2) few<KIND, STEPS, 2>(a, sums, s, w, steps, out);
  if (rows == 4) few<KIND, STEPS, 4>(a, sums, s, w, steps, out);
  if constexpr (FEW == 8) {
    if (rows == 6) few<KIND, STEPS, 6>(a, sums, s, w, steps, out);
    if (rows == 8) few<KIND, STEPS, 8>(a, sums, s, w, steps, out);
  }
}

/** Rows that are copied at a time where they would push each other out of the cache. */
constexpr isize copied_rows(isize k) {
  const isize fits = 2 * INFUSE_BLOCK_BYTES / isize(sizeof(float)) / detail::gemm_pitch(k);
  return max(fits / MR, isize(2)) * MR;
}

constexpr bool copies(const NBitsSizes& s) { return detail::collides(s.row, s.k); }

}  // namespace nbits_detail

/** Bytes of scratch of a product. */
inline isize nbits_scratch(const NBitsSizes& s) {
  using namespace nbits_detail;
  const isize all = padded(s), few = PASSES * FEW * (all + all / s.block);
  const isize rows = copies(s) ? (copied_rows(s.k) + MR) * detail::gemm_pitch(s.k) : 0;
  return max(few, s.m > PASSES * FEW ? all * NR + rows : isize(0)) * isize(sizeof(float));
}

template <int KIND, int STEPS, class Sink>
inline void nbits_matmul(Context& c, const NBitsSizes& s, const float* a, const int32_t* w,
                         const float* steps, const Sink& sink) {
  using namespace nbits_detail;
  if (s.m <= 0) return;
  const isize panels = detail::ceil_div(s.n, NR), words = panel_size<KIND>(s);
  const isize all = padded(s), blocks = all / s.block, step_size = blocks * STEPS * NR;
  if (s.m <= PASSES * FEW) {
    const auto run = [&](isize begin, isize end, int worker) {
      float* rows = (float*)c.scratch(worker);
      float* sums = rows + PASSES * FEW * all;
      alignas(64) float out[FEW * NR];
      for (isize row = 0; row < s.m; row += FEW)
        arrange(s, a + row * s.row, min(s.m - row, isize(FEW)), rows + row * all, sums + row * blocks);
      for (isize p = begin; p < end; ++p)
        for (isize row = 0, count; row < s.m; row += count) {
          count = min(s.m - row, isize(FEW));
          few_of<KIND, STEPS>(together(count), rows + row * all, sums + row * blocks, s,
                              w + p * words, steps + p * step_size, out);
          detail::drain(out, count, row, p * NR, s.n, sink);
        }
    };
    return c.parallel(panels, run, 1 + GRAIN / (s.m * s.k * NR + 1));
  }
  const isize pitch = detail::gemm_pitch(s.k), chunk = copies(s) ? copied_rows(s.k) : s.m;
  const GemmSizes sizes = {s.m, s.n, s.k, copies(s) ? pitch : s.row};
  detail::gemm_parallel(c, s.m, panels, s.k, [&](isize m0, isize m1, isize p0, isize p1, int worker) {
    float* panel = (float*)c.scratch(worker);
    float* rows = panel + all * NR;
    for (isize row = m0, next; row < m1; row = next) {
      next = detail::chunk_end(row, m1, chunk);
      const float* from = a + row * s.row;
      if (copies(s)) detail::copy_matrix(rows, pitch, from, s.row, 1, next - row, s.k);
      const float* base = copies(s) ? rows - row * pitch : a;
      for (isize p = p0; p < p1; ++p) {
        decode<KIND, STEPS>(s, w + p * words, steps + p * step_size, panel);
        detail::gemm_rows(sizes, base, panel, row, next, p * NR, sink);
      }
    }
  });
}

}  // namespace infuse
