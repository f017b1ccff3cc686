// Rows that are held as tile registers take them (tiles.hpp) times a packed matrix.
#pragma once
#include "gemm.hpp"
#include "tiles.hpp"

namespace infuse {
namespace detail {

constexpr isize TILE_BLOCK = TILE_SIDE * 4;  // bytes of a row of a register

constexpr isize tiled_blocks(isize words) { return panel_words(words, true) / TILE_SIDE; }

// What 32 rows and 32 columns need of this many blocks of k, 4 KiB each, stays in a first level
// cache of 48 KiB; the products of more are summed up in parts, which also leave room for what
// passes by.
constexpr isize TILED_MOST = 12, TILED_DEPTH = 10;

// Panels that are multiplied by 32 rows one after another, while those stay in the first level cache
// and the panels in the second; fewer where the next ones are asked for meanwhile.
constexpr isize TILED_GROUP = 8;

// Rows up to which the time of a product is that of reading B from behind the second level cache.
constexpr isize TILED_FEW = 8 * TILED_ROWS;

constexpr isize tiled_group(isize blocks, bool cold) {
  const isize panel = blocks * 2 * TILE_WORDS * 4;
  return max(min(INFUSE_BLOCK_BYTES / (cold ? 16 : 4) / panel, TILED_GROUP), isize(1));
}

// Rows of m that are held at a time, `pitch` words each: few where B stays in the second level
// cache, else many, so that B passes by seldom; all where that holds them beside some panels.
constexpr isize tiled_chunk(isize m, isize pitch, isize panels) {
  const isize row = 4 * max(pitch, TILE_SIDE), held = panels * NR * row;
  const bool near = held <= INFUSE_BLOCK_BYTES / 2;
  if (!near && m * row <= INFUSE_BLOCK_BYTES / 4 * 3) return round_up(m, TILED_ROWS);
  return max(INFUSE_BLOCK_BYTES / (near ? 16 : 2) / row / TILED_ROWS * TILED_ROWS, TILED_ROWS);
}

// How many rows are held at a time, and into how many slices of k their products are cut: then B
// passes by seldom, and what stays in the second level cache is one slice of the rows and the sums,
// 32 rows × 32 columns after another at `sums`.
struct TiledCuts {
  isize chunk, slices = 1;
  int32_t* sums = nullptr;
};

constexpr TiledCuts tiled_cuts(isize m, isize blocks, isize panels) {
  const isize row = blocks * TILE_BLOCK, panel = NR * row, rows = round_up(m, TILED_ROWS);
  const isize chunk = min(tiled_chunk(m, blocks * TILE_SIDE, panels), rows);
  const isize most = INFUSE_BLOCK_BYTES / 3 / (max(panels, isize(1)) * NR * 4) / TILED_ROWS * TILED_ROWS;
  const isize more = min(most, rows), fits = INFUSE_BLOCK_BYTES / 4 * 3;
  const bool near = panels * panel <= INFUSE_BLOCK_BYTES / 2, is_one = chunk == rows;
  if (near || (is_one && rows * row + 2 * panel <= fits)) return {chunk};
  if (more < (is_one ? rows : 2 * chunk)) return {chunk};
  return {more, ceil_div(more * row, INFUSE_BLOCK_BYTES / 4)};
}

// Bytes of the rows that are held: whole registers of them.
constexpr isize tiled_bytes(isize m, isize pitch, isize panels) {
  return min(round_up(m, TILED_ROWS), tiled_chunk(m, pitch, panels)) * pitch * 4;
}

// Bytes of scratch of tiled_gemm.
constexpr isize tiled_gemm_scratch(isize m, isize blocks, isize panels) {
  const TiledCuts cuts = tiled_cuts(m, blocks, panels);
  const isize rows = min(round_up(m, TILED_ROWS), cuts.chunk);
  return rows * (blocks * TILE_BLOCK + (cuts.slices > 1 ? panels * NR * 4 : 0));
}

// Rows whose words lie in registers of 16 rows, a block of 16 words after another: 1 KiB each, which
// loads faster than lines far apart.
struct CompactRows {
  int32_t* start;
  isize blocks;

