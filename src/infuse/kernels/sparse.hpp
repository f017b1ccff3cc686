// Products with a constant matrix of which most blocks are zero: only the others are stored and
// multiplied.
//
// A block is one row of LANES columns; of integers, one group of rows (integer_layouts.hpp), whose
// numbers fill a word for each column. The blocks of LANES columns stand one after another, with the
// numbers of their rows beside them. Rows of the left operand are turned in tiles, [word][row], so
// that a block meets those of a tile side by side.
#pragma once

#include "gemm.hpp"
#include "transpose.hpp"

namespace infuse {

// m rows of k elements, `lda` apart, times a matrix of n columns with `filled` blocks.
struct SparseSizes {
  isize m, n, k, lda, filled;
};

// A matrix without its zero blocks: those of columns [p · LANES, (p + 1) · LANES) are blocks
// [starts[p], starts[p + 1]), in the order of their rows, which `places` has.
template <class Word>
struct FilledBlocks {
  const int32_t* starts;
  const uint16_t* places;
  const Word* blocks;
};

namespace sparse_detail {

constexpr int ROWS = INFUSE_REGISTERS / 2;  // rows of a tile, a power of two
static_assert((ROWS & (ROWS - 1)) == 0, "tiles are halved for the last rows");

struct FloatUnit {
  typedef float Word;
  static INFUSE_INLINE vf add(vf sum, vf a, vf b) { return fma(a, b, sum); }
};

// out[R][NR]: the first LANES columns of it are rows [word][R] times `count` blocks.
// Few rows leave too few independent sums to hide the latency of fma, so they sum U blocks apart.
template <class Unit, int R>
INFUSE_NOINLINE void tile(const typename Unit::Word* rows, const uint16_t* places,
                          const typename Unit::Word* blocks, isize count,
                          typename Unit::Word* out) {
  typedef decltype(load(blocks, Full{})) Vector;
  constexpr int U = R >= 8 ? 1 : 8 / R;
  Vector sum[U][R];
#pragma GCC unroll 16
  for (int u = 0; u < U; ++u)
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) sum[u][r] = Vector{};
  const auto step = [&](int u) __attribute__((always_inline)) {
    const Vector block = load(blocks, Full{});
    const typename Unit::Word* row = rows + isize(*places) * R;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) sum[u][r] = Unit::add(sum[u][r], splat(row[r]), block);
    ++places, blocks += LANES;
  };
#pragma GCC unroll 1
  for (; count >= U; count -= U)
#pragma GCC unroll 16
    for (int u = 0; u < U; ++u) step(u);
#pragma GCC unroll 1
  for (; count > 0; --count) step(0);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
    for (int u = 1; u < U; ++u) sum[0][r] += sum[u][r];
    store(out + r * NR, sum[0][r], Full{});
  }
}

template <class Unit>
using Tile = void (*)(const typename Unit::Word*, const uint16_t*, const typename Unit::Word*, isize,
                      typename Unit::Word*);

template <class Unit>
INFUSE_INLINE Tile<Unit> tile_of(isize rows) {
  if constexpr (ROWS == 16)
    if (rows == 16) return tile<Unit, 16>;
  return rows == 8   ? tile<Unit, 8>
         : rows == 4 ? tile<Unit, 4>
         : rows == 2 ? tile<Unit, 2>
                     : tile<Unit, 1>;
}

// Rows of the next tile when `left` remain.
INFUSE_INLINE isize tile_rows(isize left) {
  isize rows = ROWS;
  while (rows > left) rows /= 2;
  return rows;
}

// Rows that are turned at once: as many as leave half of the second level cache to the blocks.
constexpr isize chunk_rows(isize words) {
  return max(INFUSE_BLOCK_BYTES / 8 / max(words, isize(1)) / ROWS * ROWS, isize(ROWS));
}

// Bytes of the turned rows of a chunk.
constexpr isize turned_bytes(isize m, isize words) {
  return min(chunk_rows(words), detail::ceil_div(max(m, isize(1)), isize(ROWS)) * ROWS) * words * 4;
}

// Turns rows that are `stride` words apart: to[word][count].
template <class Word>
INFUSE_INLINE void turn_rows(Word* to, const Word* from, isize stride, isize words, isize count) {
  static_assert(sizeof(Word) == 4, "words are turned as such");
  if (count == 1)
    memcpy(to, from, size_t(words) * sizeof(Word));
  else
    copying::turn_words(to, count, from, stride, words, count);
}

