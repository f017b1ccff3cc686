// Matrix multiplication of operands rounded to bfloat16, summed up in float32; a Sink receives C.
//
// Two neighbours along k share 32 bits, a pair, the first in the lower half. B is packed as in gemm.hpp with pairs in
// place of floats: panel[pair][NR], one panel after another, columns and the odd end of k padded with
// zeros; in tiles where the processor multiplies those (tiles.hpp). Rows of A are rounded as they are
// copied, once for all panels.
#pragma once

#include "ahead.hpp"
#include "gemm_tiles.hpp"

namespace infuse {

// Pairs that k numbers fill.
constexpr isize bf16_pairs(isize k) { return (k + 1) / 2; }

namespace detail {

// sum + both products of each pair of bfloat16.
INFUSE_INLINE vf dot_pairs(vf sum, vi a, vi b) {
#if INFUSE_LANES == 16 && defined(__AVX512BF16__)
  INFUSE_ADDING(vdpbf16ps, sum, a, b);
  return sum;
#elif defined(INFUSE_SVE) && defined(__ARM_FEATURE_SVE_BF16)
  typedef svbfloat16_t sve_halves __attribute__((arm_sve_vector_bits(__ARM_FEATURE_SVE_BITS)));
  return (vf)(sve_floats)svbfdot_f32((sve_floats)sum, (sve_halves)a, (sve_halves)b);
#elif defined(INFUSE_NEON) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
  INFUSE_DOT(bfdot, "8h", sum, a, b);
  return sum;
#else
  const vi high = splat(int32_t(0xffff0000));
  sum = fma(as_float(a & high), as_float(b & high), sum);
  return fma(as_float(a << 16), as_float(b << 16), sum);
#endif
}

// Two vectors of neighbours, rounded to nearest even, as a vector of pairs.
INFUSE_INLINE void store_pairs(int32_t* to, vf low, vf high) {
#if INFUSE_LANES == 16 && defined(__AVX512BF16__)
  vi pairs;
  INFUSE_BINARY(vcvtne2ps2bf16, pairs, high, low);
  store(to, pairs, Full{});
#else
  store((bfloat16*)to, low, Full{});
  store((bfloat16*)to + LANES, high, Full{});
#endif
}

// A vector of neighbours, rounded to nearest even, as half a vector of pairs.
INFUSE_INLINE void store_rounded(int32_t* to, vf x) {
#if INFUSE_LANES == 16 && defined(__AVX512BF16__)
  typedef int32_t half_vi __attribute__((vector_size(LANES * 2)));
  half_vi pairs;
  INFUSE_UNARY(vcvtneps2bf16, pairs, x);
  memcpy(to, &pairs, sizeof pairs);
#else
  store((bfloat16*)to, x, Full{});
#endif
}

// Numbers of a row as pairs, zeros up to a whole vector of pairs; the next vector lies `step` words
// behind one.
INFUSE_INLINE void round_row(int32_t* to, const float* from, isize k, isize step = LANES) {
  isize p = 0;
#pragma GCC unroll 2
  for (; p + 2 * LANES <= k; p += 2 * LANES, to += step)
    store_pairs(to, load(from + p, Full{}), load(from + p + LANES, Full{}));
  if (p == k) return;
  const isize left = k - p;
  const vf low = load(from + p, Tail{int(min(left, isize(LANES)))});
  const vf high = left > LANES ? load(from + p + LANES, Tail{int(left - LANES)}) : vf{};
  store_pairs(to, low, high);
}

// The same of numbers that are rounded.
INFUSE_INLINE void copy_row(int32_t* to, const bfloat16* from, isize k, isize step = LANES) {
  for (; k >= 2 * LANES; k -= 2 * LANES, from += 2 * LANES, to += step)
    memcpy(to, from, LANES * sizeof(int32_t));
  if (k == 0) return;
  memset(to, 0, LANES * sizeof(int32_t));
  memcpy(to, from, size_t(k) * sizeof(bfloat16));
}

INFUSE_INLINE void round_row(int32_t* to, const bfloat16* from, isize k, isize step = LANES) {
  copy_row(to, from, k, step);
}

// What value(row, p, lanes) computes of a row, two vectors at a time, to take(number of the first,
// vector, vector); zeros behind its k numbers.
template <class Value, class Take>
INFUSE_INLINE void made_row(const Value& value, isize row, isize k, const Take& take) {
  isize p = 0;
  for (; p + 2 * LANES <= k; p += 2 * LANES)
    take(p, value(row, p, Full{}), value(row, p + LANES, Full{}));
  if (p == k) return;
  alignas(64) float rest[2 * LANES] = {};
  sweep(p, k, [&](isize q, auto lanes) { store(rest + q - p, value(row, q, lanes), lanes); });
  take(p, load(rest, Full{}), load(rest + LANES, Full{}));
}

typedef PanelSteps<BF16_TILES> PairSteps;

// out[R][NR] = R rows of pairs times the first V vectors of a panel.
// Few rows leave too few independent sums to hide the latency of a product, so they sum U steps apart.
template <int R, int V>
INFUSE_NOINLINE void pair_tile(const int32_t* rows, isize pitch, isize pairs, const int32_t* b,
                               float* out) {
  constexpr int U = R * V >= 8 ? 1 : R * V >= 4 ? 2 : 4;
  vf sum[U][R][V];
#pragma GCC unroll 16
  for (int u = 0; u < U; ++u)
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 16
      for (int j = 0; j < V; ++j) sum[u][i][j] = vf{};
  const int32_t* a[R];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) a[i] = rows + i * pitch + pairs;
  PairSteps steps(b);
  const auto step = [&](int u, isize p) __attribute__((always_inline)) {
    vi x[V];
#pragma GCC unroll 16
    for (int j = 0; j < V; ++j) x[j] = steps.half(j);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const vi y = splat(a[i][p]);
#pragma GCC unroll 16
      for (int j = 0; j < V; ++j) sum[u][i][j] = dot_pairs(sum[u][i][j], y, x[j]);
    }
    steps.next();
  };
  // Counting up to zero leaves a register free, and with it all row pointers stay in registers.
  isize p = -pairs;
  if constexpr (U > 1)
#pragma GCC unroll 1
    for (; p <= -U; p += U)
#pragma GCC unroll 16
      for (int u = 0; u < U; ++u) step(u, p + u);
#pragma GCC unroll 1
  for (; p != 0; ++p) step(0, p);
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 16
    for (int j = 0; j < V; ++j) {
#pragma GCC unroll 16
      for (int u = 1; u < U; ++u) sum[0][i][j] += sum[u][i][j];
      store(out + i * NR + j * LANES, sum[0][i][j], Full{});
    }
}

