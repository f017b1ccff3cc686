// A depthwise convolution with the 1 x 1 convolutions before it (expand) and after it (project),
// one of which may be missing: what lies between them never leaves the second level cache.
//
// Every worker computes its lines of the result in bands. The expanded lines that a band reads lie
// in a ring, so that within a worker's lines nothing is expanded twice; the pixels of the band that
// the project convolution reads lie one after another.
#pragma once

#include "depthwise.hpp"
#include "gemm.hpp"

namespace infuse {

// Sizes of the depthwise convolution; `in_channels` of pixels `pitch` floats apart are expanded to
// its channels, 0 where x is what it reads; its channels are projected to `out_channels`, 0 where
// they are the result. Dilations are 1.
struct ChainSizes {
  DepthwiseSizes mid;
  isize in_channels, pitch, out_channels;
};

// Stands for a stage that is missing.
struct NoStage {};

// How 1 x 1 convolutions multiply: rows of float32 as they are.
struct FloatProducts {
  typedef float Weight;

  // Bytes that rows of k numbers need before they are multiplied.
  static constexpr isize bytes(isize) { return 0; }

  // Rows [m0, s.m), of which row 0 would lie at a, times packed weights.
  template <class Sink>
  static INFUSE_INLINE void part(GemmSizes s, const float* a, const float* packed_b, isize m0,
                                 char*, const Sink& sink) {
    detail::gemm_part(s, a, packed_b, m0, s.m, 0, detail::ceil_div(s.n, NR), sink);
  }
};

namespace detail {

template <class Stage>
constexpr bool is_stage = true;
template <>
inline constexpr bool is_stage<NoStage> = false;

constexpr isize CHAIN_TAPS = 8;  // lines of the window, at most

// How the lines of a result are cut. Sizes in floats.
struct ChainPlan {
  isize band;   // lines of the result
  isize ring;   // expanded lines that are kept
  isize pixel;  // from one pixel of the ring or the band to the next
  isize bytes;
};

constexpr ChainPlan chain_plan(const ChainSizes& s) {
  const DepthwiseSizes& m = s.mid;
  const isize pixel = gemm_pitch(m.channels), line = s.in_channels ? m.width * pixel : 0,
             word = sizeof(float);
  const isize fits = INFUSE_BLOCK_BYTES / 2 / word - (m.kernel_height - m.stride_height) * line;
  const isize each = max(m.stride_height * line + m.out_width * pixel, isize(1));
  const isize band = min(max(fits / each, isize(1)), max(m.out_height, isize(1))),
             ring = (band - 1) * m.stride_height + m.kernel_height;
  return {band, ring, pixel,
          (ring * line + (s.out_channels ? band * m.out_width * pixel : 0)) * word};
}

// The lines of an image in a ring, by kernel row.
struct RingLines {
  const float* lines[CHAIN_TAPS];
  isize pixel;

  INFUSE_INLINE const float* operator()(const depthwise_detail::Row&, isize ky) const {
    return lines[ky];
  }
};

// Stores what a stage makes of a sum; `to` is where row 0 and column 0 would lie.
template <class Stage>
struct StageStore {
  float* to;
  isize pitch;
  const Stage& stage;