// m rows of so many words times a matrix. turn(row, count, to, spare) turns the rows of a tile, for
// which it may use memory behind those of a chunk, and says whether they are as usual; where they are
// not, finish(out, count, row, panel, rows) receives them beside the sums of a tile of NR columns.
template <class Unit, class Turn, class Finish>
inline void product(Context& ctx, isize m, isize n, isize words, isize filled,
                    FilledBlocks<typename Unit::Word> w, const Turn& turn, const Finish& finish) {
  typedef typename Unit::Word Word;
  const isize panels = detail::ceil_div(n, NR), halves = detail::ceil_div(n, isize(LANES));
  const isize depth = detail::ceil_div(filled, halves) + 1;
  detail::gemm_parallel(ctx, m, panels, depth, [&](isize m0, isize m1, isize p0, isize p1, int worker) {
    alignas(64) Word out[ROWS * NR];
    Word* held = (Word*)ctx.scratch(worker);
    const isize chunk = chunk_rows(words);
    char* spare = (char*)(held + chunk * words);
    for (isize first = m0, end; first < m1; first = end) {
      end = min(first + chunk, m1);
      bool usual = true;
      for (isize row = first, count; row < end; row += count) {
        count = tile_rows(end - row);
        usual &= turn(row, count, held + (row - first) * words, spare);
      }
      for (isize p = p0; p < p1; ++p)
        for (isize row = first, count; row < end; row += count) {
          count = tile_rows(end - row);
          const Word* rows = held + (row - first) * words;
          const Tile<Unit> run = tile_of<Unit>(count);
          for (isize half = 2 * p; half < min(2 * p + 2, halves); ++half) {
            const isize start = w.starts[half];
            run(rows, w.places + start, w.blocks + start * LANES, w.starts[half + 1] - start,
                out + half % 2 * LANES);
          }
          finish(out, count, row, p, usual ? nullptr : rows);
        }
    }
  });
}

// What zero blocks of LANES columns add to a tile: nothing, but NaN where they meet what is infinite
// or no number.
INFUSE_NOINLINE inline void add_zeros(FilledBlocks<float> w, isize half, const float* rows,
                                      isize words, isize count, float* out) {
  for (isize r = 0; r < count; ++r) {
    float sum = 0;
    isize next = w.starts[half];
    for (isize k = 0; k < words; ++k)
      if (next < w.starts[half + 1] && w.places[next] == k)
        ++next;
      else
        sum += rows[k * count + r] * 0.0f;
    store(out + r * NR, load(out + r * NR, Full{}) + splat(sum), Full{});
  }
}

// Whether all elements are finite.
INFUSE_INLINE bool all_finite(const float* x, isize count) {
  vf sum = {};
  sweep(0, count, [&](isize i, auto lanes) { sum += load(x + i, lanes) * splat(0.0f); });
  return !any(sum != sum);
}

}  // namespace sparse_detail

// Bytes of scratch that a worker needs for sparse_gemm.
constexpr isize sparse_gemm_scratch(SparseSizes s) {
  return sparse_detail::turned_bytes(s.m, s.k);
}

// C[m][n] = A B, as gemm has it, for a B whose zero blocks are left out. Infinities and NaN of A make
// NaN of zeros here, too.
template <class Sink>
void sparse_gemm(Context& ctx, SparseSizes s, const float* a, const int32_t* starts,
                 const uint16_t* places, const float* blocks, const Sink& sink) {
  using namespace sparse_detail;
  if (s.m <= 0 || s.n <= 0) return;
  const FilledBlocks<float> w = {starts, places, blocks};
  const auto turn = [&](isize row, isize count, float* to, char*) {
    turn_rows(to, a + row * s.lda, s.lda, s.k, count);
    return all_finite(to, s.k * count);
  };
  const auto finish = [&](float* out, isize count, isize row, isize p, const float* unusual) {
    const isize halves = detail::ceil_div(s.n, isize(LANES));
    for (isize half = 2 * p; unusual && half < min(2 * p + 2, halves); ++half)
      add_zeros(w, half, unusual, s.k, count, out + half % 2 * LANES);
    detail::drain(out, count, row, p * NR, s.n, sink);
  };
  product<FloatUnit>(ctx, s.m, s.n, s.k, s.filled, w, turn, finish);
}

}  // namespace infuse
