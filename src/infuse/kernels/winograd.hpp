// Convolution with stride 1, or 3 x 3 with stride 2, by F(M x M, R x R).
//
// With the matrices of winograd_lines.hpp, a tile d of the image and a window g give M x M results
//
//   A^T [ (G g G^T) * (B^T d B) ] A        * element by element, summed over the channels,
//
// so that N N products do the work of R R M M. A window that is one number high or wide has tiles
// in the other dimension only. The sums over channels are a matrix product for every point of a
// tile, tiles x channels times channels x output channels, done for a block of tiles that stays in
// the second level cache.
//
// Weights are G g G^T as [panel][point][channel][NR]; a point with several planes has their
// channels one after another, those of every plane filled up to whole vectors. The template
// argument `Kind` says what they and the tiles are made of: floats, pairs of bfloat16
// (winograd_bf16.hpp), or floats and halves (winograd_fp16.hpp).
#pragma once

#include "conv.hpp"
#include "tiles.hpp"
#include "winograd_lines.hpp"

namespace infuse {

namespace detail {

// Where tiles lie, and the sizes of their blocks.
template <class Down, class Across, class Kind>
struct Winograd {
  static constexpr int POINTS = Down::N * Across::N;
  static constexpr isize WORD = sizeof(float);

  // Words of one plane of a tile, from one tile to the next, and before those of point i.
  static constexpr isize plane(const ConvSizes& s) {
    return Down::PLANES * Across::PLANES == 1 ? Kind::depth(s.channels)
                                              : ceil_div(Kind::depth(s.channels), LANES) * LANES;
  }
  static constexpr int planes(int i) {
    return Down::planes(i / Across::N) * Across::planes(i % Across::N);
  }
  static constexpr isize depth(const ConvSizes& s, int i) {
    return planes(i) == 1 ? Kind::depth(s.channels) : planes(i) * plane(s);
  }
  static constexpr isize pitch(const ConvSizes& s) {
    return gemm_pitch(Down::PLANES * Across::PLANES * plane(s));
  }

  // Tiles of an image down and across, and of all images.
  static constexpr isize down(const ConvSizes& s) { return ceil_div(s.out_height, Down::M); }
  static constexpr isize across(const ConvSizes& s) { return ceil_div(s.out_width, Across::M); }
  static constexpr isize tiles(const ConvSizes& s) { return s.batch * down(s) * across(s); }

  // The most tiles of a block.
  static constexpr isize block(const ConvSizes& s) {
    const isize fits = INFUSE_BLOCK_BYTES / 4 / (POINTS * pitch(s) * WORD);
    return min(max(fits, 2 * MR), tiles(s));
  }

  // Words from the matrix of one point to the next: a line more, so that they do not collide.
  static constexpr isize input_step(const ConvSizes& s, isize count) {
    return count * pitch(s) + 16;
  }
  static constexpr isize output_step(isize count) { return count * NR + 16; }

  // Words of all points, and of rows behind the last one that a product may read.
  static constexpr isize inputs(const ConvSizes& s) {
    return POINTS * input_step(s, block(s)) + Kind::ROWS_BEHIND * pitch(s);
  }