  template <class L>
  INFUSE_INLINE void operator()(vf acc, isize row, isize col, L lanes) const {
    store(to + row * pitch + col, stage(acc, col, lanes), lanes);
  }
};

// The lines [from, end) of an image, expanded, into the ring.
template <class Products, class X, class Expand>
inline void chain_expand(const ChainSizes& s, const ChainPlan& plan, const X* image,
                         const typename Products::Weight* weights, isize from, isize end, float* ring,
                         char* held, const Expand& expand) {
  const DepthwiseSizes& m = s.mid;
  for (isize stop; from < end; from = stop) {
    const isize slot = from % plan.ring, rows = min(end - from, plan.ring - slot) * m.width;
    stop = from + rows / m.width;
    const StageStore<Expand> store = {ring + slot * m.width * plan.pixel, plan.pixel, expand};
    Products::part({rows, m.channels, s.in_channels, s.pitch}, image + from * m.width * s.pitch,
                   weights, 0, held, store);
  }
}

// Depthwise results of the lines [line, line + count), from x or from the ring.
template <int KW, int STRIDE, bool EXPANDS, class X, class Sink>
inline void chain_depthwise(const ChainSizes& s, const ChainPlan& plan, const X* x,
                            const float* weights, isize line, isize count, const float* ring,
                            const Sink& sink) {
  using namespace depthwise_detail;
  const DepthwiseSizes& m = s.mid;
  for (isize i = line; i < line + count; ++i) {
    Row row = row_of(m, weights, m.channels, i);
    row.begin = 0, row.end = m.channels;
    if constexpr (EXPANDS) {
      RingLines lines;
      lines.pixel = plan.pixel;
      for (isize ky = row.first_ky; ky < row.last_ky; ++ky)
        lines.lines[ky] = ring + (row.top + ky) % plan.ring * m.width * plan.pixel;
      whole_row<KW, STRIDE>(row, lines, sink);
    } else {
      whole_row<KW, STRIDE>(row, image_lines(m, x, i), sink);
    }
  }
}

}  // namespace detail

// Bytes of scratch that a worker needs for chain.
template <class Products = FloatProducts>
constexpr isize chain_scratch(const ChainSizes& s) {
  return detail::chain_plan(s).bytes + Products::bytes(max(s.in_channels, s.mid.channels));
}

// x [n, h, w] pixels, of float32 unless Products take others to expand; expand(acc, col, lanes)
// makes a vector of expanded channels of its sum, last one of what is projected; either may be
// NoStage{}. The depthwise convolution has KW = mid.kw, STRIDE = mid.stride_w; weights as in gemm
// and depthwise. The sink's row = (image, oy, ox). after(worker, line) is called when a line
// (image, oy) of the result is complete; `piece` as for Context::parallel.
template <int KW, int STRIDE, class Products, class X, class Expand, class Last, class Sink,
          class After>
void chain(Context& ctx, const ChainSizes& s, const X* x,
           const typename Products::Weight* expanding, const float* weights,
           const typename Products::Weight* projecting, const Expand& expand, const Last& last,
           const Sink& sink, const After& after, isize piece) {
  using namespace detail;
  constexpr bool EXPANDS = is_stage<Expand>;
  const DepthwiseSizes& m = s.mid;
  const ChainPlan plan = chain_plan(s);
  const isize macs = m.out_width * m.channels * (m.kernel_height * m.kernel_width + s.out_channels) +
                    m.stride_height * m.width * s.in_channels * m.channels;
  ctx.parallel(
      m.batch * m.out_height,
      [&](isize begin, isize end, int worker) {
        float* ring = (float*)ctx.scratch(worker);
        char* held = (char*)ring + plan.bytes;
        float* band = ring + (EXPANDS ? plan.ring * m.width * plan.pixel : 0);
        for (isize line = begin, count, known = 0; line < end; line += count) {
          const isize y = line % m.out_height, top = y * m.stride_height - m.pad_top,
                     row = line * m.out_width;
          count = min(min(plan.band, m.out_height - y), end - line);
          if constexpr (EXPANDS) {
            if (y == 0 || line == begin) known = 0;
            const isize from = max(max(known, top), isize(0));
            known = max(min(top + (count - 1) * m.stride_height + m.kernel_height, m.height), from);
            const X* image = x + line / m.out_height * m.height * m.width * s.pitch;
            chain_expand<Products>(s, plan, image, expanding, from, known, ring, held, expand);
          }
          if constexpr (is_stage<Last>) {
            const StageStore<Last> store = {band - row * plan.pixel, plan.pixel, last};
            chain_depthwise<KW, STRIDE, EXPANDS>(s, plan, x, weights, line, count, ring, store);
            const isize rows = row + count * m.out_width;
            Products::part({rows, s.out_channels, m.channels, plan.pixel}, store.to, projecting,
                           row, held, sink);
          } else {
            chain_depthwise<KW, STRIDE, EXPANDS>(s, plan, x, weights, line, count, ring, sink);
          }
          for (isize i = line; i < line + count; ++i) after(worker, i);
        }
      },
      1 + 65536 / (macs + 1), piece);
}

template <int KW, int STRIDE, class Products = FloatProducts, class X, class Expand, class Last,
          class Sink>
void chain(Context& ctx, const ChainSizes& s, const X* x,
           const typename Products::Weight* expanding, const float* weights,
           const typename Products::Weight* projecting, const Expand& expand, const Last& last,
           const Sink& sink) {
  // Every piece expands the lines again that it shares with the one before it.
  const isize piece = detail::is_stage<Expand> ? WHOLE : 1;
  chain<KW, STRIDE, Products>(
      ctx, s, x, expanding, weights, projecting, expand, last, sink, [](int, isize) {}, piece);
}

// Bytes of scratch that a worker needs for pooled_chain.
constexpr isize pooled_chain_scratch(const ChainSizes& s) {
  return detail::chain_plan(s).bytes + s.mid.batch * s.mid.channels * isize(sizeof(float));
}

// chain without a projection, whose sink stores dense pixels at y; means gets their mean over every
// image: row = image, col = channel.
template <int KW, int STRIDE, class Expand, class Sink, class Means>
void pooled_chain(Context& ctx, const ChainSizes& s, const float* x, const float* expanding,
                  const float* weights, const Expand& expand, const Sink& sink, const float* y,
                  const Means& means) {
  const DepthwiseSizes& m = s.mid;
  const isize at = detail::chain_plan(s).bytes, c = m.channels;
  auto sums = [&](int worker) { return (float*)(ctx.scratch(worker) + at); };
  for (int i = 0; i < ctx.threads; ++i) memset(sums(i), 0, size_t(m.batch * c) * sizeof(float));
  auto add = [&](int worker, isize line) {
    float* sum = sums(worker) + line / m.out_height * c;
    const float* pixels = y + line * m.out_width * c;
    sweep(0, c, [&](isize k, auto lanes) {
      vf part = {};
      for (isize i = 0; i < m.out_width; ++i) part += load(pixels + i * c + k, lanes);
      store(sum + k, load(sum + k, lanes) + part, lanes);
    });
  };
  chain<KW, STRIDE, FloatProducts>(ctx, s, x, expanding, weights, nullptr, expand, NoStage{}, sink,
                                   add, WHOLE);
  const vf count = splat(float(m.out_height * m.out_width));
  for (isize i = 0; i < m.batch; ++i)
    sweep(0, c, [&](isize k, auto lanes) {
      vf total = {};
      for (int j = 0; j < ctx.threads; ++j) total += load(sums(j) + i * c + k, lanes);
      means(total / count, i, k, lanes);
    });
}

}  // namespace infuse
