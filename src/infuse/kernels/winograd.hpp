// Convolution with a 3 x 3 window and stride 1 by F(M x M, 3 x 3), M = 4 or 2.
//
// With N = M + 2, an N x N tile d of the image and a window g give M x M results
//
//   A^T [ (G g G^T) * (B^T d B) ] A        * element by element, summed over the channels,
//
// so that N N products do the work of 9 M M. The sums over channels are N N matrix products of
// tiles x channels times channels x output channels, done for a block of tiles that stays in the
// second level cache. The matrices belong to the points 0, 1, -1, infinity for M = 2 and, with
// a = sqrt(1/2) and b = sqrt(2), 0, a, -a, b, -b, infinity for M = 4, which keeps four times more
// accuracy than 0, 1, -1, 2, -2, infinity:
//
//   M = 4   B^T = [1  0 -5/2  0   1  0]   G = 1/6 [ 6  0  0]   A^T = [1  1   1   1   1  0]
//                 [0 -b  -2   a   1  0]           [-4 -2b -2]        [0  a  -a   b  -b  0]
//                 [0  b  -2  -a   1  0]           [-4  2b -2]        [0 1/2 1/2  2   2  0]
//                 [0 -a -1/2  b   1  0]           [ 1  b   2]        [0 a/2 -a/2 2b -2b 1]
//                 [0  a -1/2 -b   1  0]           [ 1 -b   2]
//                 [0  1   0 -5/2  0  1]           [ 0  0   6]
//
//   M = 2   B^T = [1  0 -1  0]         G = 1/2  [ 2  0  0]   A^T = [1  1  1  0]
//                 [0  1  1  0]                  [ 1  1  1]         [0  1 -1  1]
//                 [0 -1  1  0]                  [ 1 -1  1]
//                 [0 -1  0  1]                  [ 0  0  2]
//
// Weights are G g G^T as [panel][N N][channel][NR]. The template argument `Kind` says what they
// and the tiles are made of: floats, pairs of bfloat16 (winograd_bf16.hpp), or floats and halves
// (winograd_fp16.hpp).
#pragma once

#include "conv.hpp"

namespace infuse {
namespace detail {

// ---- one-dimensional transforms: B^T x and A^T x ---------------------------------------------

INFUSE_INLINE void to_tile(const vf (&x)[6], vf (&y)[6]) {
  const vf a = splat(0.707106781f), b = splat(1.41421356f);
  const vf half = splat(-0.5f), two = splat(-2.0f), five_halves = splat(-2.5f);
  const vf even_a = fma(two, x[2], x[4]), odd_a = fma(two, x[1], x[3]);
  const vf even_b = fma(half, x[2], x[4]), odd_b = fma(half, x[1], x[3]);
  y[0] = fma(five_halves, x[2], x[4]) + x[0];
  y[1] = fma(a, odd_a, even_a);
  y[2] = fma(-a, odd_a, even_a);
  y[3] = fma(b, odd_b, even_b);
  y[4] = fma(-b, odd_b, even_b);
  y[5] = fma(five_halves, x[3], x[5]) + x[1];
}

INFUSE_INLINE void to_tile(const vf (&x)[4], vf (&y)[4]) {
  y[0] = x[0] - x[2];
  y[1] = x[1] + x[2];
  y[2] = x[2] - x[1];
  y[3] = x[3] - x[1];
}

INFUSE_INLINE void from_tile(const vf (&x)[6], vf (&y)[4]) {
  const vf near = x[1] + x[2], far = x[3] + x[4];
  const vf near_odd = x[1] - x[2], far_odd = x[3] - x[4];
  y[0] = x[0] + near + far;
  y[1] = fma(splat(2.0f), far_odd, near_odd) * 0.707106781f;
  y[2] = fma(splat(4.0f), far, near) * 0.5f;
  y[3] = fma(splat(2.82842712f), far_odd, fma(splat(0.353553391f), near_odd, x[5]));
}

INFUSE_INLINE void from_tile(const vf (&x)[4], vf (&y)[2]) {
  y[0] = x[0] + x[1] + x[2];
  y[1] = x[1] - x[2] + x[3];
}

// ---- tiles -----------------------------------------------------------------------------------

// Where tiles lie, and the sizes of their blocks.
template <int M, class Kind>
struct Winograd {
  static constexpr int N = M + 2;
  static constexpr long WORD = sizeof(float);

  // Words from one tile to the next.
  static constexpr long pitch(const ConvShape& s) { return gemm_pitch(Kind::depth(s.c)); }

  // Tiles of an image down and across, and of all images.
  static constexpr long down(const ConvShape& s) { return ceil_div(s.oh, M); }
  static constexpr long across(const ConvShape& s) { return ceil_div(s.ow, M); }
  static constexpr long tiles(const ConvShape& s) { return s.n * down(s) * across(s); }

