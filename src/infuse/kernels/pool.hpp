// Pooling of images, channels last.
#pragma once
#include "math.hpp"
#include "reduce.hpp"

namespace infuse {

/** Sizes of a pooling; padding is given on all sides because it can count in a mean. */
struct PoolSizes {
  isize batch, height, width, channels;
  isize out_height, out_width;
  isize kernel_height, kernel_width;
  isize stride_height, stride_width, dilation_height, dilation_width;
  isize pad_top, pad_left, pad_bottom, pad_right;
  bool count_padding;
  isize pitch;  // elements from one pixel of the image to the next
};

/** The largest value; NaN wins. */
struct MaxPool {
  vf start() const { return splat(-__builtin_inff()); }
  INFUSE_INLINE vf step(vf sum, vf x) const { return max(sum, x); }
  INFUSE_INLINE vf join(vf a, vf b) const { return max(a, b); }
  template <class N>
  INFUSE_INLINE vf finish(vf sum, N) const {
    return sum;
  }
};

/** The largest of small integers; `lowest` is no larger than any. */
struct MaxIntegerPool {
  int lowest;
  vi start() const { return splat(int32_t(lowest)); }
  INFUSE_INLINE vi step(vi sum, vi x) const { return max(sum, x); }
  INFUSE_INLINE vi finish(vi sum, float) const { return sum; }
};

/** The mean value. */
struct MeanPool {
  vf start() const { return vf{}; }
  INFUSE_INLINE vf step(vf sum, vf x) const { return sum + x; }
  INFUSE_INLINE vf join(vf a, vf b) const { return a + b; }
  template <class N>
  INFUSE_INLINE vf finish(vf sum, N count) const {
    return sum / count;
  }
};

/** (Σ |x|^p)^(1/p). */
struct PowerPool {
  float p;
  vf start() const { return vf{}; }
  INFUSE_INLINE vf step(vf sum, vf x) const {
    return sum + (p == 2.0f ? x * x : p == 1.0f ? abs(x) : pow(abs(x), splat(p)));
  }
  INFUSE_INLINE vf join(vf a, vf b) const { return a + b; }
  template <class N>
  INFUSE_INLINE vf finish(vf sum, N) const {
    return p == 2.0f ? sqrt(sum) : p == 1.0f ? sum : pow(sum, splat(1.0f / p));
  }
};

namespace pool_detail {

template <int COUNT>
struct Vectors {
  static constexpr int N = COUNT;
};

/** The taps of a window along one side that lie inside. */
struct Taps {
  isize first, count;  // first input index and number of taps
  isize counted;       // taps that count in a mean when padding does
};

inline Taps taps(isize out, isize stride, isize pad, isize pad_end, isize kernel, isize dilation,
                 isize size) {
  isize start = out * stride - pad;
  isize skip = start < 0 ? (-start + dilation - 1) / dilation : 0;
  isize inside = start < size ? (size - start + dilation - 1) / dilation : 0;
  isize padded = start < size + pad_end ? (size + pad_end - start + dilation - 1) / dilation : 0;
  isize last = inside < kernel ? inside : kernel;
  return {start + skip * dilation, last > skip ? last - skip : 0,
          padded < kernel ? padded : kernel};
}

/** N vectors of channels of one window. */
template <int N, class Op, class T, class L, class Sink>
INFUSE_INLINE void window(const PoolSizes& shape, const Op& op, const T* corner, const Taps& y,
                          const Taps& x, float count, isize row, isize c, L lanes, const Sink& sink) {
  decltype(op.start()) sum[N];
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) sum[i] = op.start();
  const T* line = corner + c;
  for (isize ky = 0; ky < y.count; ++ky) {
    const T* pixel = line;
    for (isize kx = 0; kx < x.count; ++kx) {
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i) sum[i] = op.step(sum[i], load(pixel + i * LANES, lanes));
      pixel += shape.dilation_width * shape.pitch;
    }
    line += shape.dilation_height * shape.width * shape.pitch;
  }
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) sink(op.finish(sum[i], count), row, c + i * LANES, lanes);
}

template <class Op, class T, class Sink>
INFUSE_NOINLINE void pool_row(const PoolSizes& shape, const Op& op, const T* x, isize index,
                              const Sink& sink) {
  isize image = index / shape.out_height;
  Taps y = taps(index % shape.out_height, shape.stride_height, shape.pad_top, shape.pad_bottom,
                shape.kernel_height, shape.dilation_height, shape.height);
  for (isize ox = 0; ox < shape.out_width; ++ox) {
    Taps side = taps(ox, shape.stride_width, shape.pad_left, shape.pad_right, shape.kernel_width,
                     shape.dilation_width, shape.width);
    const T* corner =
        x + ((image * shape.height + y.first) * shape.width + side.first) * shape.pitch;
    float count = float(shape.count_padding ? y.counted * side.counted : y.count * side.count);
    isize row = index * shape.out_width + ox, c = 0;
    for (; c + 4 * LANES <= shape.channels; c += 4 * LANES)
      window<4>(shape, op, corner, y, side, count, row, c, Full{}, sink);
    sweep(c, shape.channels, [&](isize at, auto lanes) __attribute__((always_inline)) {
      window<1>(shape, op, corner, y, side, count, row, at, lanes, sink);
    });
  }
}

