// Rows that are held as tile registers take them (tiles.hpp) times a packed matrix.
#pragma once
#include "gemm.hpp"
#include "tiles.hpp"

namespace infuse {
namespace detail {

constexpr long tiled_blocks(long words) { return panel_words(words, true) / TILE_SIDE; }

// Rows that are held at a time, `pitch` words each: few where B stays in the second level cache,
// else as many as that holds, so that B passes by as seldom as can be.
constexpr long tiled_chunk(long pitch, long panels) {
  const long row = 4 * max(pitch, TILE_SIDE), held = panels * NR * row;
  const long budget = held <= INFUSE_BLOCK_BYTES / 2 ? INFUSE_BLOCK_BYTES / 16 : INFUSE_BLOCK_BYTES;
  return max(budget / row / TILED_ROWS * TILED_ROWS, TILED_ROWS);
}

// Bytes of the rows that are held: whole registers of them.
constexpr long tiled_bytes(long m, long pitch, long panels) {
  return min(round_up(m, TILED_ROWS), tiled_chunk(pitch, panels)) * pitch * 4;
}

// Rows whose words lie in registers of 16 rows, a block of 16 words after another: 1 KiB each, which
// loads faster than lines far apart.
struct CompactRows {
  int32_t* start;
  long blocks;

  // Where row i begins; its next 16 words are TILE_WORDS behind.
  INFUSE_INLINE int32_t* row(long i) const {
    return start + i / TILE_SIDE * blocks * TILE_WORDS + i % TILE_SIDE * TILE_SIDE;
  }
  INFUSE_INLINE TiledRows all() const {
    return {(const char*)start, TILE_SIDE * 4, TILE_WORDS * 4, blocks * TILE_WORDS * 4};
  }
};

// Rows [m0, m1) times panels [p0, p1). rows(i, end) gives those from i to end, one chunk after
// another; each block of sums goes to drained(sums, rows, row, panel). `n` columns begin with panel
// p0.
template <class Unit, class Rows, class Drain>
INFUSE_INLINE void tiled_part(long blocks, const Rows& rows, const int32_t* b, long m0, long m1,
                              long p0, long p1, long n, long chunk, const Drain& drained) {
  alignas(64) int32_t sums[TILED_ROWS * TILED_ROWS];
  const TileRegisters registers;
  for (long row = m0, end; row < m1; row = end) {
    end = min(row + chunk, m1);
    const TiledRows a = rows(row, end);
    for (long p = p0; p < p1; ++p) {
      const int32_t* panel = b + p * blocks * 2 * TILE_WORDS;
      for (long i = row; i < end; i += TILED_ROWS) {
        const long count = min(end - i, TILED_ROWS);
        tile_product<Unit>(a.from(i - row), panel, blocks, count, n - (p - p0) * NR, sums);
        drained(sums, count, i, p);
      }
    }
  }
}

}  // namespace detail
}  // namespace infuse