  static constexpr isize zeros(const ConvSizes& s) { return ceil_div(s.channels, 16) * 16; }
  static constexpr isize scratch(const ConvSizes& s) {
    return (zeros(s) + inputs(s) + POINTS * output_step(block(s))) * WORD;
  }
};

// The transformed tiles [first, first + count): out[point][tile][plane][channel].
template <class Down, class Across, class Kind>
INFUSE_NOINLINE void winograd_input(const ConvSizes& s, const float* x, const float* zeros,
                                    isize first, isize count, typename Kind::Word* out, isize step) {
  typedef Winograd<Down, Across, Kind> W;
  constexpr int H = Down::SPAN, L = Across::SPAN;
  const isize across = W::across(s), down = W::down(s), pitch = W::pitch(s), plane = W::plane(s);
  for (isize t = 0; t < count; ++t, out += pitch) {
    const isize tile = first + t, image = tile / (across * down);
    const isize y = tile / across % down * Down::M * Down::STEP - s.pad_top;
    const isize i = tile % across * Across::M * Across::STEP - s.pad_left;
    const float* from[H][L];
    for (isize r = 0; r < H; ++r)
      for (isize q = 0; q < L; ++q) {
        const bool inside = (usize)(y + r) < (usize)s.height &&
                            (usize)(i + q) < (usize)s.width;
        from[r][q] =
            inside ? x + ((image * s.height + y + r) * s.width + i + q) * s.pitch : zeros;
      }
    sweep(0, s.channels, [&](isize c, auto lanes) {
      vf half[Down::PLANES][Down::N][L];
#pragma GCC unroll 10
      for (int q = 0; q < L; ++q) {
        vf column[H], turned[Down::PLANES][Down::N];
#pragma GCC unroll 10
        for (int r = 0; r < H; ++r) column[r] = load(from[r][q] + c, lanes);
        Down::to_tile(column, turned);
#pragma GCC unroll 2
        for (int a = 0; a < Down::PLANES; ++a)
#pragma GCC unroll 10
          for (int r = 0; r < Down::N; ++r) half[a][r][q] = turned[a][r];
      }
#pragma GCC unroll 2
      for (int a = 0; a < Down::PLANES; ++a)
#pragma GCC unroll 10
        for (int r = 0; r < Down::N; ++r) {
          if (a >= Down::planes(r)) continue;
          vf turned[Across::PLANES][Across::N];
          Across::to_tile(half[a][r], turned);
#pragma GCC unroll 10
          for (int q = 0; q < Across::N; ++q)
#pragma GCC unroll 2
            for (int b = 0; b < Across::planes(q); ++b)
              Kind::store(out + (r * Across::N + q) * step + (a * Across::planes(q) + b) * plane, c,
                          turned[b][q]);
        }
    });
    for (int p = 0; p < W::POINTS; ++p) Kind::fill_up(out + p * step, s.channels);
  }
}

// The results of one tile in one vector of channels: from[point] `step` apart to out[M][M].
template <class Down, class Across>
INFUSE_NOINLINE void winograd_output(const float* from, isize step, float* out) {
  vf half[Down::M][Across::N];
#pragma GCC unroll 10
  for (int q = 0; q < Across::N; ++q) {
    vf column[Down::N], turned[Down::M];
#pragma GCC unroll 10
    for (int r = 0; r < Down::N; ++r) column[r] = load(from + (r * Across::N + q) * step, Full{});
    Down::from_tile(column, turned);
#pragma GCC unroll 5
    for (int r = 0; r < Down::M; ++r) half[r][q] = turned[r];
  }
#pragma GCC unroll 5
  for (int r = 0; r < Down::M; ++r) {
    vf turned[Across::M];
    Across::from_tile(half[r], turned);
#pragma GCC unroll 5
    for (int q = 0; q < Across::M; ++q)
      store(out + (r * Across::M + q) * LANES, turned[q], Full{});
  }
}

// Results of the tiles [first, first + count) in the vector of channels at col, to the sink.
template <class Down, class Across, class L, class Sink>
INFUSE_NOINLINE void winograd_drain(const ConvSizes& s, const float* from, isize step, isize first,
                                    isize count, isize col, L lanes, const Sink& sink) {
  typedef Winograd<Down, Across, void> W;
  const isize across = W::across(s), down = W::down(s);
  alignas(64) float out[Down::M * Across::M * LANES];
  for (isize t = 0; t < count; ++t) {
    const isize tile = first + t, line = tile / across;
    const isize y0 = line % down * Down::M, x0 = tile % across * Across::M;
    winograd_output<Down, Across>(from + t * NR, step, out);
    const isize ys = min(s.out_height - y0, isize(Down::M)),
               xs = min(s.out_width - x0, isize(Across::M));
    for (isize y = 0; y < ys; ++y)
      for (isize x = 0; x < xs; ++x)
        sink(load(out + (y * Across::M + x) * LANES, Full{}),
             (line / down * s.out_height + y0 + y) * s.out_width + x0 + x, col, lanes);
  }
}

}  // namespace detail

// Tiles of floats, weights of what a load widens to floats.
template <class W>
struct WinogradOf {
  typedef float Word;
  typedef W Weight;
  typedef NoRegisters Registers;          // that products need around them
  static constexpr isize ROWS_BEHIND = 0;  // that a product may read