/** Whether a line of the image is worth pooling along itself first, for all its windows. */
constexpr bool by_lines(const PoolSizes& s) {
  const bool near = s.dilation_height == 1 && s.dilation_width == 1;
  const isize again = s.stride_height < s.kernel_height ? s.stride_height : s.kernel_height;
  const isize steps = s.kernel_width * again + s.kernel_height;
  return near && s.kernel_width * s.kernel_height * 4 > steps * 5;
}

/** Channels of a block, whose pooled lines stay in the second level cache. */
constexpr isize block_of(const PoolSizes& s) {
  const isize floats = INFUSE_BLOCK_BYTES / 4 / isize(sizeof(float)) / s.kernel_height;
  const isize fits = floats / max(s.out_width, isize(1)) / LANES * LANES;
  return min(max(fits, isize(LANES)), (s.channels + LANES - 1) / LANES * LANES);
}

/** Calls f(n, c, lanes) for n vectors of channels at c: four at once, whose chains do not wait. */
template <class F>
INFUSE_INLINE void by_fours(isize count, const F& f) {
  isize c = 0;
  for (; c + 4 * LANES <= count; c += 4 * LANES) f(Vectors<4>{}, c, Full{});
  sweep(c, count, [&](isize at, auto lanes) __attribute__((always_inline)) {
    f(Vectors<1>{}, at, lanes);
  });
}

/** A line of the image pooled along itself: to[ox][wide] of the channels [first, first + count). */
template <class Op>
INFUSE_NOINLINE void pool_line(const PoolSizes& shape, const Op& op, const float* line, isize first,
                               isize count, isize wide, float* to) {
  for (isize ox = 0; ox < shape.out_width; ++ox, to += wide) {
    const Taps x =
        taps(ox, shape.stride_width, shape.pad_left, 0, shape.kernel_width, 1, shape.width);
    const float* pixels = line + x.first * shape.pitch + first;
    by_fours(count, [&](auto vectors, isize c, auto lanes) __attribute__((always_inline)) {
      vf sum[vectors.N];
#pragma GCC unroll 4
      for (int i = 0; i < vectors.N; ++i) sum[i] = op.start();
      const float* pixel = pixels + c;
      for (isize kx = 0; kx < x.count; ++kx, pixel += shape.pitch)
#pragma GCC unroll 4
        for (int i = 0; i < vectors.N; ++i)
          sum[i] = op.step(sum[i], load(pixel + i * LANES, lanes));
#pragma GCC unroll 4
      for (int i = 0; i < vectors.N; ++i) store(to + c + i * LANES, sum[i], lanes);
    });
  }
}

/** The lines [begin, end) of the result; `ring` holds the pooled lines of a window. */
template <class Op, class Sink>
INFUSE_NOINLINE void pool_lines(const PoolSizes& shape, const Op& op, const float* x, isize begin,
                                isize end, float* ring, const Sink& sink) {
  const isize wide = block_of(shape), size = shape.out_width * wide;
  for (isize first = 0; first < shape.channels; first += wide) {
    const isize count = min(wide, shape.channels - first);
    isize image = -1, next = 0;
    for (isize index = begin; index < end; ++index) {
      const Taps y = taps(index % shape.out_height, shape.stride_height, shape.pad_top,
                          shape.pad_bottom, shape.kernel_height, 1, shape.height);
      if (index / shape.out_height != image) image = index / shape.out_height, next = y.first;
      for (next = max(next, y.first); next < y.first + y.count; ++next)
        pool_line(shape, op, x + (image * shape.height + next) * shape.width * shape.pitch,
                  first, count, wide, ring + next % shape.kernel_height * size);
      // The lines lie in two runs, as those at the end of the ring go on at its begin.
      const isize top = y.first % shape.kernel_height,
                 run = min(y.count, shape.kernel_height - top);
      for (isize ox = 0; ox < shape.out_width; ++ox) {
        const Taps side = taps(ox, shape.stride_width, shape.pad_left, shape.pad_right,
                               shape.kernel_width, 1, shape.width);
        const float all =
            float(shape.count_padding ? y.counted * side.counted : y.count * side.count);
        const float *later = ring + ox * wide, *column = later + top * size;
        by_fours(count, [&](auto vectors, isize c, auto lanes) __attribute__((always_inline)) {
          vf sum[vectors.N];
#pragma GCC unroll 4
          for (int i = 0; i < vectors.N; ++i) sum[i] = op.start();
          const float* from = column + c;
          for (isize ky = 0; ky < y.count; ++ky, from += size) {
            if (ky == run) from = later + c;
#pragma GCC unroll 4
            for (int i = 0; i < vectors.N; ++i)
              sum[i] = op.join(sum[i], load(from + i * LANES, lanes));
          }
#pragma GCC unroll 4
          for (int i = 0; i < vectors.N; ++i)
            sink(op.finish(sum[i], all), index * shape.out_width + ox, first + c + i * LANES,
                 lanes);
        });
      }
    }
  }
}

}  // namespace pool_detail