  // The most tiles of a block.
  static constexpr long block(const ConvShape& s) {
    const long fits = INFUSE_L2_BYTES / 4 / (N * N * pitch(s) * WORD);
    return min(max(fits, 2 * MR), tiles(s));
  }

  // Words from one of the N N matrices to the next: a line more, so that they do not collide.
  static constexpr long input_step(const ConvShape& s, long count) {
    return count * pitch(s) + 16;
  }
  static constexpr long output_step(long count) { return count * NR + 16; }

  static constexpr long zeros(const ConvShape& s) { return ceil_div(s.c, 16) * 16; }
  static constexpr long scratch(const ConvShape& s) {
    return (zeros(s) + N * N * (input_step(s, block(s)) + output_step(block(s)))) * WORD;
  }
};

// The transformed tiles [first, first + count): out[N N][tile][channel].
template <int M, class Kind>
INFUSE_NOINLINE void winograd_input(const ConvShape& s, const float* x, const float* zeros,
                                    long first, long count, typename Kind::Word* out,
                                    long step) {
  typedef Winograd<M, Kind> W;
  constexpr int N = W::N;
  const long across = W::across(s), down = W::down(s), pitch = W::pitch(s);
  for (long t = 0; t < count; ++t, out += pitch) {
    const long tile = first + t, image = tile / (across * down);
    const long y = tile / across % down * M - s.pad_top, i = tile % across * M - s.pad_left;
    const float* from[N][N];
    for (long r = 0; r < N; ++r)
      for (long q = 0; q < N; ++q) {
        const bool inside = (unsigned long)(y + r) < (unsigned long)s.h &&
                            (unsigned long)(i + q) < (unsigned long)s.w;
        from[r][q] = inside ? x + ((image * s.h + y + r) * s.w + i + q) * s.c : zeros;
      }
    sweep(0, s.c, [&](long c, auto lanes) {
      vf half[N][N];
#pragma GCC unroll 6
      for (int q = 0; q < N; ++q) {
        vf column[N], turned[N];
#pragma GCC unroll 6
        for (int r = 0; r < N; ++r) column[r] = load(from[r][q] + c, lanes);
        to_tile(column, turned);
#pragma GCC unroll 6
        for (int r = 0; r < N; ++r) half[r][q] = turned[r];
      }
#pragma GCC unroll 6
      for (int r = 0; r < N; ++r) {
        vf turned[N];
        to_tile(half[r], turned);
#pragma GCC unroll 6
        for (int q = 0; q < N; ++q) Kind::store(out + (r * N + q) * step, c, turned[q]);
      }
    });
  }
}

// The results of one tile in one vector of channels: from[N N] `step` apart to out[M][M].
template <int M>
INFUSE_NOINLINE void winograd_output(const float* from, long step, float* out) {
  constexpr int N = M + 2;
  vf half[M][N];
#pragma GCC unroll 6
  for (int q = 0; q < N; ++q) {
    vf column[N], turned[M];
#pragma GCC unroll 6
    for (int r = 0; r < N; ++r) column[r] = load(from + (r * N + q) * step, Full{});
    from_tile(column, turned);
#pragma GCC unroll 6
    for (int r = 0; r < M; ++r) half[r][q] = turned[r];
  }
#pragma GCC unroll 6
  for (int r = 0; r < M; ++r) {
    vf turned[M];
    from_tile(half[r], turned);
#pragma GCC unroll 6
    for (int q = 0; q < M; ++q) store(out + (r * M + q) * LANES, turned[q], Full{});
  }
}

// Results of the tiles [first, first + count) in the vector of channels at col, to the sink.
template <int M, class L, class Sink>
INFUSE_NOINLINE void winograd_drain(const ConvShape& s, const float* from, long step, long first,
                                    long count, long col, L lanes, const Sink& sink) {
  typedef Winograd<M, void> W;
  const long across = W::across(s), down = W::down(s);
  alignas(64) float out[M * M * LANES];
  for (long t = 0; t < count; ++t) {
    const long tile = first + t, line = tile / across;
    const long y0 = line % down * M, x0 = tile % across * M;
    winograd_output<M>(from + t * NR, step, out);
    const long ys = min(s.oh - y0, long(M)), xs = min(s.ow - x0, long(M));
    for (long y = 0; y < ys; ++y)
      for (long x = 0; x < xs; ++x)
        sink(load(out + (y * M + x) * LANES, Full{}), (line / down * s.oh + y0 + y) * s.ow + x0 + x,
             col, lanes);
  }
}

struct StoreTile {
  float* out;
  template <class L>
  INFUSE_INLINE void operator()(vf acc, long row, long col, L lanes) const {
    store(out + row * NR + col, acc, lanes);
  }
};

}  // namespace detail

// Tiles of floats, weights of what a load widens to floats.
template <class W>
struct WinogradOf {
  typedef float Word;
  typedef W Weight;

  // Words that c channels fill.
  static constexpr long depth(long c) { return c; }