typedef void (*PairTile)(const int32_t*, isize, isize, const int32_t*, float*);

template <int V>
INFUSE_INLINE PairTile pair_tile_of(isize rows) {
  static constexpr PairTile tiles[] = {
      pair_tile<1, V>,  pair_tile<2, V>,  pair_tile<3, V>,  pair_tile<4, V>,
#if INFUSE_TILE_ROWS >= 6
      pair_tile<5, V>,  pair_tile<6, V>,
#endif
#if INFUSE_TILE_ROWS >= 8
      pair_tile<7, V>,  pair_tile<8, V>,
#endif
#if INFUSE_TILE_ROWS == 12
      pair_tile<9, V>,  pair_tile<10, V>, pair_tile<11, V>, pair_tile<12, V>,
#endif
  };
  return tiles[rows - 1];
}

// A full tile whose sums go to the sink without leaving the registers. Memory that the sink needs is asked for row by
// row meanwhile.
template <class Sink>
INFUSE_NOINLINE void full_pair_tile(const int32_t* a, isize lda, isize pairs, const int32_t* b,
                                    isize row, isize col, const Sink& sink) {
  vf sum[MR][2];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) sum[i][0] = sum[i][1] = vf{};
  const RowGroups<int32_t> rows(a, lda);
  PairSteps steps(b);
  const isize part = (pairs + MR - 1) / MR;
  isize p = 0, next = row;
