// Products with a matrix of 4 bits, whose left operand is rounded to integers of 8 bits, block by
// block of a row: sums are integers, and scales come in once a block.
#pragma once
#include "integer_layouts.hpp"
#include "nbits.hpp"

namespace infuse {

namespace nbits_detail {

#if (INFUSE_LANES == 16 && defined(__AVX512VNNI__)) || (INFUSE_LANES == 8 && defined(__AVXVNNI__)) || \
    defined(INFUSE_SVE) || defined(__ARM_FEATURE_DOTPROD) || defined(__ARM_FEATURE_MATMUL_INT8)
constexpr bool QUADS = true;  // whether an instruction multiplies and adds four bytes of a lane
#else
constexpr bool QUADS = false;  // else pairs of 16 bits
#endif

constexpr int UNIT = NBits<4>::ROWS;
constexpr int PARTS = QUADS ? 2 : 4;  // of a word, each a lane of integers that are multiplied at once
constexpr int EACH = UNIT / PARTS;    // integers of a lane
constexpr isize CHUNK = 128;            // rows that are rounded at a time

/** The row of a unit that is integer `e` of piece `p`. */
constexpr int row_of(int p, int e) { return QUADS ? 4 * p + e : p % 2 * 4 + p / 2 + 2 * e; }

INFUSE_INLINE vi add_piece(vi sum, vi codes, vi x) {
  return QUADS ? integer_detail::add_quads(sum, codes, x) : integer_detail::add_pairs(sum, codes, x);
}

/** A row whose integers stand for integer · steps[block]; sums[block] of the integers. */
struct RoundedRows {
  int32_t* lanes;  // [unit, row, piece]
  float* steps;    // [block, row]
  int32_t* sums;   // [block, row]
};

/**
 * Row r of `width` rows of `all` elements. A block that is not finite gets the step NaN, and the
 * integers 0.
 */
inline void round_row(const float* x, isize k, isize all, isize block, isize r, isize width, RoundedRows to) {
  constexpr float shift = 12582912;  // of a float whose last bit is 1 and whose sign does not matter
  alignas(64) float part[UNIT];
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
    for (isize j = i; j < i + block; j += UNIT) {
      for (int u = 0; u < UNIT; ++u) part[u] = inverse != 0 && j + u < k ? x[j + u] * inverse : 0;
      int32_t* lanes = to.lanes + (j / UNIT * width + r) * PARTS;
      for (int p = 0; p < PARTS; ++p) {
        uint32_t lane = 0;
        for (int e = 0; e < EACH; ++e) {
          const int32_t integer = as_int(part[row_of(p, e)] + shift) - as_int(shift);
          total += integer;
          lane |= (uint32_t(integer) & (QUADS ? 255u : 65535u)) << (e * (32 / EACH));
        }
        lanes[p] = int32_t(lane);
      }
    }
    to.sums[b] = total;
    to.steps[b] = finite ? largest / 127 : as_float(0x7fc00000);
  }
}

/** R rounded rows times one panel. */
template <int STEPS, int R>
INFUSE_NOINLINE void rounded(RoundedRows x, isize blocks, isize units, const int32_t* w,
                             const float* steps, float* out) {
  for (int i = 0; i < R * NR; i += LANES) store(out + i, vf{}, Full{});
#pragma GCC unroll 1
  for (isize block = 0; block < blocks; ++block, steps += STEPS * NR, x.steps += R, x.sums += R) {
    vi sum[R][2];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = splat(int32_t(-8 * x.sums[r]));
#pragma GCC unroll 1
    for (isize unit = 0; unit < units; ++unit, w += NR, x.lanes += R * PARTS) {
      prefetch(w + 32 * NR);
      prefetch(w + 32 * NR + LANES);
      const vi word[2] = {load(w, Full{}), load(w + LANES, Full{})};
#pragma GCC unroll 4
      for (int p = 0; p < PARTS; ++p) {
        const vi mask = splat(int32_t(QUADS ? 0x0f0f0f0f : 0x000f000f));
        const vi codes[2] = {word[0] >> (4 * p) & mask, word[1] >> (4 * p) & mask};
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const vi lane = splat(x.lanes[r * PARTS + p]);
          sum[r][0] = add_piece(sum[r][0], codes[0], lane);
          sum[r][1] = add_piece(sum[r][1], codes[1], lane);
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
        store(total, fma(all, splat(x.steps[r]), load(total, Full{})), Full{});
      }
  }
}

template <int STEPS>
INFUSE_INLINE void rounded_of(int rows, RoundedRows x, isize blocks, isize units, const int32_t* w,
                              const float* steps, float* out) {
  if (rows == 1) rounded<STEPS, 1>(x, blocks, units, w, steps, out);
  if (rows == 2) rounded<STEPS, 2>(x, blocks, units, w, steps, out);
  if (rows == 4) rounded<STEPS, 4>(x, blocks, units, w, steps, out);
  if constexpr (FEW == 8) {
    if (rows == 6) rounded<STEPS, 6>(x, blocks, units, w, steps, out);
    if (rows == 8) rounded<STEPS, 8>(x, blocks, units, w, steps, out);
  }
}

inline isize rounded_rows(const NBitsSizes& s) {
  return detail::ceil_div(min(s.m, CHUNK), isize(FEW)) * FEW;
}

}  // namespace nbits_detail

/** Bytes of scratch of a product. */
inline isize nbits_rounded_scratch(const NBitsSizes& s) {
  using namespace nbits_detail;
  const isize all = padded(s);
  return rounded_rows(s) * (all / UNIT * PARTS + 2 * (all / s.block)) * isize(sizeof(float));
}

/**
 * As nbits_matmul<4, STEPS>, each block of a row of `a` rounded to whole multiples, up to 127, of
 * its largest magnitude / 127.
 */
template <int STEPS, class Sink>
inline void nbits_rounded(Context& c, const NBitsSizes& s, const float* a, const int32_t* w,
                          const float* steps, const Sink& sink) {
  using namespace nbits_detail;
  if (s.m <= 0) return;
  const isize panels = detail::ceil_div(s.n, NR), words = panel_size<4>(s), all = padded(s);
  const isize blocks = all / s.block, step_size = blocks * STEPS * NR, units = s.block / UNIT;
  const isize lanes = all / UNIT * PARTS, most = rounded_rows(s);
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
          round_row(a + (row + r) * s.row, row + r < end ? s.k : 0, all, s.block, r, width, from(row - start));
      }
      for (isize p = p0; p < p1; ++p)
        for (isize row = start, count; row < end; row += count) {
          count = min(end - row, isize(FEW));
          rounded_of<STEPS>(together(count), from(row - start), blocks, units, w + p * words,
                            steps + p * step_size, out);
          detail::drain(out, count, row, p * NR, s.n, sink);
        }
    }
  });
}

}  // namespace infuse
