// Matrix multiplication with packed weights: C = A B, where a Sink receives C and stores it.
//
// B is packed in panels of NR columns, panel[k][NR] one after another, columns padded with zeros.
// A is read in place through row pointers, so that a convolution is the same kernel: a row is made
// of `taps` segments of k numbers each, and every segment has its own pointer.
//
// W is what a packed number is in memory: float, or what a load widens to it (gemm_fp16.hpp).
#pragma once

#include "gemm_blocks.hpp"
#include "gemm_grid.hpp"
#include "row_steps.hpp"
#include "threads.hpp"

namespace infuse {

namespace detail {

// Narrow numbers are used up faster than processors see the need of the next ones.
template <class W>
INFUSE_INLINE void ask_ahead(const W* b) {
  if constexpr (sizeof(W) < sizeof(float)) prefetch(b + 32 * NR);
}

// out[R][NR] = rows of A times the first V vectors of a panel. Segment t of row i starts at
// rows[t * R + i] + offset.
// Few rows leave too few independent sums to hide the latency of fma, so they sum U steps apart.
template <int R, int V, class W>
INFUSE_NOINLINE void tile(const float* const* rows, isize taps, isize k, isize offset, const W* b,
                          float* out) {
  constexpr int U = R * V >= (INFUSE_ORDERED ? 4 : 8) ? 1 : R * V >= 4 ? 2 : 4;
  vf sum[U][R][V];
#pragma GCC unroll 16
  for (int u = 0; u < U; ++u)
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 16
      for (int j = 0; j < V; ++j) sum[u][i][j] = vf{};
  const float* a[R];
  auto step = [&](int u, isize p) __attribute__((always_inline)) {
    vf x[V];
#pragma GCC unroll 16
    for (int j = 0; j < V; ++j) x[j] = load(b + j * LANES, Full{});
    ask_ahead(b);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 16
      for (int j = 0; j < V; ++j) sum[u][i][j] = fma(splat(a[i][p]), x[j], sum[u][i][j]);
    b += NR;
  };
  // Counting up to zero leaves a register free, and with it all row pointers stay in registers.
  // Loops that test at their end let compilers keep the sums in registers, too.
  isize left = k > 0 ? taps : 0;
  if (left > 0) do {
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) a[i] = rows[i] + offset + k;
      rows += R;
      isize p = -k;
      if constexpr (OWN_STEPS) {
#pragma GCC unroll 16
        for (int i = 0; i < R; ++i) a[i] -= k;
        row_steps(sum, a, b, k);
      } else if constexpr (U > 1) {
#pragma GCC unroll 1
        for (; p <= -U; p += U)
#pragma GCC unroll 16
          for (int u = 0; u < U; ++u) step(u, p + u);
#pragma GCC unroll 1
        for (; p != 0; ++p) step(0, p);
      } else {
        do step(0, p);
        while (++p != 0);
      }
    } while (--left > 0);
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 16
    for (int j = 0; j < V; ++j) {
#pragma GCC unroll 16
      for (int u = 1; u < U; ++u) sum[0][i][j] += sum[u][i][j];
      store(out + i * NR + j * LANES, sum[0][i][j], Full{});
    }
}

template <class W>
using Tile = void (*)(const float* const*, isize, isize, isize, const W*, float*);

template <int V, class W>
INFUSE_INLINE Tile<W> tile_of(isize rows) {
  static constexpr Tile<W> tiles[] = {
      tile<1, V, W>,  tile<2, V, W>,  tile<3, V, W>,  tile<4, V, W>,
#if INFUSE_TILE_ROWS >= 6
      tile<5, V, W>,  tile<6, V, W>,
#endif
#if INFUSE_TILE_ROWS >= 8
      tile<7, V, W>,  tile<8, V, W>,
#endif
#if INFUSE_TILE_ROWS == 12
      tile<9, V, W>,  tile<10, V, W>, tile<11, V, W>, tile<12, V, W>,
#endif
  };
  return tiles[rows - 1];
}

// Hands `rows` rows of a finished tile to the sink; columns past n do not exist.
template <class Sink>
INFUSE_NOINLINE void drain(const float* tile, isize rows, isize row, isize col, isize n,
                           const Sink& sink) {
  const isize width = n - col;
  const Sink own = sink;
#pragma GCC unroll 1
  for (isize end = row + rows; row < end; ++row, tile += NR) {
    if (width < LANES) {
      own(load(tile, Full{}), row, col, Tail{int(width)});
      continue;
    }
    own(load(tile, Full{}), row, col, Full{});
    if (width >= NR)
      own(load(tile + LANES, Full{}), row, col + LANES, Full{});
    else if (width > LANES)
      own(load(tile + LANES, Full{}), row, col + LANES, Tail{int(width - LANES)});
  }
}

// One register tile: rows [row, row + count) times the panel that starts at column col.
template <class W, class Sink>
INFUSE_INLINE void gemm_tile(const float* const* rows, isize taps, isize k, isize offset, isize count,
                             const W* panel, isize row, isize col, isize n, const Sink& sink) {
  alignas(64) float out[MR * NR];
  Tile<W> run = n - col > LANES ? tile_of<2, W>(count) : tile_of<1, W>(count);
  run(rows, taps, k, offset, panel, out);
  drain(out, count, row, col, n, sink);
}

// Rows in groups of G share a pointer, which x86 addresses as q, q + lda and q + 2 lda.
template <class T>
struct RowGroups {
  static constexpr int G = MR % 3 == 0 ? 3 : 2;
  const T* q[MR / G];
  isize lda;

