// Regions of images pooled to one size, channels last.
#pragma once
#include "math.hpp"
#include "threads.hpp"

namespace infuse {

struct RegionShape {
  isize n, h, w, c, regions, rows, columns;
};

namespace region_detail {

constexpr isize BLOCK = 64;

/** One point along an axis: its two pixels and what they weigh; nothing outside of the image. */
template <class T>
struct Between {
  isize low, high;
  T near, far;
  bool inside;

  Between(T place, isize size) : low(0), high(0), near(0), far(0), inside(false) {
    if (!(place >= T(-1) && place <= T(size))) return;
    inside = true;
    place = place < 0 ? T(0) : place > T(size - 1) ? T(size - 1) : place;
    low = isize(place);
    high = low + 1 < size ? low + 1 : low;
    far = place - T(low), near = 1 - far;
  }
};

/** The part of a region along one axis. */
template <class T>
struct Side {
  T first, width;
  isize points;

  Side(T start, T end, T scale, isize bins, isize ratio, bool half_pixel) {
    const T shift = half_pixel ? T(0.5) : T(0);
    first = start * scale - shift;
    T size = end * scale - shift - first;
    if (!half_pixel && !(size > 1)) size = 1;
    width = size / T(bins);
    const T most = T(INT64_C(1) << (sizeof(isize) == 8 ? 31 : 30));  // so that the points of a bin can be counted
    const T whole = infuse::ceil(width);
    points = ratio > 0 ? ratio : !(whole > 0) ? 0 : whole > most ? isize(most) : isize(whole);
  }
  /** The points of a bin from which on they may lie inside of `size` pixels, and before which. */
  void inside(isize bin, isize size, isize* begin, isize* end) const {
    *begin = 0, *end = points;
    const double step = double(width) / double(points > 0 ? points : 1);
    if (!(step > 0)) return;
    const double start = double(first) + double(bin) * double(width);
    *begin = limited((-1 - start) / step - 3), *end = limited((double(size) - start) / step + 3);
  }
  isize limited(double place) const {
    return !(place > 0) ? 0 : place < double(points) ? isize(place) : points;
  }
  T at(isize bin, isize point) const {
    return first + (T(bin) * width + (T(point) + T(0.5)) * width / T(points));
  }
};

/**
 * Adds up (or takes the largest of) the points of one bin for a block of channels. Points outside
 * weigh the first pixel with 0: it counts where it is not finite.
 */
template <bool Largest, class T>
INFUSE_INLINE void bin(const RegionShape& s, const T* image, const Side<T>& down,
                       const Side<T>& across, isize row, isize column, isize c, isize wide, T* sum) {
  isize top, bottom, left, right;
  down.inside(row, s.h, &top, &bottom);
  across.inside(column, s.w, &left, &right);
  bool outside = down.points * across.points > (bottom - top) * (right - left), any = false;
  for (isize iy = top; iy < bottom; ++iy) {
    const Between<T> y(down.at(row, iy), s.h);
    const T* upper = image + y.low * s.w * s.c + c;
    const T* lower = image + y.high * s.w * s.c + c;
    for (isize ix = left; ix < right; ++ix) {
      const Between<T> x(across.at(column, ix), s.w);
      if (!x.inside || !y.inside) {
        outside = true;
        continue;
      }
      const T a = y.near * x.near, b = y.near * x.far, d = y.far * x.near, e = y.far * x.far;
      const T *p = upper + x.low * s.c, *q = upper + x.high * s.c;
      const T *u = lower + x.low * s.c, *v = lower + x.high * s.c;
      if constexpr (Largest) {
        for (isize j = 0; j < wide; ++j) {
          const T value = max(max(a * p[j], b * q[j]), max(d * u[j], e * v[j]));
          sum[j] = any ? max(sum[j], value) : value;
        }
        any = true;
      } else {
        for (isize j = 0; j < wide; ++j) sum[j] += a * p[j] + b * q[j] + d * u[j] + e * v[j];
      }
    }
  }
  for (isize j = 0; outside && j < wide; ++j) {
    const T nothing = T(0) * image[c + j];
    sum[j] = !Largest ? sum[j] + nothing : any ? max(sum[j], nothing) : nothing;
  }
}

}  // namespace region_detail

/**
 * y [regions, rows, columns, c] from x [n, h, w, c] and rois [regions, 4]; false when an index of an
 * image lies outside.
 */
template <bool Largest, class T>
inline bool roi_align(Context& context, const RegionShape& s, T scale, isize ratio, bool half_pixel,
                      const T* x, const T* rois, const int64_t* images, T* y) {
  using namespace region_detail;
  for (isize i = 0; i < s.regions; ++i)
    if (images[i] < 0 || images[i] >= s.n) return false;
  if (s.h * s.w * s.c == 0) return true;
  context.parallel(s.regions * s.rows, [&](isize begin, isize end, int) {
    for (isize unit = begin; unit < end; ++unit) {
      const isize region = unit / s.rows, row = unit % s.rows;
      const T* box = rois + region * 4;
      const T* image = x + images[region] * s.h * s.w * s.c;
      const Side<T> across(box[0], box[2], scale, s.columns, ratio, half_pixel);
      const Side<T> down(box[1], box[3], scale, s.rows, ratio, half_pixel);
      const isize points = down.points * across.points;
      const T count = T(points > 1 ? points : 1);
      for (isize column = 0; column < s.columns; ++column)
        for (isize c = 0; c < s.c; c += BLOCK) {
          const isize wide = s.c - c < BLOCK ? s.c - c : BLOCK;
          T sum[BLOCK] = {};
          if (wide == BLOCK)
            bin<Largest>(s, image, down, across, row, column, c, BLOCK, sum);
          else
            bin<Largest>(s, image, down, across, row, column, c, wide, sum);
          T* to = y + (unit * s.columns + column) * s.c + c;
          for (isize j = 0; j < wide; ++j) to[j] = Largest ? sum[j] : sum[j] / count;
        }
    }
  });
  return true;
}

namespace region_detail {

/** A coordinate as a whole pixel, halves away from zero. */
template <class T>
inline isize whole(T x) {
  const double far = 1e15, wide = double(x), size = infuse::floor((wide < 0 ? -wide : wide) + 0.5);
  const isize found = size < far ? isize(size) : isize(far);
  return x < 0 ? -found : found;
}

/** The pixels of a bin, [first, last). */
struct Pixels {
  isize first, last;

