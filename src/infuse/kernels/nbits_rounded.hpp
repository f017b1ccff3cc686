// Products with a matrix of 4 or 8 bits, whose left operand is rounded to integers of 8 bits, block
// by block of a row: sums are integers, and scales come in once a block.
#pragma once
#include "half.hpp"
#include "integer_layouts.hpp"
#include "nbits.hpp"

namespace infuse {

/** As NBitsSizes; a code stands for (code − zero) · scale + shift. */
struct RoundedSizes {
  isize m, n, k, block, row, zero;
};

namespace nbits_detail {

#if (INFUSE_LANES == 16 && defined(__AVX512VNNI__)) || (INFUSE_LANES == 8 && defined(__AVXVNNI__)) || \
    defined(INFUSE_SVE) || defined(__ARM_FEATURE_DOTPROD) || defined(__ARM_FEATURE_MATMUL_INT8)
constexpr bool QUADS = true;  // whether an instruction multiplies and adds four bytes of a lane
#else
constexpr bool QUADS = false;  // else pairs of 16 bits
#endif

constexpr isize CHUNK = 128;  // rows that are rounded at a time

/** How the integers of a row lie, to be multiplied with codes of so many bits. */
template <int BITS> struct Rounding {
  static constexpr int UNIT = NBits<BITS>::ROWS;
  static constexpr int EACH = QUADS ? 4 : 2;     // integers of a lane
  static constexpr int PARTS = UNIT / EACH;      // of a word, each a lane of integers

  /** The row of a unit that is integer `e` of piece `p`. */
  static constexpr int row_of(int p, int e) {
    if (QUADS) return EACH * p + e;
    return BITS == 8 ? p + EACH * e : p % 2 * 4 + p / 2 + EACH * e;
  }

  /** The codes of a piece of a word, as they are multiplied. */
  static INFUSE_INLINE vi piece(vi word, int p) {
    if (!QUADS) return word >> (BITS == 8 ? 8 * p : 4 * p) & splat(BITS == 8 ? 0x00ff00ff : 0x000f000f);
    if (BITS == 4) return word >> (4 * p) & splat(0x0f0f0f0f);
    return FLIPPED ? word ^ splat(int32_t(0x80808080)) : word;
  }

  /** Whether codes are multiplied as signed bytes, less 128. */
  static constexpr bool FLIPPED = QUADS && BITS == 8 && integer_detail::SIGNED_BYTES;
  static constexpr int LESS = FLIPPED ? 128 : 0;

  static INFUSE_INLINE vi add(vi sum, vi codes, vi x) {
    return QUADS ? integer_detail::add_quads(sum, codes, x) : integer_detail::add_pairs(sum, codes, x);
  }
};

/** Rows whose integers stand for integer · steps[block]; sums[block] of the integers. */
struct RoundedRows {
  int32_t* lanes;  // [unit, row, piece]
  float* steps;    // [block, row]
  int32_t* sums;   // [block, row]
};

/**
 * Row r of `width` rows of `all` elements. A block that is not finite gets the step NaN, and the
 * integers 0.
 */
template <int BITS>
inline void round_row(const float* x, isize k, isize all, isize block, isize r, isize width, RoundedRows to) {
  using R = Rounding<BITS>;
  typedef int8_t vb __attribute__((vector_size(LANES)));
  const vf shift = splat(12582912.0f);  // of a float whose last bit is 1 and whose sign does not matter
  alignas(64) int8_t part[256 + LANES];
  for (isize i = 0, b = r; i < all; i += block, b += width) {
    vf most = {};
    sweep(i, min(i + block, max(i, k)), [&](isize j, auto lanes) {
      const vf part = load(x + j, lanes);
      most = max(most, max(part, -part));
    });
    const float largest = hmax(most);
    const bool finite = largest <= 3.402823466e38f;
    const float inverse = finite && largest > 1e-36f ? 127 / largest : 0;
    int32_t total = 0;
    for (isize from = i; from < i + block; from += 256) {
      const isize count = min(isize(256), i + block - from);
      memset(part, 0, sizeof part);
      vi sum = {};
      if (inverse != 0)
        sweep(from, min(from + count, max(from, k)), [&](isize j, auto lanes) {
          const vi integers = (vi)(load(x + j, lanes) * inverse + shift) - (vi)shift;
          const vb bytes = __builtin_convertvector(integers, vb);
          memcpy(part + (j - from), &bytes, size_t(infuse::count(lanes)));
          sum += integers;
        });
      total += hsum(sum);
      for (isize j = 0; j < count; j += R::UNIT) {
        int32_t* lanes = to.lanes + ((from + j) / R::UNIT * width + r) * R::PARTS;
        if constexpr (QUADS) {
          memcpy(lanes, part + j, R::UNIT);
        } else {
          for (int p = 0; p < R::PARTS; ++p)
            lanes[p] = int32_t(uint16_t(part[j + R::row_of(p, 0)]) |
                               uint32_t(uint16_t(part[j + R::row_of(p, 1)])) << 16);
        }
      }
    }
    to.sums[b] = total;
    to.steps[b] = finite ? largest / 127 : as_float(0x7fc00000);
  }
}

/** R rounded rows times one panel. */
template <int BITS, class Step, int STEPS, int R>
INFUSE_NOINLINE void rounded(RoundedRows x, isize blocks, isize units, int32_t zero, const int32_t* w,
                             const Step* steps, float* out) {
  using L = Rounding<BITS>;
  constexpr bool HELD = R <= 4;  // whether all sums stay in registers
  vf held[HELD ? R : 1][2] = {};
  for (int i = 0; !HELD && i < R * NR; i += LANES) store(out + i, vf{}, Full{});
#pragma GCC unroll 1
  for (isize block = 0; block < blocks; ++block, steps += STEPS * NR, x.steps += R, x.sums += R) {
    vi sum[R][2];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
      sum[r][0] = sum[r][1] = splat(int32_t((L::LESS - zero) * x.sums[r]));
#pragma GCC unroll 1
    for (isize unit = 0; unit < units; ++unit, w += NR, x.lanes += R * L::PARTS) {
      prefetch(w + 32 * NR);
      prefetch(w + 32 * NR + LANES);
      const vi word[2] = {load(w, Full{}), load(w + LANES, Full{})};
#pragma GCC unroll 4
      for (int p = 0; p < L::PARTS; ++p) {
        const vi codes[2] = {L::piece(word[0], p), L::piece(word[1], p)};
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const vi lane = splat(x.lanes[r * L::PARTS + p]);
          sum[r][0] = L::add(sum[r][0], codes[0], lane);
          sum[r][1] = L::add(sum[r][1], codes[1], lane);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        float* total = out + r * NR + v * LANES;
        vf all = to_float(sum[r][v]) * load(steps + v * LANES, Full{});
        if constexpr (STEPS == 2)
          all = fma(splat(float(x.sums[r])), load(steps + NR + v * LANES, Full{}), all);
        const vf step = splat(x.steps[r]);
        if constexpr (HELD)
          held[r][v] = fma(all, step, held[r][v]);
        else
          store(total, fma(all, step, load(total, Full{})), Full{});
      }
  }
  if constexpr (HELD)
    for (int i = 0; i < R * 2; ++i) store(out + i * LANES, held[i / 2][i % 2], Full{});
}

template <int BITS, class Step, int STEPS>
INFUSE_INLINE void rounded_of(int rows, RoundedRows x, isize blocks, isize units, int32_t zero,
                              const int32_t* w, const Step* steps, float* out) {
  if (rows == 1) rounded<BITS, Step, STEPS, 1>(x, blocks, units, zero, w, steps, out);
  if (rows == 2) rounded<BITS, Step, STEPS, 2>(x, blocks, units, zero, w, steps, out);
  if (rows == 4) rounded<BITS, Step, STEPS, 4>(x, blocks, units, zero, w, steps, out);
  if constexpr (FEW == 8) {
    if (rows == 6) rounded<BITS, Step, STEPS, 6>(x, blocks, units, zero, w, steps, out);
    if (rows == 8) rounded<BITS, Step, STEPS, 8>(x, blocks, units, zero, w, steps, out);
  }
}

inline isize rounded_rows(const RoundedSizes& s) {
  return detail::ceil_div(min(s.m, CHUNK), isize(FEW)) * FEW;
}

}  // namespace nbits_detail

/** Bytes of scratch of a product. */
inline isize nbits_rounded_scratch(const RoundedSizes& s) {
  using namespace nbits_detail;
  const isize all = padded(s), lanes = all / Rounding<8>::EACH;
  return rounded_rows(s) * (lanes + 2 * (all / s.block)) * isize(sizeof(float));
}

/**
 * As nbits_matmul<BITS, STEPS> with codes that are counted from `zero`, each block of a row of `a`
 * rounded to whole multiples, up to 127, of its largest magnitude / 127.
 */
template <int BITS, class Step, int STEPS, class Sink>
inline void nbits_rounded(Context& c, const RoundedSizes& s, const float* a, const int32_t* w,
                          const Step* steps, const Sink& sink) {
  using namespace nbits_detail;
  if (s.m <= 0) return;
  const isize panels = detail::ceil_div(s.n, NR), words = panel_size<BITS>(s), all = padded(s);
  const isize blocks = all / s.block, step_size = blocks * STEPS * NR;
  const isize units = s.block / Rounding<BITS>::UNIT;
  const isize lanes = all / Rounding<BITS>::EACH, most = rounded_rows(s);
  detail::gemm_parallel(c, s.m, panels, s.k / 4 + 1, [&](isize m0, isize m1, isize p0, isize p1, int worker) {
    int32_t* scratch = (int32_t*)c.scratch(worker);
    const RoundedRows rows = {scratch, (float*)scratch + most * lanes, scratch + most * (lanes + blocks)};
    const auto from = [&](isize i) {
      return RoundedRows{rows.lanes + i * lanes, rows.steps + i * blocks, rows.sums + i * blocks};
    };
    alignas(64) float out[FEW * NR];
    for (isize start = m0, end; start < m1; start = end) {
      end = min(start + CHUNK, m1);
      for (isize row = start; row < end; row += FEW) {
        const isize width = together(min(end - row, isize(FEW)));
        for (isize r = 0; r < width; ++r)
          round_row<BITS>(a + (row + r) * s.row, row + r < end ? s.k : 0, all, s.block, r, width,
                          from(row - start));
      }
      for (isize p = p0; p < p1; ++p)
        for (isize row = start, count; row < end; row += count) {
          count = min(end - row, isize(FEW));
          rounded_of<BITS, Step, STEPS>(together(count), from(row - start), blocks, units,
                                        int32_t(s.zero), w + p * words, steps + p * step_size, out);
          detail::drain(out, count, row, p * NR, s.n, sink);
        }
    }
  });
}

}  // namespace infuse
