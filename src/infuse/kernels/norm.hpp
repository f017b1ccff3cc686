// Normalisation: layer, root mean square, group and instance.
#pragma once
#include "math.hpp"
#include "rows.hpp"

namespace infuse {

namespace norm_detail {

constexpr isize GRAIN = 16384;
constexpr int TOGETHER = 4;  // rows whose sums hide each other's latency

}  // namespace norm_detail

/** Bytes of scratch per worker for rows of `cols` elements. */
inline isize norm_scratch(isize cols) {
  return norm_detail::TOGETHER * round_up(cols, LANES) * 4 + CACHE_LINE;
}

namespace norm_detail {

/** What the columns of all rows share. */
struct Columns {
  isize count;
  const float *scale, *bias;  // may be null
};

/** Sums of value(column, row, lanes) over the columns, in parts that stay accurate. */
template <int R, class Value>
INFUSE_INLINE void add_up(isize columns, float (&sums)[R], const Value& value) {
  constexpr isize PART = 32 * LANES;
  vf total[R] = {};
  for (isize first = 0; first < columns; first += PART) {
    vf part[R] = {};
    isize last = first + PART < columns ? first + PART : columns;
    sweep(first, last, [&](isize c, auto lanes) __attribute__((always_inline)) {
      for (int i = 0; i < R; ++i) part[i] = value(part[i], c, i, lanes);
    });
    for (int i = 0; i < R; ++i) total[i] += part[i];
  }
  for (int i = 0; i < R; ++i) sums[i] = hsum(total[i]);
}

/** R rows from `row` on become (x - centre) · factor · scale + bias. */
template <bool Centred, int R, class In, class Factor, class Sink>
INFUSE_INLINE void norm_rows(const Columns& columns, isize row, float* kept, const In& in,
                             const Factor& factor, const Sink& sink) {
  float sums[R], centre[R] = {}, share[R];
  auto keep = [&](vf sum, isize c, int i, auto lanes) __attribute__((always_inline)) {
    vf x = in(row + i, c, lanes);
    store(kept + c * R + i * LANES, x, Full{});
    x = valid(x, vf{}, lanes);
    return Centred ? sum + x : fma(x, x, sum);
  };
  add_up(columns.count, sums, keep);
  if (Centred) {
    for (int i = 0; i < R; ++i) centre[i] = sums[i] / float(columns.count);
    auto square = [&](vf sum, isize c, int i, auto lanes) __attribute__((always_inline)) {
      vf x = valid(load(kept + c * R + i * LANES, Full{}) - centre[i], vf{}, lanes);
      return fma(x, x, sum);
    };
    add_up(columns.count, sums, square);
  }
  for (int i = 0; i < R; ++i) share[i] = factor(sums[i]);
  sweep(0, columns.count, [&](isize c, auto lanes) __attribute__((always_inline)) {
    vf scale = load_or(columns.scale, c, 1.0f, lanes);
    vf bias = load_or(columns.bias, c, -0.0f, lanes);  // to which any zero is added unchanged
    for (int i = 0; i < R; ++i) {
      vf x = (load(kept + c * R + i * LANES, Full{}) - centre[i]) * share[i];
      sink(fma(x, scale, bias), row + i, c, lanes);
    }
  });
}

template <bool Centred, class In, class Factor, class Sink>
inline void norm(Context& context, isize rows, const Columns& columns, const In& in,
                 const Factor& factor, const Sink& sink) {
  const isize together = columns.count <= 2048 ? TOGETHER : 1;
  context.parallel((rows + together - 1) / together,
                   [&](isize begin, isize end, int worker) {
                     float* kept = reinterpret_cast<float*>(context.scratch(worker));
                     isize row = begin * together,
                          last = end * together < rows ? end * together : rows;
                     for (; together > 1 && row + TOGETHER <= last; row += TOGETHER)
                       norm_rows<Centred, TOGETHER>(columns, row, kept, in, factor, sink);
                     for (; row < last; ++row)
                       norm_rows<Centred, 1>(columns, row, kept, in, factor, sink);
                   },
                   1 + GRAIN / ((columns.count + 16) * together));
}

}  // namespace norm_detail

/**
 * (x - mean) / sqrt(variance + eps) · scale + bias over the columns of each row.
 * in(row, col, lanes) gives x; scale and bias [cols] may be null. Needs norm_scratch(cols).
 */
template <class In, class Sink>
inline void layer_norm(Context& context, isize rows, isize cols, const In& in, const float* scale,
                       const float* bias, float eps, const Sink& sink) {
  auto factor = [&](float squares) { return 1.0f / sqrt(squares / float(cols) + eps); };
  norm_detail::norm<true>(context, rows, {cols, scale, bias}, in, factor, sink);
}

/** x / sqrt(mean(x²) + eps) · scale over the columns of each row; otherwise as layer_norm. */
template <class In, class Sink>
inline void rms_norm(Context& context, isize rows, isize cols, const In& in, const float* scale,
                     float eps, const Sink& sink) {
  auto factor = [&](float squares) { return 1.0f / sqrt(squares / float(cols) + eps); };
  norm_detail::norm<false>(context, rows, {cols, scale, nullptr}, in, factor, sink);
}

/** An image tensor [n, pixels, c], its channels in `groups` equal groups. */
struct GroupSizes {
  isize batch, pixels, channels, groups;
};

/** Bytes of scratch per worker for group_norm. */
inline isize group_norm_scratch(const GroupSizes& shape) {
  return shape.batch * shape.channels * 8 + CACHE_LINE;
}

namespace norm_detail {

constexpr isize BLOCK = 128;  // pixels added up before they join the total, for accuracy

/** Sums over the pixels of one image, for the channels at c: of x - centre, or of its square. */
template <bool Square, class In, class L>
INFUSE_INLINE vf pixel_sum(const GroupSizes& shape, isize image, isize c, L lanes, vf centre,
                           const In& in) {
  vf total = {};
  for (isize first = 0; first < shape.pixels; first += BLOCK) {
    isize last = first + BLOCK < shape.pixels ? first + BLOCK : shape.pixels;
    vf sum = {};
    for (isize p = first; p < last; ++p) {
      vf x = in(image * shape.pixels + p, c, lanes) - centre;
      sum = Square ? fma(x, x, sum) : sum + x;
    }
    total += sum;
  }
  return total;
}

/** sums[image][channel] for all channels, over the threads. */
template <bool Square, class In>
inline void channel_sums(Context& context, const GroupSizes& shape, const float* centres,
                         float* sums, const In& in) {
  isize blocks = (shape.channels + LANES - 1) / LANES;
  context.parallel(
      shape.batch * blocks,
      [&](isize begin, isize end, int) {
        for (isize unit = begin; unit < end; ++unit) {
          isize image = unit / blocks, c = unit % blocks * LANES;
          sweep(c, c + LANES < shape.channels ? c + LANES : shape.channels,
                [&](isize at, auto lanes) {
                  vf centre = Square ? load(centres + image * shape.channels + at, lanes) : vf{};
                  vf sum = pixel_sum<Square>(shape, image, at, lanes, centre, in);
                  store(sums + image * shape.channels + at, sum, lanes);
                });
        }
      },
      1 + GRAIN / (shape.pixels * LANES));
}

/** Replaces the sums of the channels of a group by finish(sum of the group / elements). */
template <class Finish>
inline void spread(const GroupSizes& shape, float* sums, const Finish& finish) {
  isize width = shape.channels / shape.groups;
  for (isize group = 0; group < shape.batch * shape.groups; ++group) {
    float* part = sums + group * width;
    double total = 0.0;
    for (isize i = 0; i < width; ++i) total += double(part[i]);
    float value = finish(float(total / (double(width) * double(shape.pixels))));
    for (isize i = 0; i < width; ++i) part[i] = value;
  }
}

}  // namespace norm_detail

/**
 * (x - mean) / sqrt(variance + eps) · scale + bias, mean and variance over the pixels and channels
 * of each group; instance norm when groups = c. in(row, col, lanes) gives x with row = (image,
 * pixel); scale and bias [c] may be null. Needs group_norm_scratch(shape).
 */
template <class In, class Sink>
inline void group_norm(Context& context, const GroupSizes& shape, const In& in, const float* scale,
                       const float* bias, float eps, const Sink& sink) {
  using namespace norm_detail;
  isize count = shape.batch * shape.channels;
  float* means = reinterpret_cast<float*>(context.scratch(0));
  float* factors = means + count;
  channel_sums<false>(context, shape, nullptr, means, in);
  spread(shape, means, [](float mean) { return mean; });
  channel_sums<true>(context, shape, means, factors, in);
  spread(shape, factors, [&](float variance) { return 1.0f / sqrt(variance + eps); });
  context.parallel(
      shape.batch * shape.pixels,
      [&](isize begin, isize end, int) {
        for (isize row = begin; row < end; ++row) {
          const float* mean = means + row / shape.pixels * shape.channels;
          const float* factor = factors + row / shape.pixels * shape.channels;
          sweep(0, shape.channels, [&](isize c, auto lanes) __attribute__((always_inline)) {
            vf x = (in(row, c, lanes) - load(mean + c, lanes)) * load(factor + c, lanes);
            vf y = fma(x, load_or(scale, c, 1.0f, lanes), load_or(bias, c, -0.0f, lanes));
            sink(y, row, c, lanes);
          });
        }
      },
      1 + GRAIN / (shape.channels + 16));
}

namespace norm_detail {

/** The sum of rows [row, last) of `pixels` columns: of x - centre, or of its square. */
template <bool Square, class In>
INFUSE_INLINE double plane_sum(isize row, isize last, isize pixels, float centre, const In& in) {
  constexpr int N = 4;
  constexpr isize PART = 32 * N * LANES;  // elements added up before they join the total
  double total = 0.0;
  for (; row < last; ++row)
    for (isize first = 0; first < pixels; first += PART) {
      const isize end = first + PART < pixels ? first + PART : pixels;
      vf sum[N] = {};
      spread_columns<N>(first, end, [&](isize c, auto lanes, int i) __attribute__((always_inline)) {
        const vf x = valid(in(row, c, lanes) - centre, vf{}, lanes);
        sum[i] = Square ? fma(x, x, sum[i]) : sum[i] + x;
      });
      total += double(hsum((sum[0] + sum[1]) + (sum[2] + sum[3])));
    }
  return total;
}

}  // namespace norm_detail

/** As group_norm, for planes: row = (image, channel), col = pixel. */
template <class In, class Sink>
inline void group_norm_planes(Context& context, const GroupSizes& shape, const In& in,
                              const float* scale, const float* bias, float eps, const Sink& sink) {
  using namespace norm_detail;
  const isize width = shape.channels / shape.groups, count = width * shape.pixels;
  context.parallel(
      shape.batch * shape.groups,
      [&](isize begin, isize end, int) {
        for (isize group = begin; group < end; ++group) {
          const isize row = group * width, last = row + width;
          const float mean = float(plane_sum<false>(row, last, shape.pixels, 0, in) / double(count));
          const float squares =
              float(plane_sum<true>(row, last, shape.pixels, mean, in) / double(count));
          const float factor = 1.0f / sqrt(squares + eps);
          for (isize r = row; r < last; ++r) {
            const isize channel = r % shape.channels;
            const vf by = splat(scale ? scale[channel] : 1.0f);
            const vf plus = splat(bias ? bias[channel] : 0.0f);
            sweep(0, shape.pixels, [&](isize c, auto lanes) __attribute__((always_inline)) {
              sink(fma((in(r, c, lanes) - mean) * factor, by, plus), r, c, lanes);
            });
          }
        }
      },
      1 + GRAIN / (count + 16));
}

}  // namespace infuse