  Pixels(isize start, isize end, isize bin, isize bins, isize size) {
    const isize extent = end - start + 1 > 1 ? end - start + 1 : 1;
    first = clamp(start + bin * extent / bins, size);
    last = clamp(start + ((bin + 1) * extent + bins - 1) / bins, size);
  }
  static isize clamp(isize at, isize size) { return at < 0 ? 0 : at > size ? size : at; }
};

}  // namespace region_detail

/** The largest pixels of the bins of rois [regions, 5]: y [regions, rows, columns, c]; 0 for none. */
template <class T>
inline bool max_roi_pool(Context& context, const RegionShape& s, T scale, const T* x, const T* rois,
                         T* y) {
  using namespace region_detail;
  for (isize i = 0; i < s.regions; ++i)
    if (!(rois[i * 5] > T(-1) && rois[i * 5] < T(s.n))) return false;
  context.parallel(s.regions * s.rows, [&](isize begin, isize end, int) {
    for (isize unit = begin; unit < end; ++unit) {
      const T* box = rois + unit / s.rows * 5;
      const T* image = x + isize(box[0]) * s.h * s.w * s.c;
      const Pixels down(whole(box[2] * scale), whole(box[4] * scale), unit % s.rows, s.rows, s.h);
      for (isize column = 0; column < s.columns; ++column) {
        const Pixels across(whole(box[1] * scale), whole(box[3] * scale), column, s.columns, s.w);
        T* to = y + (unit * s.columns + column) * s.c;
        bool any = false;
        for (isize j = 0; j < s.c; ++j) to[j] = 0;
        for (isize iy = down.first; iy < down.last; ++iy)
          for (isize ix = across.first; ix < across.last; ++ix, any = true) {
            const T* from = image + (iy * s.w + ix) * s.c;
            for (isize j = 0; j < s.c; ++j) to[j] = any ? max(to[j], from[j]) : from[j];
          }
      }
    }
  });
  return true;
}

}  // namespace infuse
