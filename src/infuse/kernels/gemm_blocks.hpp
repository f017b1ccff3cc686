// Products whose depth is cut into blocks: the part of packed B that a tile of sums needs stays in
// the first level cache while all rows pass by, and the part behind it is asked for meanwhile, a
// little with every tile, so that memory is never waited for.
//
// A is read in place through pointers: `taps` segments of k numbers each, as in gemm.hpp. Sums of a
// block that is not the last lie in `sums`, one tile after another.
#pragma once

#include "ahead.hpp"
#include "gemm_sizes.hpp"
#include "platform.hpp"
#include "row_steps.hpp"

namespace infuse {
namespace detail {

// Rows and panels of a tile. Two panels need fewer loads for as many sums, where registers hold
// them.
#if INFUSE_LANES == 16 || INFUSE_BY_LANE
#define INFUSE_BLOCK_PANELS 2
constexpr int BLOCK_ROWS = INFUSE_BY_LANE ? min(MR, isize(5)) : MR < 6 ? MR : 6, BLOCK_PANELS = 2;
#else
#define INFUSE_BLOCK_PANELS 1
constexpr int BLOCK_ROWS = MR, BLOCK_PANELS = 1;
#endif
constexpr isize BLOCK_COLUMNS = BLOCK_PANELS * NR;
constexpr int BLOCK_VECTORS = 2 * BLOCK_PANELS;

// The most numbers of k of a block: B takes two thirds of the first level cache.
constexpr isize BLOCK_STEP = HINT_STEPS;
constexpr isize BLOCK_DEPTH =
    max(INFUSE_L1_BYTES / 3 * 2 / (BLOCK_COLUMNS * isize(sizeof(float))) / BLOCK_STEP, isize(1)) *
    BLOCK_STEP;

// The sums of R rows and V vectors, the second pair of them `gap` floats behind the first, and what
// `before` has of them, to out(sum, row, vector). Segment t of row i starts at
// rows[t * step + i] + offset. each() is called with every BLOCK_STEP numbers of k.
template <int R, int V, class Out, class Each>
INFUSE_INLINE void block_sums(const float* const* rows, isize step, isize taps, isize k, isize offset,
                              const float* b, isize gap, const float* before, const Out& out,
                              const Each& each) {
  vf sum[R][V];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) sum[i][j] = vf{};
#pragma GCC unroll 1
  for (isize t = 0; t < taps; ++t, rows += step) {
    const float* a[R];
    if constexpr (INFUSE_ORDERED) {
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) a[i] = rows[i] + offset;
      row_steps(sum, a, b, k);
      continue;
    }
    if constexpr (INFUSE_BY_LANE) {
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) a[i] = rows[i] + offset;
      row_steps(sum, a, b, k, gap, [&](isize) __attribute__((always_inline)) { each(); });
      continue;
    }
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) a[i] = rows[i] + offset + k;
    // Counting up to zero leaves a register free.
#pragma GCC unroll 1
    for (isize p = -k; p < 0;) {
      each();
      const isize end = min(p + BLOCK_STEP, isize(0));
#pragma GCC unroll 2
      for (; p < end; ++p, b += NR) {
        vf x[V];
#pragma GCC unroll 4
        for (int j = 0; j < V; ++j) x[j] = load(b + j / 2 * gap + j % 2 * LANES, Full{});
#pragma GCC unroll 16
        for (int i = 0; i < R; ++i) {
          vf z = splat(a[i][p]);
          INFUSE_HOLD(z);
#pragma GCC unroll 4
          for (int j = 0; j < V; ++j) sum[i][j] = fma(z, x[j], sum[i][j]);
        }
      }
    }
  }
  if (before)
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j)
        sum[i][j] += load(before + i * BLOCK_COLUMNS + j * LANES, Full{});
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) out(sum[i][j], i, j);
}

