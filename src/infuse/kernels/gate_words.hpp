// Sums of inputs or states times weights of 8 bits by instructions that add four products of bytes.
//
// The numbers of a row become integers in steps of 1 / LARGEST of the largest of them, as three digits to the base
// 256, so that they keep the 24 bits of a float: sum h w = step (sum d0 w + 256 sum d1 w + 65536 sum d2 w), and all but
// the last two additions is exact. A digit is stored with LIFT added to it, which comes off by the sums of the weights.
// Weights are packed as [unit][quad of k][vector][width][4].
#pragma once

#include "integer_layouts.hpp"
#include "math.hpp"

namespace infuse {
namespace recur {

constexpr int DIGITS = 3;
constexpr float LARGEST = 4194303.0f;
constexpr int LIFT = integer_detail::SIGNED_BYTES ? 0 : 128;

// Words of one digit of k numbers.
constexpr isize quads(isize k) { return (k + 3) / 4; }

namespace detail {

// Writes the digits [DIGITS][quads(k)] of k numbers; their step, or NaN where one is not finite.
INFUSE_NOINLINE inline float to_digits(const float* numbers, isize k, int32_t* words) {
  vf most{}, wrong{};  // what is not finite is not 0 less itself
  sweep(0, k, [&](isize i, auto lanes) {
    const vf x = load(numbers + i, lanes);
    most = max(most, abs(x));
    wrong += x - x;
  });
  const float largest = hmax(most);
  for (int i = 0; i < LANES; ++i)
    if (wrong[i] != 0) return as_float(0x7fc00000);
  // Smaller ones are next to nothing beside what the input and the bias add.
  const float factor = largest > 1e-30f ? LARGEST / largest : 0;
  uint8_t* to = (uint8_t*)words;
  const isize digit = 4 * quads(k);
  for (int d = 0; d < DIGITS; ++d) words[(d + 1) * quads(k) - 1] = 0;
  sweep(0, k, [&](isize i, auto lanes) {
    constexpr float ROUND = 12582912.0f;  // floats around it are the integers
    const vi whole = as_int(load(numbers + i, lanes) * factor + splat(ROUND)) - as_int(splat(ROUND));
    const vi lifted = whole + 0x808080, flip = splat(int32_t(128 - LIFT));
    for (int d = 0; d < DIGITS; ++d)
      store_narrow(to + d * digit + i, ((lifted >> 8 * d) & 255) ^ flip, lanes);
  });
  return largest / LARGEST;
}

// out[R][V] = digits of R rows times a unit [quads][V], times the step of each.
template <int R, int V>
INFUSE_NOINLINE void quad_tile(const int32_t* const* words, const float* steps, isize n,
                               const int8_t* unit, const int32_t* sums, vf* out) {
  vi sum[R][DIGITS][V];
#pragma GCC unroll 32
  for (int v = 0; v < V; ++v)
#pragma GCC unroll 8
    for (int i = 0; i < R * DIGITS; ++i)
      sum[i / DIGITS][i % DIGITS][v] = load(sums + v * LANES, Full{}) * -LIFT;
#pragma GCC unroll 1
  for (isize p = 0; p < n; ++p) {
    vi w[V];
#pragma GCC unroll 32
    for (int v = 0; v < V; ++v) w[v] = load((const int32_t*)unit + (p * V + v) * LANES, Full{});
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
      for (int d = 0; d < DIGITS; ++d) {
        const vi a = splat(words[i][d * n + p]);
#pragma GCC unroll 32
        for (int v = 0; v < V; ++v)
          sum[i][d][v] = integer_detail::add_quads(sum[i][d][v], a, w[v]);
      }
  }
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 32
    for (int v = 0; v < V; ++v) {
      vf total = to_float(sum[i][DIGITS - 1][v]);
#pragma GCC unroll 8
      for (int d = DIGITS - 2; d >= 0; --d) total = fma(total, splat(256.0f), to_float(sum[i][d][v]));
      out[i * V + v] = total * steps[i];
    }
}

// out[V] = k numbers times a unit, one by one: for those that have no digits.
template <int V>
INFUSE_NOINLINE void plain_tile(const float* numbers, isize k, const int8_t* unit, vf* out) {
  for (int v = 0; v < V; ++v) out[v] = vf{};
  for (isize p = 0; p < k; ++p)
    for (int v = 0; v < V; ++v) {
      const vi w = load((const int32_t*)unit + (p / 4 * V + v) * LANES, Full{});
      const int shift = int(24 - 8 * (p % 4));
      out[v] = fma(splat(numbers[p]), to_float(w << shift >> 24), out[v]);
    }
}

}  // namespace detail

// Rows of k numbers as digits, and where these lie.
struct Digits {
  const float* rows;
  int32_t* words;  // [row][DIGITS][quads(k)]
  float* steps;    // [row]
  isize k;

  void make(isize row) const {
    const isize size = DIGITS * quads(k);
    steps[row] = detail::to_digits(rows + row * k, k, words + row * size);
  }

  // Calls finish(i, sums[V]) for n rows at(i): their numbers times a unit and `scales`.
  template <int V, class At, class Finish>
  INFUSE_INLINE void product(const At& at, isize n, const int8_t* unit, const int32_t* sums,
                             const float* scales, const Finish& finish) const {
    vf out[2 * V];
    for (isize i = 0, count; i < n; i += count) {
      const isize size = DIGITS * quads(k), a = at(i), b = at(i + 1 < n ? i + 1 : i);
      const int32_t* both[2] = {words + a * size, words + b * size};
      const float own[2] = {steps[a], steps[b]};
      count = 1;
      if (own[0] != own[0])
        detail::plain_tile<V>(rows + a * k, k, unit, out);
      else if (INFUSE_REGISTERS > 16 && i + 1 < n && own[1] == own[1])
        detail::quad_tile<2, V>(both, own, quads(k), unit, sums, out), count = 2;
      else
        detail::quad_tile<1, V>(both, own, quads(k), unit, sums, out);
      for (isize j = 0; j < count; ++j) {
        for (int v = 0; v < V; ++v) out[j * V + v] *= load(scales + v * LANES, Full{});
        finish(i + j, out + j * V);
      }
    }
  }
};

}  // namespace recur
}  // namespace infuse
