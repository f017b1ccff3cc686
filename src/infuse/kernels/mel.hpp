// Weights that sum a spectrum up in mel.
#pragma once
#include "half.hpp"

namespace infuse {

/**
 * Weights of `bins` triangular filters over the places 0 … length / 2 of a spectrum, equally wide in mel;
 * y [length / 2 + 1, bins]. False when a filter lies outside of the spectrum.
 */
template <class T>
inline bool mel_weights(isize bins, isize length, double rate, double lower, double upper, T* y) {
  const isize rows = length / 2 + 1;
  const double ln10 = __builtin_log(10.0);
  const double low = 2595 * __builtin_log1p(lower / 700) / ln10;
  const double high = 2595 * __builtin_log1p(upper / 700) / ln10;
  const double step = (high - low) / static_cast<double>(bins + 2);
  const auto place = [&](isize i) {
    const double hertz = 700 * __builtin_expm1((static_cast<double>(i) * step + low) / 2595 * ln10);
    return __builtin_floor(static_cast<double>(length + 1) * hertz / rate);
  };
  for (isize i = 0; i < rows * bins; ++i) y[i] = T(0.0f);
  for (isize i = 0; i < bins; ++i) {
    const double edges[3] = {place(i), place(i + 1), place(i + 2)};
    if (!(edges[0] >= 0 && edges[1] < static_cast<double>(rows) && edges[1] >= edges[0])) return false;
    if (!(edges[2] <= static_cast<double>(rows) && edges[2] >= edges[1])) return false;
    const isize left = isize(edges[0]), center = isize(edges[1]), right = isize(edges[2]);
    if (center == left) y[center * bins + i] = T(1.0f);
    for (isize j = left; center > left && j <= center; ++j)
      y[j * bins + i] = T(static_cast<double>(j - left) / static_cast<double>(center - left));
    for (isize j = center; j < right; ++j)
      y[j * bins + i] = T(static_cast<double>(right - j) / static_cast<double>(right - center));
  }
  return true;
}

}  // namespace infuse
