// Resizing axis by axis: tensors of any rank and type.
#pragma once
#include "resize.hpp"
#include "saturate.hpp"

namespace infuse {

namespace resize_detail {

/** The taps of all outputs of one side, tap by tap: at[k · out + i]. */
template <class W>
struct Lines {
  isize most, out;
  int32_t* at;
  W* weight;
  bool* outside;
  bool any_outside;
};

/** The bytes of lines; makes them from a table, where there is memory. */
template <class W>
inline isize make_lines(const Table<W>& table, isize out, char* memory, Lines<W>* lines) {
  const isize taps = out * table.most;
  lines->most = table.most, lines->out = out, lines->any_outside = false;
  lines->weight = reinterpret_cast<W*>(memory);
  lines->at = reinterpret_cast<int32_t*>(lines->weight + taps);
  lines->outside = reinterpret_cast<bool*>(lines->at + taps);
  for (isize i = 0; memory && i < out; ++i) {
    lines->outside[i] = table.count[i] == 0;
    lines->any_outside = lines->any_outside || lines->outside[i];
    for (isize k = 0; k < table.most; ++k) {
      lines->at[k * out + i] = int32_t(table.at[i * table.most + k]);
      lines->weight[k * out + i] = table.weight[i * table.most + k];
    }
  }
  return round_up(taps * isize(sizeof(W) + 4) + out, CACHE_LINE);
}

/** Resamples one line. */
template <class W, class From, class To>
INFUSE_NOINLINE void across(const Lines<W>& lines, W fill, const From* __restrict x,
                            To* __restrict y) {
  const isize out = lines.out;
  const int32_t *a = lines.at, *b = a + out, *c = b + out, *d = c + out;
  const W *p = lines.weight, *q = p + out, *r = q + out, *s = r + out;
  if (lines.most == 2) {
    for (isize i = 0; i < out; ++i) y[i] = saturated<To>(W(x[a[i]]) * p[i] + W(x[b[i]]) * q[i]);
  } else if (lines.most == 4) {
    for (isize i = 0; i < out; ++i)
      y[i] = saturated<To>((W(x[a[i]]) * p[i] + W(x[b[i]]) * q[i]) +
                           (W(x[c[i]]) * r[i] + W(x[d[i]]) * s[i]));
  } else {
    constexpr isize BLOCK = 128;
    for (isize first = 0; first < out; first += BLOCK) {
      const isize wide = out - first < BLOCK ? out - first : BLOCK;
      W sum[BLOCK] = {};
      for (isize k = 0; k < lines.most; ++k) {
        const int32_t* at = lines.at + k * out + first;
        const W* weight = lines.weight + k * out + first;
        for (isize i = 0; i < wide; ++i) sum[i] += W(x[at[i]]) * weight[i];
      }
      for (isize i = 0; i < wide; ++i) y[first + i] = saturated<To>(sum[i]);
    }
  }
  if (lines.any_outside)
    for (isize i = 0; i < out; ++i)
      if (lines.outside[i]) y[i] = saturated<To>(fill);
}

/** Combines rows that lie `step` elements apart: y[j] for first <= j < last. */
template <class W, class From, class To>
INFUSE_NOINLINE void combine(const Taps<W>& taps, const From* x, isize step, isize first, isize last,
                             To* __restrict y) {
  if (taps.count == 2) {
    const From *a = x + taps.at[0] * step, *b = x + taps.at[1] * step;
    const W p = taps.weight[0], q = taps.weight[1];
    for (isize j = first; j < last; ++j) y[j] = saturated<To>(W(a[j]) * p + W(b[j]) * q);
    return;
  }
  if (taps.count == 4) {
    const From *a = x + taps.at[0] * step, *b = x + taps.at[1] * step;
    const From *c = x + taps.at[2] * step, *d = x + taps.at[3] * step;
    const W p = taps.weight[0], q = taps.weight[1], r = taps.weight[2], s = taps.weight[3];
    for (isize j = first; j < last; ++j)
      y[j] = saturated<To>((W(a[j]) * p + W(b[j]) * q) + (W(c[j]) * r + W(d[j]) * s));
    return;
  }
  constexpr isize BLOCK = 256;
  for (isize at = first; at < last; at += BLOCK) {
    const isize wide = last - at < BLOCK ? last - at : BLOCK;
    W sum[BLOCK] = {};
    for (isize k = 0; k < taps.count; ++k) {
      const From* row = x + taps.at[k] * step + at;
      const W weight = taps.weight[k];
      for (isize j = 0; j < wide; ++j) sum[j] += W(row[j]) * weight;
    }
    for (isize j = 0; j < wide; ++j) y[at + j] = saturated<To>(sum[j]);
  }
}

/** Whether an axis stays as it is. */
inline bool stays(const ResizeSide& side) {
  return side.size == side.out && side.scale == 1 && side.start == 0 && side.end == 1;
}

}  // namespace resize_detail

/** Bytes of scratch per worker; the axis is shape.w. */
template <class W>
inline isize resample_scratch(const ResizeShape& shape) {
  using namespace resize_detail;
  Table<W> table;
  Lines<W> lines;
  const isize bytes = make_table<W>(shape, shape.w, nullptr, &table);
  return bytes + make_lines(table, shape.w.out, nullptr, &lines);
}

/**
 * Resamples the middle axis, shape.w, of x [outer, size, inner] to y [outer, out, inner], computing
 * in W. Needs resample_scratch<W>(shape).
 */
template <class W, class From, class To>
inline void resample(Context& context, const ResizeShape& shape, isize outer, isize inner,
                     const From* x, To* y) {
  using namespace resize_detail;
  const ResizeSide& side = shape.w;
  const isize size = side.size, out = side.out;
  if (outer * out * inner == 0) return;
  if (stays(side)) {
    context.parallel(
        outer * out * inner,
        [&](isize begin, isize end, int) {
          for (isize i = begin; i < end; ++i) y[i] = saturated<To>(W(x[i]));
        },
        16384);
    return;
  }
  Table<W> table;
  Lines<W> lines;
  const isize used = make_table(shape, side, context.scratch(0), &table);
  make_lines(table, out, context.scratch(0) + used, &lines);
  if (inner == 1) {
    context.parallel(
        outer,
        [&](isize begin, isize end, int) {
          for (isize i = begin; i < end; ++i)
            across(lines, W(shape.outside), x + i * size, y + i * out);
        },
        1 + 16384 / (out * table.most));
    return;
  }
  context.parallel(
      outer * out,
      [&](isize begin, isize end, int) {
        for (isize i = begin; i < end; ++i) {
          const Taps<W> taps = table[i % out];
          To* to = y + i * inner;
          if (taps.count)
            combine(taps, x + i / out * size * inner, inner, isize(0), inner, to);
          else
            for (isize j = 0; j < inner; ++j) to[j] = saturated<To>(W(shape.outside));
        }
      },
      1 + 16384 / (inner * table.most));
}

/** The same for nearest, which only moves elements; `outside` lies outside. */
template <class T>
inline void pick(Context& context, const ResizeShape& shape, isize outer, isize inner, const T* x,
                 T* y, T outside) {
  using namespace resize_detail;
  const ResizeSide& side = shape.w;
  const isize size = side.size, out = side.out;
  if (outer * out * inner == 0) return;
  Table<float> table;
  make_table(shape, side, context.scratch(0), &table);
  const bool whole = stays(side);
  context.parallel(
      outer * out,
      [&](isize begin, isize end, int) {
        for (isize i = begin; i < end; ++i) {
          const Taps<float> taps = table[i % out];
          const T* from = x + (i / out * size + (whole ? i % out : taps.at[0])) * inner;
          T* to = y + i * inner;
          if (!taps.count && !whole)
            for (isize j = 0; j < inner; ++j) to[j] = outside;
          else if (inner * isize(sizeof(T)) < 32)
            for (isize j = 0; j < inner; ++j) to[j] = from[j];
          else
            memcpy(to, from, size_t(inner) * sizeof(T));
        }
      },
      1 + 16384 / inner);
}

}  // namespace infuse