#pragma GCC unroll 1
  while (p < pairs) {
    sink(vf{}, next, col, Ahead{});
    sink(vf{}, next, col + LANES, Ahead{});
    ++next;
    const isize stop = min(p + part, pairs);
#pragma GCC unroll 1
    for (; p < stop; ++p, steps.next()) {
      const vi x = steps.half(0), y = steps.half(1);
#pragma GCC unroll 16
      for (int i = 0; i < MR; ++i) {
        const vi z = splat(rows.at(i, p));
        sum[i][0] = dot_pairs(sum[i][0], z, x);
        sum[i][1] = dot_pairs(sum[i][1], z, y);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
    sink(sum[i][0], row + i, col, Full{});
    sink(sum[i][1], row + i, col + LANES, Full{});
  }
}

// The product of `count` <= MR rows and a panel of which `width` columns are wanted.
INFUSE_INLINE void edge_pair_tile(const int32_t* a, isize pitch, isize pairs, const int32_t* panel,
                                  isize count, isize width, float* out) {
  const PairTile run = width > LANES ? pair_tile_of<2>(count) : pair_tile_of<1>(count);
  run(a, pitch, pairs, panel, out);
}

// Rows [row, end) of pairs, pitch apart, times one panel.
template <class Sink>
INFUSE_NOINLINE void pair_rows(const int32_t* a, isize pitch, isize pairs, const int32_t* panel,
                               isize row, isize end, isize col, isize n, const Sink& sink) {
  alignas(64) float out[MR * NR];
  for (isize count; row < end; row += count, a += count * pitch) {
    count = tile_rows(end - row);
    if (n - col >= NR && count == MR) {
      full_pair_tile(a, pitch, pairs, panel, row, col, sink);
      continue;
    }
    edge_pair_tile(a, pitch, pairs, panel, count, n - col, out);
    drain(out, count, row, col, n, sink);
  }
}

// Rows that are rounded at a time: few where B stays in the second level cache, else as many as that holds, so that B
// passes by as seldom as can be.
constexpr isize pair_chunk(isize pairs, isize panels) {
  const isize row = 4 * gemm_pitch(pairs), held = panels * NR * pairs * 4;
  const isize budget = held <= INFUSE_BLOCK_BYTES / 2 ? INFUSE_BLOCK_BYTES / 16 : INFUSE_BLOCK_BYTES;
  return max(budget / max(row, isize(4)) / MR * MR, MR);
}

// Bytes of the rows that are held rounded.
constexpr isize pair_bytes(isize m, isize pairs, isize panels) {
  return min(m, pair_chunk(pairs, panels) + MR) * gemm_pitch(pairs) * 4;
}

// Rows [m0, m1) times panels [p0, p1), the first of which starts at column `col` of n. rows(i, end) points to the rows
// from i to end, pitch apart; it is called for one chunk after another.
template <class Rows, class Sink>
INFUSE_INLINE void pair_part(isize pairs, isize pitch, Rows&& rows, const int32_t* b, isize m0,
                             isize m1, isize p0, isize p1, isize col, isize n, isize chunk,
                             const Sink& sink) {
  const isize panel = panel_words(pairs, BF16_TILES) * NR;
  for (isize row = m0, end; row < m1; row = end) {
    end = chunk_end(row, m1, chunk);
    const int32_t* a = rows(row, end);
    for (isize p = p0; p < p1; ++p)
      pair_rows(a, pitch, pairs, b + p * panel, row, end, col + (p - p0) * NR, n, sink);
  }
}

// The same by tile registers: rows(i, end) gives them as those take them.
template <class Unit, class Rows, class Sink>
INFUSE_INLINE void tiled_pair_part(isize blocks, const Rows& rows, const int32_t* b, isize m0,
                                   isize m1, isize p0, isize p1, isize col, isize n, TiledCuts cuts,
                                   const Sink& sink) {
  tiled_part<Unit>(blocks, rows, b, m0, m1, p0, p1, n - col, cuts,
                   [&](const int32_t* sums, isize count, isize row, isize p) {
                     drain((const float*)sums, count, row, col + (p - p0) * NR, n, sink);
                   });
}

// The same of rows that fill(i, to) writes to `start` in blocks, TILE_WORDS from one to the next.
template <class Unit, class Fill, class Sink>
INFUSE_INLINE void filled_part(isize blocks, const Fill& fill, const bfloat16* b, isize m0, isize m1,
                               isize p0, isize p1, isize n, int32_t* start, TiledCuts cuts,
                               const Sink& sink) {
  const CompactRows held = {start, blocks};
  const auto rows = [&](isize row, isize end) {
    for (isize i = row; i < end; ++i) fill(i, held.row(i - row));
    return held.all();
  };
  tiled_pair_part<Unit>(blocks, rows, (const int32_t*)b, m0, m1, p0, p1, p0 * NR, n, cuts, sink);
}

// The product of a matrix whose rows fill(i, to) writes in blocks, TILE_WORDS from one to the next.
template <class Unit, class Fill, class Sink>
INFUSE_INLINE void tiled_gemm(Context& ctx, GemmSizes s, isize blocks, const Fill& fill,
                              const bfloat16* b, const Sink& sink) {
  const isize panels = ceil_div(s.n, NR);
  const TiledCuts cuts = tiled_cuts(s.m, blocks, panels);
  const auto part = [&](isize m0, isize m1, isize p0, isize p1, int worker) {
    int32_t* start = (int32_t*)ctx.scratch(worker);
    int32_t* sums = start + min(round_up(s.m, TILED_ROWS), cuts.chunk) * blocks * TILE_SIDE;
    filled_part<Unit>(blocks, fill, b, m0, m1, p0, p1, s.n, start,
                      {cuts.chunk, cuts.slices, sums}, sink);
  };
  tiled_parallel(ctx, s.m, panels, s.k, TILED_ROWS, part);
}

// Whether tile registers multiply so many rows of so many pairs.
constexpr bool takes_tiles(isize m, isize pairs) {
  return BF16_TILES && m > FEW_PAIR_ROWS && pairs > 0;
}

// The product of a matrix whose rows fill(i, to, step) writes as pairs.
template <class Fill, class Sink>
INFUSE_INLINE void gemm_pairs(Context& ctx, GemmSizes s, const Fill& fill, const bfloat16* b,
                              const Sink& sink) {
  const isize pairs = bf16_pairs(s.k), panels = ceil_div(s.n, NR), pitch = gemm_pitch(pairs);
  if constexpr (BF16_TILES)
    if (takes_tiles(s.m, pairs)) {
      const auto spread = [&](isize i, int32_t* to) { fill(i, to, TILE_WORDS); };
      return tiled_gemm<TiledPairs>(ctx, s, tiled_blocks(pairs), spread, b, sink);
    }
  const isize chunk = pair_chunk(pairs, panels);
  gemm_parallel(ctx, s.m, panels, s.k, [&](isize m0, isize m1, isize p0, isize p1, int worker) {
    int32_t* held = (int32_t*)ctx.scratch(worker);
    const auto rows = [&](isize row, isize end) {
      for (isize i = row; i < end; ++i) fill(i, held + (i - row) * pitch, LANES);
      return held;
    };
    pair_part(pairs, pitch, rows, (const int32_t*)b, m0, m1, p0, p1, p0 * NR, s.n, chunk, sink);
  });
}

}  // namespace detail

