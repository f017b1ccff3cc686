// Columns of a matrix of few bits, decoded.
#pragma once
#include "nbits_rounded.hpp"

namespace infuse {

/**
 * y[i] = column indices[i] of the matrix [k, n], of m indices, in float; sizes and operands as those
 * of nbits_rounded. False where an index lies outside.
 */
template <int BITS, class Step, int STEPS, class Index>
inline bool gather_codes(Context& c, const RoundedSizes& s, const int32_t* w, const Step* steps,
                         const Index* indices, float* y) {
  using L = NBits<BITS>;
  using namespace nbits_detail;
  const isize words = panel_size<BITS>(s), blocks = padded(s) / s.block;
  for (isize i = 0; i < s.m; ++i)
    if (indices[i] < 0 || int64_t(indices[i]) >= s.n) {
      c.note_index(isize(indices[i]), s.n);
      return false;
    }
  const auto run = [&](isize begin, isize end, int) {
    for (isize i = begin; i < end; ++i) {
      const isize column = isize(indices[i]), panel = column / NR, lane = column % NR;
      const int32_t* from = w + panel * words + lane;
      const Step* step = steps + panel * blocks * STEPS * NR + lane;
      float* row = y + i * s.k;
      for (isize k = 0; k < s.k; k += L::ROWS, from += NR) {
        const Step* own = step + k / s.block * STEPS * NR;
        const float scale = float(own[0]), shift = float(own[(STEPS - 1) * NR]);
        for (int j = 0; j < L::CODES; ++j) {
          const isize at = k + L::row(0, j);
          const int32_t code = int32_t(uint32_t(*from) >> (j * BITS) & ((1u << BITS) - 1));
          const float number = float(code - int32_t(s.zero)) * scale;
          if (at < s.k) row[at] = STEPS == 2 ? number + shift : number;
        }
      }
    }
  };
  c.parallel(s.m, run, 1 + 4096 / (s.k + 1));
  return true;
}

}  // namespace infuse