// The same to rows of memory `pitch` floats apart, where `before` may lie, too.
template <int R, int V>
INFUSE_NOINLINE void block_tile(const float* const* rows, isize step, isize taps, isize k, isize offset,
                                const float* b, isize gap, const float* before, float* to,
                                isize pitch, LinesAhead ahead) {
  block_sums<R, V>(
      rows, step, taps, k, offset, b, gap, before,
      [&](vf x, int i, int j) __attribute__((always_inline)) {
        store(to + i * pitch + j * LANES, x, Full{});
      },
      [&]() __attribute__((always_inline)) { ahead.ask(); });
}

typedef void (*BlockTile)(const float* const*, isize, isize, isize, isize, const float*, isize,
                          const float*, float*, isize, LinesAhead);

template <int V>
INFUSE_INLINE BlockTile block_tile_of(isize rows) {
  static constexpr BlockTile tiles[] = {
      block_tile<1, V>,  block_tile<2, V>,  block_tile<3, V>,  block_tile<4, V>,
#if INFUSE_TILE_ROWS >= 6
      block_tile<5, V>,  block_tile<6, V>,
#endif
#if INFUSE_TILE_ROWS >= 8 && INFUSE_BLOCK_PANELS == 1
      block_tile<7, V>,  block_tile<8, V>,
#endif
#if INFUSE_TILE_ROWS == 12 && INFUSE_BLOCK_PANELS == 1
      block_tile<9, V>,  block_tile<10, V>, block_tile<11, V>, block_tile<12, V>,
#endif
  };
  return tiles[rows - 1];
}

// By rows, and columns of which the last vector may have a part only.
INFUSE_INLINE BlockTile block_tile_for(isize rows, isize width) {
#if INFUSE_BLOCK_PANELS == 2
  if (width > 3 * LANES) return block_tile_of<4>(rows);
  if (width > 2 * LANES) return block_tile_of<3>(rows);
#endif
  return width > LANES ? block_tile_of<2>(rows) : block_tile_of<1>(rows);
}

// Hands rows of finished tiles, `pitch` floats apart, to the sink; `width` columns of them exist.
template <class Sink>
INFUSE_NOINLINE void block_drain(const float* sums, isize pitch, isize rows, isize row, isize col,
                                 isize width, const Sink& sink) {
  const Sink own = sink;
#pragma GCC unroll 1
  for (isize end = row + rows; row < end; ++row, sums += pitch) {
    if (width == BLOCK_COLUMNS) {
#pragma GCC unroll 4
      for (int j = 0; j < BLOCK_VECTORS; ++j)
        own(load(sums + j * LANES, Full{}), row, col + j * LANES, Full{});
      continue;
    }
#pragma GCC unroll 1
    for (isize j = 0; j < width; j += LANES)
      own(load(sums + j, Full{}), row, col + j, Tail{int(min(width - j, isize(LANES)))});
  }
}

// The last block of a whole tile. Memory that the sink needs is asked for row by row meanwhile.
template <class Sink>
INFUSE_NOINLINE void block_finish(const float* const* rows, isize step, isize taps, isize k,
                                  isize offset, const float* b, isize gap, const float* before,
                                  float* to, LinesAhead ahead, isize row, isize col,
                                  const Sink& sink) {
  const Sink own = sink;
  const isize each = ceil_div(BLOCK_ROWS, taps * ceil_div(k, BLOCK_STEP));
  isize next = row;
  block_sums<BLOCK_ROWS, BLOCK_VECTORS>(
      rows, step, taps, k, offset, b, gap, before,
      [&](vf x, int i, int j) __attribute__((always_inline)) {
        store(to + i * BLOCK_COLUMNS + j * LANES, x, Full{});
      },
      [&]() __attribute__((always_inline)) {
        ahead.ask();
#pragma GCC unroll 1
        for (const isize end = min(next + each, row + BLOCK_ROWS); next < end; ++next)
#pragma GCC unroll 1
          for (int j = 0; j < BLOCK_VECTORS; ++j) own(vf{}, next, col + j * LANES, Ahead{});
      });
}