// Bytes of scratch that a worker needs for gemm_bf16.
constexpr isize gemm_bf16_scratch(GemmSizes s) {
  const isize pairs = bf16_pairs(s.k), panels = detail::ceil_div(s.n, NR);
  return detail::takes_tiles(s.m, pairs)
             ? detail::tiled_gemm_scratch(s.m, detail::tiled_blocks(pairs), panels)
             : detail::pair_bytes(s.m, pairs, panels);
}

// C[m][n] = A B with A[m][k] of row stride lda and B packed; row and col of the sink count in C.
template <class Sink>
void gemm_bf16(Context& ctx, GemmSizes s, const float* a, const bfloat16* packed_b,
               const Sink& sink) {
  if (s.m <= 0 || s.n <= 0) return;
  const auto fill = [&](isize i, int32_t* to, isize step) {
    detail::round_row(to, a + i * s.lda, s.k, step);
  };
  detail::gemm_pairs(ctx, s, fill, packed_b, sink);
}

// The same for rows that are rounded already: used in place where they lie well and vectors multiply.
template <class Sink>
void gemm_bf16(Context& ctx, GemmSizes s, const bfloat16* a, const bfloat16* packed_b,
               const Sink& sink) {
  if (s.m <= 0 || s.n <= 0) return;
  const isize pairs = bf16_pairs(s.k), pitch = s.lda / 2, panels = detail::ceil_div(s.n, NR);
  if (detail::takes_tiles(s.m, pairs) || s.k % 2 || s.lda % 2 || (uintptr_t)a % 4 ||
      detail::collides(pitch, pairs)) {
    const auto fill = [&](isize i, int32_t* to, isize step) {
      detail::copy_row(to, a + i * s.lda, s.k, step);
    };
    return detail::gemm_pairs(ctx, s, fill, packed_b, sink);
  }
  const auto rows = [&](isize row, isize) { return (const int32_t*)a + row * pitch; };
  const isize chunk = detail::pair_chunk(pairs, panels);
  detail::gemm_parallel(ctx, s.m, panels, s.k, [&](isize m0, isize m1, isize p0, isize p1, int) {
    detail::pair_part(pairs, pitch, rows, (const int32_t*)packed_b, m0, m1, p0, p1, p0 * NR, s.n,
                      chunk, sink);
  });
}

// The same where value(row, k, lanes) computes A, once for every part of the columns that a thread
// of its own works on.
template <class Value, class Sink>
void gemm_made_bf16(Context& ctx, GemmSizes s, const Value& value, const bfloat16* packed_b,
                    const Sink& sink) {
  if (s.m <= 0 || s.n <= 0) return;
  const auto fill = [&](isize i, int32_t* to, isize step) {
    detail::made_row(value, i, s.k, [&](isize p, vf first, vf second) {
      detail::store_pairs(to + p / (2 * LANES) * step, first, second);
    });
  };
  detail::gemm_pairs(ctx, s, fill, packed_b, sink);
}

}  // namespace infuse
