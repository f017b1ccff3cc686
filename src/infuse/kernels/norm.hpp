// Normalisation: layer, root mean square, length, group and instance.
#pragma once
#include "math.hpp"
#include "rows.hpp"

namespace infuse {

/** Bytes of scratch per worker for rows of `cols` elements. */
inline long norm_scratch(long cols) { return cols * 4 + CACHE_LINE; }

namespace norm_detail {

constexpr long GRAIN = 16384;

/** Keeps a row and returns its sum. */
template <class In>
INFUSE_INLINE float keep_row(long row, long cols, float* kept, const In& in) {
  vf even = {}, odd = {};
  long c = 0;
  for (; c + 2 * LANES <= cols; c += 2 * LANES) {
    vf a = in(row, c, Full{}), b = in(row, c + LANES, Full{});
    store(kept + c, a, Full{});
    store(kept + c + LANES, b, Full{});
    even += a;
    odd += b;
  }
  sweep(c, cols, [&](long i, auto lanes) __attribute__((always_inline)) {
    vf a = in(row, i, lanes);
    store(kept + i, a, lanes);
    even += valid(a, vf{}, lanes);
  });
  return hsum(even + odd);
}

/** The sum of (x - centre)² over a kept row. */
INFUSE_INLINE float squares(const float* kept, long cols, float centre) {
  vf even = {}, odd = {};
  long c = 0;
  for (; c + 2 * LANES <= cols; c += 2 * LANES) {
    vf a = load(kept + c, Full{}) - centre, b = load(kept + c + LANES, Full{}) - centre;
    even = fma(a, a, even);
    odd = fma(b, b, odd);
  }
  sweep(c, cols, [&](long i, auto lanes) __attribute__((always_inline)) {
    vf a = valid(load(kept + i, lanes) - centre, vf{}, lanes);
    even = fma(a, a, even);
  });
  return hsum(even + odd);
}

template <class Row>
INFUSE_INLINE void each_row(Context& context, long rows, long cols, const Row& body) {
  context.parallel(
      rows,
      [&](long begin, long end, int worker) {
        float* kept = reinterpret_cast<float*>(context.scratch(worker));
        for (long row = begin; row < end; ++row) body(row, kept);
      },
      1 + GRAIN / (cols + 16));
}

}  // namespace norm_detail

/**
 * (x - mean) / sqrt(variance + eps) · scale + bias over the columns of each row.
 * in(row, col, lanes) gives x; scale and bias [cols] may be null. Needs norm_scratch(cols).
 */
template <class In, class Sink>
inline void layer_norm(Context& context, long rows, long cols, const In& in, const float* scale,
                       const float* bias, float eps, const Sink& sink) {
  using namespace norm_detail;
  each_row(context, rows, cols, [&](long row, float* kept) {
    float mean = keep_row(row, cols, kept, in) / float(cols);
    float factor = 1.0f / sqrt(squares(kept, cols, mean) / float(cols) + eps);
    sweep(0, cols, [&](long c, auto lanes) __attribute__((always_inline)) {
      vf x = (load(kept + c, lanes) - mean) * factor;
      sink(fma(x, load_or(scale, c, 1.0f, lanes), load_or(bias, c, 0.0f, lanes)), row, c, lanes);
    });
  });
}

/** x / sqrt(mean(x²) + eps) · scale over the columns of each row; otherwise as layer_norm. */
template <class In, class Sink>
inline void rms_norm(Context& context, long rows, long cols, const In& in, const float* scale,
                     float eps, const Sink& sink) {
  using namespace norm_detail;
  each_row(context, rows, cols, [&](long row, float* kept) {
    keep_row(row, cols, kept, in);
    float factor = 1.0f / sqrt(squares(kept, cols, 0.0f) / float(cols) + eps);
    sweep(0, cols, [&](long c, auto lanes) __attribute__((always_inline)) {
      sink(load(kept + c, lanes) * factor * load_or(scale, c, 1.0f, lanes), row, c, lanes);
    });
  });
}

/** x / max(sqrt(Σ x²), least) over the columns of each row; a row of zeros stays zero. */
template <class In, class Sink>
inline void l2_norm(Context& context, long rows, long cols, const In& in, float least,
                    const Sink& sink) {
  using namespace norm_detail;
  each_row(context, rows, cols, [&](long row, float* kept) {
    keep_row(row, cols, kept, in);
    float length = max(sqrt(squares(kept, cols, 0.0f)), least);
    float factor = length == 0.0f ? 0.0f : 1.0f / length;
    sweep(0, cols, [&](long c, auto lanes) __attribute__((always_inline)) {
      sink(load(kept + c, lanes) * factor, row, c, lanes);
    });
  });
}

/** x / Σ |x| over the columns of each row; a row of zeros stays zero. */
template <class In, class Sink>
inline void l1_norm(Context& context, long rows, long cols, const In& in, const Sink& sink) {
  using namespace norm_detail;
  each_row(context, rows, cols, [&](long row, float* kept) {
    keep_row(row, cols, kept, in);
    vf total = {};
    sweep(0, cols, [&](long c, auto lanes) { total += abs(load(kept + c, lanes)); });
    float sum = hsum(total);
    float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
    sweep(0, cols, [&](long c, auto lanes) __attribute__((always_inline)) {
      sink(load(kept + c, lanes) * factor, row, c, lanes);
    });
  });
}

// ---------------------------------------------------------------- groups of channels

/** An image tensor [n, pixels, c], its channels in `groups` equal groups. */
struct GroupShape {
  long n, pixels, c, groups;
};

/** Bytes of scratch per worker for group_norm. */
inline long group_norm_scratch(const GroupShape& shape) {
  return shape.n * shape.c * 8 + CACHE_LINE;
}

namespace norm_detail {

constexpr long BLOCK = 128;  // pixels added up before they join the total, for accuracy

/** Sums over the pixels of one image, for the channels at c: of x - centre, or of its square. */
template <bool Square, class In, class L>
INFUSE_INLINE vf pixel_sum(const GroupShape& shape, long image, long c, L lanes, vf centre,
                           const In& in) {
  vf total = {};
  for (long first = 0; first < shape.pixels; first += BLOCK) {
    long last = first + BLOCK < shape.pixels ? first + BLOCK : shape.pixels;
    vf sum = {};
    for (long p = first; p < last; ++p) {
      vf x = in(image * shape.pixels + p, c, lanes) - centre;
      sum = Square ? fma(x, x, sum) : sum + x;
    }
    total += sum;
  }
  return total;
}

/** sums[image][channel] for all channels, over the threads. */
template <bool Square, class In>
inline void channel_sums(Context& context, const GroupShape& shape, const float* centres,
                         float* sums, const In& in) {
  long blocks = (shape.c + LANES - 1) / LANES;
  context.parallel(
      shape.n * blocks,
      [&](long begin, long end, int) {
        for (long unit = begin; unit < end; ++unit) {
          long image = unit / blocks, c = unit % blocks * LANES;
          sweep(c, c + LANES < shape.c ? c + LANES : shape.c, [&](long at, auto lanes) {
            vf centre = Square ? load(centres + image * shape.c + at, lanes) : vf{};
            vf sum = pixel_sum<Square>(shape, image, at, lanes, centre, in);
            store(sums + image * shape.c + at, sum, lanes);
          });
        }
      },
      1 + GRAIN / (shape.pixels * LANES));
}

/** Replaces the sums of the channels of a group by finish(sum of the group / elements). */
template <class Finish>
inline void spread(const GroupShape& shape, float* sums, const Finish& finish) {
  long width = shape.c / shape.groups;
  for (long group = 0; group < shape.n * shape.groups; ++group) {
    float* part = sums + group * width;
    double total = 0.0;
    for (long i = 0; i < width; ++i) total += double(part[i]);
    float value = finish(float(total / (double(width) * double(shape.pixels))));
    for (long i = 0; i < width; ++i) part[i] = value;
  }
}

}  // namespace norm_detail

/**
 * (x - mean) / sqrt(variance + eps) · scale + bias, mean and variance over the pixels and channels
 * of each group; instance norm when groups = c. in(row, col, lanes) gives x with row = (image,
 * pixel); scale and bias [c] may be null. Needs group_norm_scratch(shape).
 */
template <class In, class Sink>
inline void group_norm(Context& context, const GroupShape& shape, const In& in, const float* scale,
                       const float* bias, float eps, const Sink& sink) {
  using namespace norm_detail;
  long count = shape.n * shape.c;
  float* means = reinterpret_cast<float*>(context.scratch(0));
  float* factors = means + count;
  channel_sums<false>(context, shape, nullptr, means, in);
  spread(shape, means, [](float mean) { return mean; });
  channel_sums<true>(context, shape, means, factors, in);
  spread(shape, factors, [&](float variance) { return 1.0f / sqrt(variance + eps); });
  context.parallel(
      shape.n * shape.pixels,
      [&](long begin, long end, int) {
        for (long row = begin; row < end; ++row) {
          const float* mean = means + row / shape.pixels * shape.c;
          const float* factor = factors + row / shape.pixels * shape.c;
          sweep(0, shape.c, [&](long c, auto lanes) __attribute__((always_inline)) {
            vf x = (in(row, c, lanes) - load(mean + c, lanes)) * load(factor + c, lanes);
            vf y = fma(x, load_or(scale, c, 1.0f, lanes), load_or(bias, c, 0.0f, lanes));
            sink(y, row, c, lanes);
          });
        }
      },
      1 + GRAIN / (shape.c + 16));
}

}  // namespace infuse