  // A vector of channels, from channel c of the row `to` on.
  static INFUSE_INLINE void store(float* to, long c, vf x) { infuse::store(to + c, x, Full{}); }

  // out[count][NR] = a[count][k] times a panel of which `width` columns are wanted.
  static INFUSE_NOINLINE void product(const float* a, long pitch, long k, long count,
                                      const W* panel, long width, float* out) {
    for (long rows; count > 0; count -= rows, a += rows * pitch, out += rows * NR) {
      rows = detail::tile_rows(count);
      if (rows == MR && width >= NR)
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
template <int M, class Kind, class Sink>
INFUSE_NOINLINE void winograd_part(const ConvShape& s, const typename Kind::Word* input, long step,
                                   const typename Kind::Weight* w, long first, long t0, long t1, long p0, long p1,
                                   float* products, const Sink& sink) {
  typedef Winograd<M, Kind> W;
  constexpr int N = W::N;
  const long pitch = W::pitch(s), depth = Kind::depth(s.c), count = t1 - t0, gap = W::output_step(count);
  for (long p = p0; p < p1; ++p) {
    const long col = p * NR, left = s.oc - col;
    for (long i = 0; i < N * N; ++i)
      Kind::product(input + i * step + t0 * pitch, pitch, depth, count,
                       w + (p * N * N + i) * depth * NR, left, products + i * gap);
    for (long v = 0; v < min(left, NR); v += LANES)
      if (left - v >= LANES)
        winograd_drain<M>(s, products + v, gap, first + t0, count, col + v, Full{}, sink);
      else
        winograd_drain<M>(s, products + v, gap, first + t0, count, col + v, Tail{int(left - v)},
                          sink);
  }
}

}  // namespace detail

// Bytes of scratch that a worker needs for winograd.
template <int M, class Kind = WinogradFloats>
constexpr long winograd_scratch(const ConvShape& s) {
  return detail::Winograd<M, Kind>::scratch(s);
}

// As conv, where kh = kw = 3, strides and dilations are 1 and groups = 1.
template <int M, class Kind = WinogradFloats, class Sink>
void winograd(Context& ctx, ConvShape s, const float* x, const typename Kind::Weight* packed_w,
              const Sink& sink) {
  typedef detail::Winograd<M, Kind> W;
  typedef typename Kind::Word Word;
  constexpr int NN = W::N * W::N;
  const long tiles = W::tiles(s), panels = detail::ceil_div(s.oc, NR), block = W::block(s);
  if (tiles <= 0 || s.oc <= 0) return;
  const detail::Grid grid = detail::gemm_grid(ctx.threads, tiles, panels, NN * Kind::depth(s.c));
  const long most = W::input_step(s, block) * NN;

  if (grid.panels == 1) {
    ctx.parallel(grid.rows, [&](long begin, long end, int worker) {
      float* zeros = (float*)ctx.scratch(worker);
      Word* input = (Word*)(zeros + W::zeros(s));
      float* products = (float*)(input + most);
      memset(zeros, 0, size_t(s.c) * sizeof(float));
      const long t0 = detail::split(tiles, grid.rows, begin),
                 t1 = detail::split(tiles, grid.rows, end);
      const long blocks = detail::ceil_div(t1 - t0, block);
      for (long b = 0; b < blocks; ++b) {
        const long first = t0 + detail::split(t1 - t0, blocks, b);
        const long count = t0 + detail::split(t1 - t0, blocks, b + 1) - first;
        const long step = W::input_step(s, count);
        detail::winograd_input<M, Kind>(s, x, zeros, first, count, input, step);
        detail::winograd_part<M, Kind>(s, input, step, packed_w, first, 0, count, 0, panels, products,
                                 sink);
      }
    });
    return;
  }

  // The threads transform a block of tiles together and then share its products.
  float* zeros = (float*)ctx.scratch(0);
  Word* input = (Word*)(zeros + W::zeros(s));
  memset(zeros, 0, size_t(s.c) * sizeof(float));
  for (long first = 0, count; first < tiles; first += count) {
    count = min(block, tiles - first);
    const long step = W::input_step(s, count);
    ctx.parallel(count, [&](long begin, long end, int) {
      detail::winograd_input<M, Kind>(s, x, zeros, first + begin, end - begin,
                                input + begin * W::pitch(s), step);
    });
    ctx.parallel(grid.rows * grid.panels, [&](long begin, long end, int worker) {
      float* products = (float*)ctx.scratch(worker) + W::zeros(s) + most;
      for (long u = begin; u < end; ++u) {
        const long r = u / grid.panels, p = u % grid.panels;
        detail::winograd_part<M, Kind>(
            s, input, step, packed_w, first, detail::split(count, grid.rows, r),
            detail::split(count, grid.rows, r + 1), detail::split(panels, grid.panels, p),
            detail::split(panels, grid.panels, p + 1), products, sink);
      }
    });
  }
}

}  // namespace infuse