  INFUSE_INLINE RowGroups(const T* a, isize step) : lda(step) {
#pragma GCC unroll 16
    for (int i = 0; i < MR / G; ++i) {
      q[i] = a + i * G * lda;
      __asm__("" : "+r"(q[i]));  // else clang computes it anew in every step
    }
  }
  INFUSE_INLINE T at(int row, isize p) const { return q[row / G][row % G * lda + p]; }
};

// What else is done with the numbers of a panel as a tile comes across them: nothing.
struct Forget {
  static constexpr bool IS_HINT = true;  // nothing is lost without it
  INFUSE_INLINE void operator()(isize, vf, vf) const {}
};

// Asks for the panel behind this one as a tile comes across: processors look ahead within a page
// only, and one panel is many.
struct AskBehind {
  static constexpr bool IS_HINT = true;
  const float* behind;
  INFUSE_INLINE void operator()(isize p, vf, vf) const {
    for (isize i = 0; i < NR; i += CACHE_LINE / isize(sizeof(float))) prefetch_l2(behind + p * NR + i);
  }
};

// A sink that keeps a tile as it is.
struct StoreTile {
  float* out;
  template <class L>
  INFUSE_INLINE void operator()(vf acc, isize row, isize col, L lanes) const {
    store(out + row * NR + col, acc, lanes);
  }
};

// A full register tile whose sums go to the sink without leaving the registers.
template <class W, class Sink, class Keep = Forget>
INFUSE_NOINLINE void full_tile(const float* a, isize lda, isize k, const W* b, isize row, isize col,
                               const Sink& sink, const Keep& keep = Keep{}) {
  // A copy, as compilers must expect that a result is stored over what a reference leads to.
  const Sink own = sink;
  vf sum[MR][2];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) sum[i][0] = sum[i][1] = vf{};
  if constexpr (OWN_STEPS && Keep::IS_HINT) {
    const float* rows[MR];
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) rows[i] = a + i * lda;
    row_steps(sum, rows, b, k, 0, [&](isize p) __attribute__((always_inline)) {
      constexpr isize STEP = max(CACHE_LINE / (NR * isize(sizeof(W))), isize(1));
#pragma GCC unroll 16
      for (isize q = p; q < p + HINT_STEPS; q += STEP) keep(q, vf{}, vf{});
    });
  } else {
    const RowGroups<float> rows(a, lda);
#pragma GCC unroll 1
    for (isize p = 0; p < k; ++p, b += NR) {
      vf x = load(b, Full{}), y = load(b + LANES, Full{});
      ask_ahead(b);
      keep(p, x, y);
#pragma GCC unroll 16
      for (int i = 0; i < MR; ++i) {
        vf z = splat(rows.at(i, p));
        sum[i][0] = fma(z, x, sum[i][0]);
        sum[i][1] = fma(z, y, sum[i][1]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
    own(sum[i][0], row + i, col, Full{});
    own(sum[i][1], row + i, col + LANES, Full{});
  }
}

#if INFUSE_LANES == 16
// Half vectors: some processors do two operations on them in the time of one on a whole vector.
typedef float half_vf __attribute__((vector_size(32)));
typedef float half_any __attribute__((vector_size(32), aligned(4), may_alias));
INFUSE_INLINE half_vf half_fma(float a, half_vf b, half_vf c) {
#if defined(__clang__)
  return __builtin_elementwise_fma(a - half_vf{}, b, c);
#else
  return __builtin_ia32_vfmaddps256(a - half_vf{}, b, c);
#endif
}

// out[MR][NR] = MR rows times the first H half vectors of a panel, 1 <= H <= 3.
template <int H>
INFUSE_NOINLINE void narrow_tile(const float* a, isize lda, isize k, const float* b, float* out) {
  vf whole[MR];
  half_vf half[MR];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) whole[i] = vf{}, half[i] = half_vf{};
  const RowGroups<float> rows(a, lda);
#pragma GCC unroll 1
  for (isize p = 0; p < k; ++p, b += NR) {
    vf x = load(b, Full{});
    half_vf y = *(const half_any*)(b + H / 2 * LANES);
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      if (H >= 2) whole[i] = fma(splat(rows.at(i, p)), x, whole[i]);
      if (H != 2) half[i] = half_fma(rows.at(i, p), y, half[i]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
    if (H >= 2) store(out + i * NR, whole[i], Full{});
    if (H != 2) *(half_any*)(out + i * NR + H / 2 * LANES) = half[i];
  }
}
#endif

// The product of `count` <= MR rows of a matrix and a panel of which `width` columns are wanted.
template <class W>
INFUSE_NOINLINE void edge_tile(const float* a, isize lda, isize k, const W* panel, isize count,
                               isize width, float* out) {
#if INFUSE_LANES == 16
  if constexpr (sizeof(W) == sizeof(float)) {
    if (count == MR && width <= LANES / 2) return narrow_tile<1>(a, lda, k, panel, out);
    if (count == MR && width <= LANES) return narrow_tile<2>(a, lda, k, panel, out);
    if (count == MR && width <= LANES * 3 / 2) return narrow_tile<3>(a, lda, k, panel, out);
  }
#endif
  const float* rows[MR];
  for (isize i = 0; i < count; ++i) rows[i] = a + i * lda;
  (width > LANES ? tile_of<2, W>(count) : tile_of<1, W>(count))(rows, 1, k, 0, panel, out);
}

// Rows of the next tile when `left` remain: full tiles, then two halves rather than a thin slice.
INFUSE_INLINE isize tile_rows(isize left) {
  if (left >= 2 * MR || left == MR) return MR;
  return left > MR ? (left + 1) / 2 : left;
}

// Rows [row, end) times one panel. `cold`: the one behind it is not in the second level cache yet;
// with tiles of two panels, products that many of them pass by are left to block_part.
template <class W, class Sink>
INFUSE_NOINLINE void gemm_rows(GemmSizes s, const float* a, const W* panel, isize row, isize end,
                               isize col, const Sink& sink, bool cold = false) {
  alignas(64) float out[MR * NR];
  for (isize count; row < end; row += count) {
    count = tile_rows(end - row);
    const bool full = count == MR && s.n - col >= NR;
    if (!full) {
      edge_tile(a + row * s.lda, s.lda, s.k, panel, count, s.n - col, out);
      drain(out, count, row, col, s.n, sink);
      continue;
    }
    if constexpr (sizeof(W) == sizeof(float) && BLOCK_PANELS == 1)
      if (cold) {
        full_tile(a + row * s.lda, s.lda, s.k, panel, row, col, sink, AskBehind{panel + s.k * NR});
        cold = false;
        continue;
      }
    full_tile(a + row * s.lda, s.lda, s.k, panel, row, col, sink);
  }
}

// Either B stays in the second level cache and MR rows of A in the first, or as many rows of A as
// this stay there while B passes by once.
constexpr isize gemm_chunk(isize k, isize panels) {
  const isize budget = INFUSE_BLOCK_BYTES / 2 / isize(sizeof(float));
  return panels * k * NR <= budget ? MR : max(budget / k / MR * MR, MR);
}

// The end of the chunk that starts at `row`; what would be left of a tile is part of it.
INFUSE_INLINE isize chunk_end(isize row, isize end, isize chunk) {
  return end - row < chunk + MR ? end : row + chunk;
}

// Rows a multiple of 4 KiB apart fall into one set of the first level cache and push each other
// out.
constexpr bool collides(isize stride, isize k) { return stride % 1024 == 0 && k >= 1024; }

// The distance of copied rows of k floats: whole vectors, no collisions.
constexpr isize gemm_pitch(isize k) {
  const isize pitch = ceil_div(k, 16) * 16;
  return pitch % 512 == 0 ? pitch + 16 : pitch;
}

constexpr isize copied_bytes(isize n, isize k) {
  return (gemm_chunk(k, ceil_div(n, NR)) + MR) * gemm_pitch(k) * isize(sizeof(float));
}

// Rows [m0, m1) times panels [p0, p1) on one thread, A used in place.
template <class W, class Sink>
inline void gemm_part(GemmSizes s, const float* a, const W* b, isize m0, isize m1, isize p0, isize p1,
                      const Sink& sink) {
  const isize chunk = gemm_chunk(s.k, p1 - p0);
  for (isize row = m0, end; row < m1; row = end) {
    end = chunk_end(row, m1, chunk);
    for (isize p = p0; p < p1; ++p)
      gemm_rows(s, a, b + p * s.k * NR, row, end, p * NR, sink, row == m0 || chunk > MR);
  }
}

// The same with rows of A that lie anywhere: source(i) points to row i, `copy` has copied_bytes.
template <class Source, class W, class Sink>
inline void gemm_copied(isize n, isize k, const Source& source, const W* b, isize m0, isize m1, isize p0,
                        isize p1, float* copy, const Sink& sink) {
  const isize chunk = gemm_chunk(k, p1 - p0), pitch = gemm_pitch(k);
  const GemmSizes s = {m1, n, k, pitch};
  for (isize row = m0, end; row < m1; row = end) {
    end = chunk_end(row, m1, chunk);
    for (isize i = row; i < end; ++i) {
      const float* from = source(i);
      float* to = copy + (i - row) * pitch;
      sweep(0, k, [&](isize p, auto l) { store(to + p, load(from + p, l), l); });
    }
    const float* rows = copy - row * pitch;
    for (isize p = p0; p < p1; ++p)
      gemm_rows(s, rows, b + p * k * NR, row, end, p * NR, sink, row == m0 || chunk > MR);
  }
}

// As gemm_part for few rows or columns, without a tile that is compiled for the sink.
template <class Sink>
inline void gemm_few(GemmSizes s, const float* a, const float* b, isize m0, isize m1, isize p0,
                     isize p1, const Sink& sink) {
  alignas(64) float out[MR * NR];
  for (isize p = p0; p < p1; ++p) {
    const float* panel = b + p * s.k * NR;
    const isize width = min(s.n - p * NR, NR);
    for (isize row = m0, count; row < m1; row += count) {
      count = tile_rows(m1 - row);
      const float* rows = a + row * s.lda;
      if (count == MR && width == NR)
        full_tile(rows, s.lda, s.k, panel, 0, 0, StoreTile{out});
      else
        edge_tile(rows, s.lda, s.k, panel, count, width, out);
      block_drain(out, NR, count, row, p * NR, width, sink);
    }
  }
}

}  // namespace detail

// Bytes of scratch that a worker can use for gemm; with less it is slower.
constexpr isize gemm_scratch(GemmSizes s) {
  return detail::takes_blocks(s) ? detail::block_sums_floats(s.m, s.k) * isize(sizeof(float)) : 0;
}

// C[m][n] = A B with A[m][k] of row stride lda and B packed; row and col of the sink count in C.
template <class Sink>
void gemm(Context& ctx, GemmSizes s, const float* a, const float* packed_b, const Sink& sink) {
  if (s.m <= 0 || s.n <= 0) return;
  const isize panels = detail::ceil_div(s.n, NR);
  const bool blocks = detail::takes_blocks(s) && ctx.scratch_stride >= gemm_scratch(s);
  const isize unit = blocks ? detail::BLOCK_PANELS : 1;
  detail::gemm_parallel(
      ctx, s.m, detail::ceil_div(panels, unit), s.k * unit,
      [&](isize m0, isize m1, isize p0, isize p1, int worker) {
        p0 *= unit, p1 = min(p1 * unit, panels);
        if (blocks)
          detail::gemm_blocks(
              s, s.lda, [&](isize, isize) { return a; }, packed_b, m0, m1, p0, p1,
              (float*)ctx.scratch(worker), sink);
        else if constexpr (detail::BLOCK_PANELS > 1)
          detail::gemm_few(s, a, packed_b, m0, m1, p0, p1, sink);
        else
          detail::gemm_part(s, a, packed_b, m0, m1, p0, p1, sink);
      });
}

}  // namespace infuse