  // Where row i begins; its next 16 words are TILE_WORDS behind.
  INFUSE_INLINE int32_t* row(isize i) const {
    return start + i / TILE_SIDE * blocks * TILE_WORDS + i % TILE_SIDE * TILE_SIDE;
  }
  INFUSE_INLINE TiledRows all() const {
    return {(const char*)start, TILE_SIDE * 4, TILE_WORDS * 4, blocks * TILE_WORDS * 4};
  }
};

// The time of a part of a product, in columns that are multiplied with a row: to pack a row takes as
// long as this many columns, to read a column from behind the second level cache as this many rows
// (Granite Rapids: 76 ps, 50 ps and 1.4 ps a number).
constexpr double TILED_PACKING = 48, TILED_READING = 24;

constexpr double tiled_time(Grid grid, isize units, isize panels, isize unit) {
  const double rows = double(ceil_div(units, grid.rows) * unit),
               columns = double(ceil_div(panels, grid.panels) * NR);
  return (rows + TILED_READING) * (columns + TILED_PACKING);
}

// The best split into `parts` for so many threads, and what each of them then takes.
INFUSE_NOINLINE inline double tiled_split(isize threads, isize parts, isize units, isize panels,
                                          isize unit, Grid& best) {
  double least = -1;
  for (isize r = 1; r <= parts && r <= units; ++r) {
    const Grid grid = {r, min(parts / r, panels)};
    const double each = tiled_time(grid, units, panels, unit);
    const double all = each * double(ceil_div(grid.rows * grid.panels, threads));
    if (least < 0 || all < least) best = grid, least = all;
  }
  return least;
}

// Parts for whoever is free, unless packing the same rows again takes long.
INFUSE_NOINLINE inline Grid tiled_grid(isize threads, isize units, isize panels, isize unit) {
  Grid grid = {1, 1}, finer = {1, 1};
  if (threads <= 1) return grid;
  const double least = tiled_split(threads, threads, units, panels, unit, grid);
  for (isize pieces = PIECES; pieces > 1; pieces /= 2)
    if (tiled_split(threads, threads * pieces, units, panels, unit, finer) <= least * 1.1)
      return finer;
  return grid;
}

// As gemm_parallel, of registers of `unit` rows.
template <class Body>
inline void tiled_parallel(Context& ctx, isize m, isize panels, isize k, isize unit,
                           const Body& body) {
  const double worth = 1 + double(m) * double(panels * NR) * double(k) / 131072;
  const isize threads = worth < double(ctx.threads) ? isize(worth) : ctx.threads;
  const isize units = ceil_div(m, unit);
  const Grid grid = tiled_grid(threads, units, panels, unit);
  ctx.parallel(grid.rows * grid.panels, [&](isize begin, isize end, int worker) {
    for (isize t = begin; t < end; ++t) {
      const isize i = t / grid.panels, j = t % grid.panels;
      body(min(split(units, grid.rows, i) * unit, m), min(split(units, grid.rows, i + 1) * unit, m),
           split(panels, grid.panels, j), split(panels, grid.panels, j + 1), worker);
    }
  });
}

// Rows [m0, m1) times panels [p0, p1). rows(i, end) gives those from i to end, one chunk after
// another; each block of sums goes to drained(sums, rows, row, panel). `n` columns begin with panel
// p0.
template <class Unit, class Rows, class Drain>
INFUSE_INLINE void tiled_part(isize blocks, const Rows& rows, const int32_t* b, isize m0, isize m1,
                              isize p0, isize p1, isize n, TiledCuts cuts, const Drain& drained) {
  struct {
    const int32_t* sums;
    isize rows, row, panel;
  } ready = {};
  alignas(64) int32_t sums[TILED_GROUP][TILED_ROWS * TILED_ROWS];
  const isize most = ceil_div(blocks, cuts.slices * TILED_DEPTH), steps = blocks / Unit::BLOCKS;
  const isize parts = (blocks <= TILED_MOST ? 1 : most) * cuts.slices;
  const isize panel = blocks * 2 * TILE_WORDS;
  const bool cold = (p1 - p0) * panel * 4 > INFUSE_BLOCK_BYTES / 2 && m1 - m0 <= TILED_FEW;
  const isize group = tiled_group(ceil_div(blocks, cuts.slices), cold);
  const TileRegisters registers;
  TileSums<Unit> running;
  for (isize row = m0, end; row < m1; row = end) {
    end = min(row + cuts.chunk, m1);
    const auto a = rows(row, end);
    for (isize slice = 0; slice < cuts.slices; ++slice)
      for (isize g = p0; g < p1; g += group) {
        // The next group, as often as there are rows for this one.
        const bool more = cold && g + group < p1;
        const isize lines = ceil_div(2 * TILE_SIDE, ceil_div(end - row, TILED_ROWS));
        const isize from = slice * parts / cuts.slices, to = (slice + 1) * parts / cuts.slices;
        const isize start = split(steps, parts, from) * Unit::BLOCKS;
        running.ahead = {(const char*)(b + (g + group) * panel + start * 2 * TILE_WORDS),
                         more ? lines : 0};
        for (isize i = row; i < end; i += TILED_ROWS)
          for (isize part = from, first = start, last; part < to; ++part, first = last) {
            last = split(steps, parts, part + 1) * Unit::BLOCKS;
            for (isize p = g; p < min(g + group, p1); ++p) {
              const isize count = min(end - i, TILED_ROWS);
              const isize place = (i - row) / TILED_ROWS * (p1 - p0) + p - p0;
              int32_t* own = cuts.slices > 1 ? cuts.sums + place * TILED_ROWS * TILED_ROWS
                                             : sums[parts == 1 ? 0 : p - g];
              running.block(a.from(i - row).behind(first), b + p * panel + first * 2 * TILE_WORDS,
                            last - first, count, n - (p - p0) * NR, part ? own : nullptr, own);
              if (ready.sums) drained(ready.sums, ready.rows, ready.row, ready.panel);
              ready = {last == blocks ? own : nullptr, count, i, p};
            }
          }
      }
  }
  running.finish();
  if (ready.sums) drained(ready.sums, ready.rows, ready.row, ready.panel);
}

}  // namespace detail
}  // namespace infuse