/** Bytes of scratch that a worker needs for pool. */
constexpr isize pool_scratch(const PoolSizes& s) {
  const isize floats = s.kernel_height * s.out_width * pool_detail::block_of(s);
  return pool_detail::by_lines(s) ? floats * isize(sizeof(float)) : 0;
}

/** Pools x [n, h, w, c]; row = (image, oy, ox), col = channel. Needs pool_scratch. */
template <class Op, class T, class Sink>
inline void pool(Context& context, const PoolSizes& shape, const Op& op, const T* x,
                 const Sink& sink) {
  if constexpr (sizeof(T) == sizeof(float))
    if (pool_detail::by_lines(shape)) {
      const isize steps = shape.kernel_height + shape.kernel_width;
      const isize work = shape.out_width * shape.channels * steps;
      return context.parallel(
          shape.batch * shape.out_height,
          [&](isize begin, isize end, int worker) {
            float* ring = reinterpret_cast<float*>(context.scratch(worker));
            pool_detail::pool_lines(shape, op, x, begin, end, ring, sink);
          },
          shape.kernel_height + 16384 / (work + 1), 8 * shape.kernel_height);
    }
  isize work = shape.out_width * shape.channels * shape.kernel_height * shape.kernel_width;
  context.parallel(
      shape.batch * shape.out_height,
      [&](isize begin, isize end, int) {
        for (isize row = begin; row < end; ++row) pool_detail::pool_row(shape, op, x, row, sink);
      },
      1 + 16384 / (work + 1));
}

/** The mean over the pixels of x [n, pixels, c]; row = image, col = channel. */
template <class Sink>
inline void global_mean_pool(Context& context, isize n, isize pixels, isize c, const float* x,
                             const Sink& sink) {
  reduce<Mean>(context, {n, pixels, c, c}, x, sink);
}

/** The maximum over the pixels of x [n, pixels, c]; row = image, col = channel. */
template <class Sink>
inline void global_max_pool(Context& context, isize n, isize pixels, isize c, const float* x,
                            const Sink& sink) {
  reduce<Max>(context, {n, pixels, c, c}, x, sink);
}

/**
 * Max pooling that also tells where: out and index [n, oh, ow, c]; an index counts the elements of
 * the input as [n, c, h, w], or [n, c, w, h] when columns lead.
 */
inline void max_pool_index(Context& context, const PoolSizes& shape, const float* x, float* out,
                           int64_t* index, bool columns_lead) {
  using namespace pool_detail;
  context.parallel(shape.batch * shape.out_height, [&](isize begin, isize end, int) {
    for (isize unit = begin; unit < end; ++unit) {
      isize image = unit / shape.out_height;
      Taps y = taps(unit % shape.out_height, shape.stride_height, shape.pad_top, 0,
                    shape.kernel_height, shape.dilation_height, shape.height);
      for (isize at = 0; at < shape.out_width * shape.channels; ++at) {
        isize c = at % shape.channels;
        Taps side = taps(at / shape.channels, shape.stride_width, shape.pad_left, 0,
                         shape.kernel_width, shape.dilation_width, shape.width);
        float best = -__builtin_inff();
        isize place = -1;
        for (isize ky = 0; ky < y.count; ++ky) {
          for (isize kx = 0; kx < side.count; ++kx) {
            isize iy = y.first + ky * shape.dilation_height,
                 ix = side.first + kx * shape.dilation_width;
            float value = x[((image * shape.height + iy) * shape.width + ix) * shape.pitch + c];
            if (place >= 0 && !(value > best || (value != value && best == best))) continue;
            best = value;
            place = columns_lead ? ix * shape.height + iy : iy * shape.width + ix;
          }
        }
        out[unit * shape.out_width * shape.channels + at] = best;
        index[unit * shape.out_width * shape.channels + at] =
            (image * shape.channels + c) * shape.height * shape.width + place;
      }
    }
  });
}

}  // namespace infuse