  // Words that c channels fill.
  static constexpr isize depth(isize c) { return c; }

  // A vector of channels, from channel c of the row `to` on.
  static INFUSE_INLINE void store(float* to, isize c, vf x) { infuse::store(to + c, x, Full{}); }

  // Ends a row of c channels.
  static INFUSE_INLINE void fill_up(float*, isize) {}

  // out[count][NR] = a[count][k] times a panel of which `width` columns are wanted.
  static INFUSE_NOINLINE void product(const float* a, isize pitch, isize k, isize count,
                                      const W* panel, isize width, float* out) {
    if constexpr (sizeof(W) == sizeof(float))
      if (count < 2 * MR && count != MR && k > 0)
        return detail::few_rows(a, pitch, k, panel, count, min(width, NR), out);
    for (isize rows, first = count; count > 0; count -= rows, a += rows * pitch, out += rows * NR) {
      rows = detail::tile_rows(count);
      if (sizeof(W) == sizeof(float) && count == first && rows == MR && width >= NR)
        detail::full_tile(a, pitch, k, panel, 0, 0, detail::StoreTile{out},
                          detail::AskBehind{(const float*)(panel + k * NR)});
      else if (rows == MR && width >= NR)
        detail::full_tile(a, pitch, k, panel, 0, 0, detail::StoreTile{out});
      else
        detail::edge_tile(a, pitch, k, panel, rows, width, out);
    }
  }
};
typedef WinogradOf<float> WinogradFloats;

namespace detail {

// The tiles [t0, t1) of a block times panels [p0, p1). `input` holds the whole block, whose first
// tile is `first`.
template <class Down, class Across, class Kind, class Sink>
INFUSE_NOINLINE void winograd_part(const ConvSizes& s, const typename Kind::Word* input, isize step,
                                   const typename Kind::Weight* w, isize first, isize t0, isize t1,
                                   isize p0, isize p1, float* products, const Sink& sink) {
  typedef Winograd<Down, Across, Kind> W;
  const isize pitch = W::pitch(s), count = t1 - t0, gap = W::output_step(count);
  [[maybe_unused]] const typename Kind::Registers registers;
  isize panel = 0;
  for (int i = 0; i < W::POINTS; ++i) panel += W::depth(s, i) * NR;
  for (isize p = p0; p < p1; ++p) {
    const isize col = p * NR, left = s.out_channels - col;
    const typename Kind::Weight* matrix = w + p * panel;
    for (int i = 0; i < W::POINTS; ++i) {
      const isize depth = W::depth(s, i);
      Kind::product(input + i * step + t0 * pitch, pitch, depth, count, matrix, left,
                    products + i * gap);
      matrix += depth * NR;
    }
    for (isize v = 0; v < min(left, NR); v += LANES)
      if (left - v >= LANES)
        winograd_drain<Down, Across>(s, products + v, gap, first + t0, count, col + v, Full{},
                                     sink);
      else
        winograd_drain<Down, Across>(s, products + v, gap, first + t0, count, col + v,
                                     Tail{int(left - v)}, sink);
  }
}

}  // namespace detail

// What does not depend on a sink (see gemm_shared.hpp), of tiles of floats with these lines.
#define INFUSE_SHARED_WINOGRAD(how, M, R, S, M2, R2, S2)                                         \
  namespace infuse {                                                                             \
  namespace detail {                                                                             \
  how template void winograd_input<Line<M, R, S>, Line<M2, R2, S2>, WinogradFloats>(             \
      const ConvSizes&, const float*, const float*, isize, isize, float*, isize);                   \
  how template void winograd_output<Line<M, R, S>, Line<M2, R2, S2>>(const float*, isize, float*); \
  }                                                                                              \
  }

// Bytes of scratch that a worker needs for winograd.
template <class Down, class Across, class Kind = WinogradFloats>
constexpr isize winograd_scratch(const ConvSizes& s) {
  return detail::Winograd<Down, Across, Kind>::scratch(s);
}

// As conv, where windows and strides are those of the lines, dilations are 1 and groups = 1.
template <class Down, class Across, class Kind = WinogradFloats, class Sink>
void winograd(Context& ctx, ConvSizes s, const float* x, const typename Kind::Weight* packed_w,
              const Sink& sink) {
  typedef detail::Winograd<Down, Across, Kind> W;
  typedef typename Kind::Word Word;
  isize work = 0;
  for (int i = 0; i < W::POINTS; ++i) work += W::depth(s, i);
  const isize tiles = W::tiles(s), panels = detail::ceil_div(s.out_channels, NR),
             block = W::block(s);
  if (tiles <= 0 || s.out_channels <= 0) return;
  const detail::Grid grid = detail::gemm_grid(ctx.threads, tiles, panels, work);
  const isize most = W::inputs(s);

  if (grid.panels == 1) {
    const isize each = detail::ceil_div(detail::ceil_div(tiles, grid.rows), block);
    const isize parts = grid.rows * min(each, PIECES);
    ctx.parallel(parts, [&](isize begin, isize end, int worker) {
      float* zeros = (float*)ctx.scratch(worker);
      Word* input = (Word*)(zeros + W::zeros(s));
      float* products = (float*)(input + most);
      memset(zeros, 0, size_t(s.channels) * sizeof(float));
      const isize t0 = detail::split(tiles, parts, begin), t1 = detail::split(tiles, parts, end);
      const isize blocks = detail::ceil_div(t1 - t0, block);
      for (isize b = 0; b < blocks; ++b) {
        const isize first = t0 + detail::split(t1 - t0, blocks, b);
        const isize count = t0 + detail::split(t1 - t0, blocks, b + 1) - first;
        const isize step = W::input_step(s, count);
        detail::winograd_input<Down, Across, Kind>(s, x, zeros, first, count, input, step);
        detail::winograd_part<Down, Across, Kind>(s, input, step, packed_w, first, 0, count, 0,
                                                  panels, products, sink);
      }
    });
    return;
  }

  // The threads transform a block of tiles together and then share its products.
  float* zeros = (float*)ctx.scratch(0);
  Word* input = (Word*)(zeros + W::zeros(s));
  memset(zeros, 0, size_t(s.channels) * sizeof(float));
  for (isize first = 0, count; first < tiles; first += count) {
    count = min(block, tiles - first);
    const isize step = W::input_step(s, count);
    ctx.parallel(count, [&](isize begin, isize end, int) {
      detail::winograd_input<Down, Across, Kind>(s, x, zeros, first + begin, end - begin,
                                input + begin * W::pitch(s), step);
    });
    ctx.parallel(grid.rows * grid.panels, [&](isize begin, isize end, int worker) {
      float* products = (float*)ctx.scratch(worker) + W::zeros(s) + most;
      for (isize u = begin; u < end; ++u) {
        const isize r = u / grid.panels, p = u % grid.panels;
        detail::winograd_part<Down, Across, Kind>(
            s, input, step, packed_w, first, detail::split(count, grid.rows, r),
            detail::split(count, grid.rows, r + 1), detail::split(panels, grid.panels, p),
            detail::split(panels, grid.panels, p + 1), products, sink);
      }
    });
  }
}

}  // namespace infuse
