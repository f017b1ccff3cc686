// Products of two computed operands (matmul.hpp) by tile registers, rounded to bfloat16
// (matmul_bf16.hpp) or split into two each (matmul_bf16x2.hpp); rows and panels are packed as they
// are needed.
#pragma once

#include "matmul.hpp"
#include "tile_operands.hpp"

namespace infuse {
namespace detail {

// What a worker's scratch holds: a group of panels, a chunk of rows, and numbers on their way
// there.
template <class Products>
struct TiledMatmulSpace {
  typedef TileOperands<Products> Operands;
  isize words;         // of a row or a column
  isize group, chunk;  // panels, rows
  isize pitch;         // floats from one copied row to the next

  explicit constexpr TiledMatmulSpace(const MatmulSizes& s)
      : words(Operands::words(s.k)),
        group(min(max(INFUSE_BLOCK_BYTES / 2 / max(4 * NR * words, isize(1)), isize(1)), ceil_div(s.n, NR))),
        chunk(min(max(INFUSE_BLOCK_BYTES / 4 / max(4 * words, isize(1)) / TILED_ROWS * TILED_ROWS,
                      TILED_ROWS),
                  round_up(s.m, TILED_ROWS))),
        pitch(gemm_pitch(s.k)) {}

  constexpr isize panel() const { return words * NR; }
  constexpr isize bytes() const {
    return (group * panel() + chunk * words + max(Operands::HELD, TILE_SIDE * pitch)) * 4;
  }
};

// One panel of `width` columns of a matrix of k rows.
template <class Products>
inline void pack_tiled_panel(const MatmulSizes& s, const float* b, isize width, int32_t* panel,
                             int32_t* held) {
  typedef TileOperands<Products> Operands;
  if (s.b_col == 1) return Operands::rows(b, s.b_row, s.k, width, panel);
  if (s.b_row == 1) {
    for (isize j = 0; j < width; j += TILE_SIDE)
      Operands::columns(b + j * s.b_col, s.b_col, min(width - j, TILE_SIDE), s.k,
                        panel + j / TILE_SIDE * TILE_WORDS, held);
    return;
  }
  const isize pairs = Operands::words(s.k) / Products::BLOCKS;
  for (isize j = 0; j < pairs; ++j) {
    float both[2][TILED_ROWS] = {};
    for (isize i = 0; i < 2 && 2 * j + i < s.k; ++i)
      for (isize c = 0; c < width; ++c) both[i][c] = b[(2 * j + i) * s.b_row + c * s.b_col];
    Operands::pair_of_rows(both[0], both[1], width, j, panel);
  }
}

// As matmul_part. Few rows and single columns stay in float32.
template <class Products, class Sink>
inline void tiled_matmul_part(const MatmulSizes& s, const float* a, const float* b, isize first,
                              isize m0, isize m1, isize p0, isize p1, void* scratch,
                              HeldPanels& held, const Sink& sink) {
  typedef TileOperands<Products> Operands;
  const TiledMatmulSpace<Products> space(s);
  int32_t* panels = (int32_t*)scratch;
  int32_t* start = panels + space.group * space.panel();
  float* numbers = (float*)(start + space.chunk * space.words);
  if (few_part(s, a, b, first, m0, m1, p0, p1, numbers, sink)) return;
  const isize blocks = space.words / TILE_SIDE;
  const CompactRows rows = {start, blocks};
  const auto chunk_of = [&](isize row, isize end) {
    for (isize i = row; i < end; ++i) {
      const float* from = a + i * s.a_row;
      if (s.a_col != 1) {
        const isize place = (i - row) % TILE_SIDE;
        if (place == 0)
          copy_matrix(numbers, space.pitch, from, s.a_row, s.a_col, min(end - i, TILE_SIDE), s.k);
        from = numbers + place * space.pitch;
      }
      Operands::row(rows.row(i - row), from, s.k, TILE_WORDS);
    }
    return rows.all();
  };
  const auto shifted = [&](auto sum, isize row, isize col, auto lanes)
                           __attribute__((always_inline)) { sink(sum, first + row, col, lanes); };
  for (isize p = p0; p < p1; p += space.group) {
    const isize end = min(p + space.group, p1);
    if (!held.hold(b, p, end))
      for (isize j = p; j < end; ++j)
        pack_tiled_panel<Products>(s, b + j * NR * s.b_col, min(NR, s.n - j * NR),
                                   panels + (j - p) * space.panel(), (int32_t*)numbers);
    tiled_pair_part<Products>(blocks, chunk_of, panels, m0, m1, 0, end - p, p * NR, s.n,
                              {space.chunk}, shifted);
  }
}

template <class Products, class AStart, class BStart, class Sink>
inline void tiled_matmul(Context& ctx, const MatmulSizes& s, const float* a, const float* b,
                         const AStart& a_at, const BStart& b_at, const Sink& sink) {
  static_assert(has_tiles<Sink>, "tile registers multiply");
  if (s.k <= 0) return matmul(ctx, s, a, b, a_at, b_at, sink);
  each_matmul_part(ctx, s, [&](HeldPanels& held, isize i, isize first, isize m0, isize m1, isize p0,
                               isize p1, void* scratch) {
    tiled_matmul_part<Products>(s, a + a_at(i), b + b_at(i), first, m0, m1, p0, p1, scratch, held,
                                sink);
  });
}

template <class Products, class Sink>
inline void tiled_matmul(Context& ctx, MatmulSizes s, const float* a, const float* b,
                         const Sink& sink) {
  s = matmul_joined(s);
  tiled_matmul<Products>(
      ctx, s, a, b, [&](isize i) { return i * s.a_batch; }, [&](isize i) { return i * s.b_batch; },
      sink);
}

template <class Products>
constexpr isize tiled_matmul_scratch(const MatmulSizes& s) {
  return max(TiledMatmulSpace<Products>(matmul_joined(s)).bytes(), matmul_scratch(s));
}

}  // namespace detail

}  // namespace infuse
