// The sizes and scales of a resizing that only the run knows.
#pragma once
#include "platform.hpp"

namespace infuse {

enum ResizePolicy { STRETCH, NOT_LARGER, NOT_SMALLER };

/** A positive fraction. */
struct Ratio {
  isize_wide above, below;
};

/** The simplest fraction that float32 rounds to this scale, with a denominator up to 4096. */
inline Ratio meant_ratio(float scale) {
  // A positive float32 is whole · 2^shift.
  isize whole = 0;
  int shift = 0;
  double rest = double(scale);
  while (rest != __builtin_floor(rest)) rest *= 2, --shift;
  while (rest >= 1 << 24) rest /= 2, ++shift;
  whole = isize(rest);
  Ratio exact = {whole, 1};
  for (; shift > 0; --shift) exact.above *= 2;
  for (int i = 0; i > shift && i > -100; --i) exact.below *= 2;
  isize_wide n = exact.above, d = exact.below, p0 = 0, q0 = 1, p1 = 1, q1 = 0;
  if (d <= 4096) return exact;
  for (;;) {
    const isize_wide a = n / d, q2 = q0 + a * q1;
    if (q2 > 4096) break;
    const isize_wide p2 = p0 + a * p1, left = n - a * d;
    p0 = p1, q0 = q1, p1 = p2, q1 = q2, n = d, d = left;
  }
  const isize_wide k = (4096 - q0) / q1;
  const Ratio near = {p0 + k * p1, q0 + k * q1}, far = {p1, q1};
  auto error = [&](const Ratio& r) {
    const double e = double(r.above) / double(r.below) - double(scale);
    return e < 0 ? -e : e;
  };
  const Ratio simple = error(far) <= error(near) ? far : near;
  return float(double(simple.above) / double(simple.below)) == scale ? simple : exact;
}

/**
 * Sizes after, and for every axis its scale and the part of it that is shown: plan [rank, 3]. Of
 * `scales` and `sizes` one is null; roi may be null. False when the sizes are impossible.
 */
template <class Scale, class Place, class Size>
inline bool resize_plan(const isize* in, int rank, const isize* axes, int count, const Scale* scales,
                        const Size* sizes, ResizePolicy policy, const Place* roi, isize* out,
                        double* plan) {
  for (int a = 0; a < rank; ++a) out[a] = in[a], plan[3 * a] = 1, plan[3 * a + 1] = 0, plan[3 * a + 2] = 1;
  Ratio common = {0, 1};
  for (int i = 0; i < count && sizes; ++i) {
    const Ratio ratio = {sizes[i], in[axes[i]]};
    if (ratio.above < 0 || ratio.above >= MOST_BYTES) return false;
    if (ratio.below == 0 && (ratio.above != 0 || policy != STRETCH)) return false;
    const bool less = ratio.above * common.below < common.above * ratio.below;
    if (i == 0 || less == (policy == NOT_LARGER)) common = ratio;
  }
  for (int i = 0; i < count; ++i) {
    const isize a = axes[i];
    if (sizes && policy == STRETCH) {
      out[a] = isize(sizes[i]);
      plan[3 * a] = in[a] ? double(out[a]) / double(in[a]) : 1.0;
    } else if (sizes) {
      out[a] = isize((2 * common.above * in[a] + common.below) / (2 * common.below));
      plan[3 * a] = double(common.above) / double(common.below);
    } else {
      if (!(scales[i] > Scale(1e-9) && scales[i] < Scale(1e9))) return false;
      const Ratio ratio = meant_ratio(float(scales[i]));
      if (double(ratio.above) / double(ratio.below) * double(in[a]) >= double(MOST_BYTES)) return false;
      const isize_wide size = ratio.above * in[a] / ratio.below;
      out[a] = isize(size);
      plan[3 * a] = double(ratio.above) / double(ratio.below);
    }
    if (roi) plan[3 * a + 1] = double(roi[i]), plan[3 * a + 2] = double(roi[count + i]);
  }
  return true;
}

}  // namespace infuse
