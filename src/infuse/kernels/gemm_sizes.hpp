// Sizes that all products with packed weights share.
#pragma once

#include "simd.hpp"

namespace infuse {

// Columns of a packed panel, and the most rows of a register tile.
constexpr isize NR = 2 * LANES;
constexpr isize MR = INFUSE_TILE_ROWS;
static_assert(MR == 4 || MR == 6 || MR == 8 || MR == 12, "tiles of other heights are not listed (tile_of)");
static_assert(2 * MR + 3 <= INFUSE_REGISTERS, "sums, columns and a number of a row fill the registers");

struct GemmSizes {
  isize m, n, k, lda;
};

// Floats of packed B.
constexpr isize gemm_packed(isize n, isize k) { return (n + NR - 1) / NR * NR * k; }

namespace detail {

constexpr isize ceil_div(isize a, isize b) { return (a + b - 1) / b; }

// First row of part i when n rows are split into parts whose sizes differ by one at most.
constexpr isize split(isize n, isize parts, isize i) {
  return n / parts * i + (i < n % parts ? i : n % parts);
}

}  // namespace detail
}  // namespace infuse