// Rows of the next tile when `left` remain: as tile_rows.
INFUSE_INLINE isize block_rows(isize left) {
  if (left >= 2 * BLOCK_ROWS || left == BLOCK_ROWS) return BLOCK_ROWS;
  return left > BLOCK_ROWS ? (left + 1) / 2 : left;
}

// How the depth of a product is cut: into parts of a segment, or some segments together.
struct DepthBlocks {
  isize taps, k, count, parts;

  constexpr DepthBlocks(isize taps, isize k)
      : taps(taps),
        k(k),
        count(k >= BLOCK_DEPTH ? taps * ceil_div(k, BLOCK_DEPTH)
                               : ceil_div(taps, BLOCK_DEPTH / max(k, isize(1)))),
        parts(k >= BLOCK_DEPTH ? ceil_div(k, BLOCK_DEPTH) : 0) {}

  // The first segment of a block, the first number in it, and all numbers before.
  constexpr isize tap(isize i) const { return parts ? i / parts : split(taps, count, i); }
  constexpr isize offset(isize i) const { return parts ? split(k, parts, i % parts) : 0; }
  constexpr isize start(isize i) const { return tap(i) * k + offset(i); }
};

// The most rows that pass by before the next panels: half of the second level cache, and not so
// many that their sums fill the other half.
constexpr isize block_chunk(isize depth) {
  const isize held = INFUSE_BLOCK_BYTES / 2 / isize(sizeof(float)) / max(depth, isize(1)),
             most = INFUSE_BLOCK_BYTES / 8 / (BLOCK_COLUMNS * isize(sizeof(float)));
  return max(min(held, most) / BLOCK_ROWS, isize(4)) * BLOCK_ROWS;
}

// Floats of `sums` for m rows of k numbers.
constexpr isize block_sums_floats(isize m, isize k) {
  return DepthBlocks(1, k).count > 1 ? min(m, block_chunk(k)) * BLOCK_COLUMNS : 0;
}

// Rows [row, end) times panels [p0, p1), whose columns begin at `col` and end before n.
// rows.at(i, count, own) gives pointers to `count` rows from i on, the next segments rows.step()
// behind, and may fill `own`. `cold`: B is not in the second level cache.
template <class Rows, class Sink>
inline void block_part(const Rows& rows, DepthBlocks depth, const float* b, isize row, isize end,
                       isize p0, isize p1, isize col, isize n, float* sums, bool cold,
                       const Sink& sink) {
  const isize gap = depth.taps * depth.k * NR;
  const isize tiles = ceil_div(end - row, BLOCK_ROWS);
  alignas(64) float out[BLOCK_ROWS * BLOCK_COLUMNS];
  const float* own[BLOCK_ROWS];
  for (isize p = p0; p < p1; p += BLOCK_PANELS, col += BLOCK_COLUMNS) {
    const isize panels = min(p1 - p, isize(BLOCK_PANELS));
    const isize width = min(n - col, panels * NR);
    for (isize q = 0; q < depth.count; ++q) {
      const bool last = q + 1 == depth.count;
      const isize start = depth.start(q), stop = depth.start(q + 1);
      const isize taps = depth.parts ? 1 : depth.tap(q + 1) - depth.tap(q);
      const isize k = (stop - start) / taps;
      const float* panel = b + p * gap + start * NR;
      // What comes next has as many runs of lines as there are panels. Each is asked for by as many
      // tiles, which share it evenly.
      const float* next = last ? b + (p + panels) * gap : b + p * gap + stop * NR;
      const isize behind = last ? depth.start(1) : depth.start(q + 2) - stop;
      const isize run = behind * NR * isize(sizeof(float)) / CACHE_LINE;
      const isize askers = max(tiles / panels, isize(1)), steps = taps * ceil_div(k, BLOCK_STEP);
      const isize lines = cold ? ceil_div(run, askers * steps) : 0;
      isize t = 0;
      for (isize i = row, count; i < end; i += count, ++t) {
        count = block_rows(end - i);
        const isize first_line = t % askers * steps * lines;
        const LinesAhead ahead = {(const char*)(next + t / askers * gap) + first_line * CACHE_LINE,
                                  t < askers * panels && first_line < run ? lines : 0};
        const float* const* at = rows.at(i, count, own) + depth.tap(q) * rows.step();
        float* partial = sums + (i - row) * BLOCK_COLUMNS;
        const float* before = q ? partial : nullptr;
        const isize first = depth.offset(q);
        float* to = last ? out : partial;
        if (last && count == BLOCK_ROWS && width == BLOCK_COLUMNS)
          block_finish(at, rows.step(), taps, k, first, panel, gap, before, to, ahead, i, col,
                       sink);
        else
          block_tile_for(count, width)(at, rows.step(), taps, k, first, panel, gap, before, to,
                                       BLOCK_COLUMNS, ahead);
        if (last) block_drain(to, BLOCK_COLUMNS, count, i, col, width, sink);
      }
    }
  }
}

// out[count][NR] = a[count][k] times a panel of which `width` columns are wanted, as is the one
// behind it soon: for few rows, which leave little time for it to come.
inline void few_rows(const float* a, isize lda, isize k, const float* panel, isize count, isize width,
                     float* out) {
  const float* own[BLOCK_ROWS];
  const isize run = k * NR * isize(sizeof(float)) / CACHE_LINE;
  const isize tiles = ceil_div(count, BLOCK_ROWS), steps = ceil_div(k, BLOCK_STEP);
  const isize lines = ceil_div(run, tiles * steps);
  const char* next = (const char*)(panel + k * NR);
  for (isize rows; count > 0; count -= rows, a += rows * lda, out += rows * NR) {
    rows = block_rows(count);
    for (isize i = 0; i < rows; ++i) own[i] = a + i * lda;
    block_tile_for(rows, width)(own, 0, 1, k, 0, panel, 0, nullptr, out, NR,
                                LinesAhead{next, lines});
    next += lines * steps * CACHE_LINE;
  }
}

// Rows of a matrix.
struct RowsApart {
  const float* a;
  isize lda;

  static constexpr isize step() { return 0; }
  INFUSE_INLINE const float* const* at(isize row, isize count, const float** own) const {
    for (isize i = 0; i < count; ++i) own[i] = a + (row + i) * lda;
    return own;
  }
};

// Whether a product is worth tiles of blocks: they are wider, or it is deep.
constexpr bool takes_blocks(GemmSizes s) {
  return s.m >= BLOCK_ROWS && (BLOCK_PANELS > 1 ? s.n > NR && s.k > 0 : s.k > BLOCK_DEPTH);
}

// Rows [m0, m1) times panels [p0, p1) on one thread. rows(row, end) gives those from `row` to
// `end`, lda floats apart, one chunk after another; row 0 would lie where it points to.
template <class Rows, class Sink>
inline void gemm_blocks(GemmSizes s, isize lda, const Rows& rows, const float* b, isize m0, isize m1,
                        isize p0, isize p1, float* sums, const Sink& sink) {
  const DepthBlocks depth(1, s.k);
  const isize parts = ceil_div(m1 - m0, block_chunk(s.k)), tiles = ceil_div(m1 - m0, BLOCK_ROWS);
  const bool passes = (p1 - p0) * s.k * NR * isize(sizeof(float)) > INFUSE_BLOCK_BYTES / 2;
  for (isize i = 0; i < parts; ++i) {
    const isize row = m0 + split(tiles, parts, i) * BLOCK_ROWS,
               end = min(m0 + split(tiles, parts, i + 1) * BLOCK_ROWS, m1);
    const RowsApart apart = {rows(row, end), lda};
    block_part(apart, depth, b, row, end, p0, p1, p0 * NR, s.n, sums, passes || i == 0, sink);
  }
}

}  // namespace detail
}  // namespace infuse
