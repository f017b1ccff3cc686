// The functions of <math.h> for float64 that formulas and kernels call, for programs without a C
// library: within 1e-14 of the result, pow within 1e-12. Operators of C only: results are the same on
// every processor.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "bare_context.h"

#if defined(__GNUC__)
#define MATH static __attribute__((unused))
#else
#define MATH static
#endif

MATH uint64_t double_bits(double x) { uint64_t b; memcpy(&b, &x, sizeof b); return b; }
MATH double bits_double(uint64_t b) { double x; memcpy(&x, &b, sizeof x); return x; }
MATH uint32_t float_bits(float x) { uint32_t b; memcpy(&b, &x, sizeof b); return b; }
MATH float bits_float(uint32_t b) { float x; memcpy(&x, &b, sizeof x); return x; }
#define NAN (bits_float(0x7fc00000u))
#define INFINITY (bits_float(0x7f800000u))
#define isnan(x) ((x) != (x))
#define isinf(x) ((x) == INFINITY || (x) == -INFINITY)
#define signbit(x) ((int)(double_bits(x) >> 63))

// ---- float64: whole numbers and parts ----------------------------------------------------------

#define SIGN64 ((uint64_t)1 << 63)
MATH double infuse_fabs(double x) { return bits_double(double_bits(x) & ~SIGN64); }
MATH double infuse_copysign(double x, double y) {
  return bits_double((double_bits(x) & ~SIGN64) | (double_bits(y) & SIGN64));
}
/** The integer next to x: towards zero. Numbers of 2^52 and more are integers, and NaN stays. */
MATH double infuse_trunc(double x) {
  return infuse_fabs(x) < 0x1p52 ? infuse_copysign((double)(int64_t)x, x) : x;
}
MATH double infuse_floor(double x) {
  const double t = infuse_trunc(x);
  return t > x ? t - 1 : t;
}
MATH double infuse_ceil(double x) {
  const double t = infuse_trunc(x);
  return t < x ? infuse_copysign(t + 1, x) : t;
}
/** To the nearest, halves to even. */
MATH double infuse_rint(double x) {
  const double t = infuse_trunc(x), rest = infuse_fabs(x - t);
  const bool up = rest > 0.5 || (rest == 0.5 && ((int64_t)t & 1));
  return infuse_copysign(up ? infuse_fabs(t) + 1 : t, x);
}
MATH double infuse_ldexp(double x, int n) {
  for (int i = 0; i < 2 && n > 1023; ++i) x *= 0x1p1023, n -= 1023;
  for (int i = 0; i < 2 && n < -1022; ++i) x *= 0x1p-969, n += 969;
  n = n > 1023 ? 1023 : n < -1022 ? -1022 : n;
  return x * bits_double((uint64_t)(1023 + n) << 52);
}
/** x as m · 2^exponent with m in [1/2, 1). */
MATH double infuse_frexp(double x, int* exponent) {
  uint64_t b = double_bits(x);
  int e = (int)(b >> 52 & 0x7ff), shift = 0;
  *exponent = 0;
  if (x == 0 || e == 0x7ff) return x;
  if (e == 0) b = double_bits(x * 0x1p64), e = (int)(b >> 52 & 0x7ff), shift = 64;
  *exponent = e - 1022 - shift;
  return bits_double((b & ~((uint64_t)0x7ff << 52)) | ((uint64_t)1022 << 52));
}
MATH double infuse_fmod(double x, double y) {
  int ex, ey;
  double a = infuse_fabs(infuse_frexp(x, &ex)), b = infuse_fabs(infuse_frexp(y, &ey));
  if (x != x || y != y || a == INFINITY || b == 0) return NAN;
  if (b == INFINITY || x == 0 || infuse_fabs(x) < infuse_fabs(y)) return x;
  for (; ex > ey; --ex) a = 2 * (a >= b ? a - b : a);
  if (a >= b) a -= b;
  return infuse_copysign(infuse_ldexp(a, ey), x);
}
/** Correctly rounded: the root of the bits, digit by digit. */
MATH double infuse_sqrt(double x) {
  int e;
  if (x != x || x == 0 || x == INFINITY) return x;
  if (x < 0) return NAN;
  double m = infuse_frexp(x, &e);
  if (e & 1) m *= 2, --e;
  uint64_t digits = (uint64_t)(m * 0x1p53) << 9, rest = 0, root = 0;  // of m · 2^108, two a step
  for (int i = 0; i < 55; ++i, digits <<= 2) {
    const uint64_t trial = (root << 2) | 1;
    rest = (rest << 2) | digits >> 62;
    root <<= 1;
    if (rest >= trial) rest -= trial, root |= 1;
  }
  return infuse_ldexp((double)(root << 1 | (rest != 0)), e / 2 - 55);
}

// ---- float64: exponentials and logarithms --------------------------------------------------------

#define LOG2E 1.4426950408889634
#define LN2_HIGH 6.93147180369123816490e-01
#define LN2_LOW 1.90821492927058770002e-10
#define HALF_PI 1.5707963267948966
#define HALF_PI_LOW 6.123233995736766e-17

/** e^r - 1 for |r| <= 0.35. */
MATH double small_expm1(double r) {
  double p = 0;
  for (int i = 14; i > 0; --i) p = (p * r + r) / i;
  return p;
}
/** x = r + k · ln 2 with |r| <= 0.35; NaN and what overflows is k = 0. */
MATH double exp_parts(double x, int* k) {
  *k = (int)infuse_rint(x * LOG2E);
  return (x - *k * LN2_HIGH) - *k * LN2_LOW;
}
MATH double infuse_exp(double x) {
  int k;
  if (x != x) return x;
  if (x > 710 || x < -746) return x > 0 ? (double)INFINITY : 0;
  const double r = exp_parts(x, &k);
  return infuse_ldexp(1 + small_expm1(r), k);
}
MATH double infuse_expm1(double x) {
  int k;
  if (x != x || x == 0) return x;
  if (x > 710) return (double)INFINITY;
  if (x < -50) return -1;
  const double r = exp_parts(x, &k), e = small_expm1(r);
  if (k == 0) return e;
  if (k > 60) return infuse_ldexp(1 + e, k);
  const double two = infuse_ldexp(1, k);
  return two * e + (two - 1);
}
MATH double infuse_log(double x) {
  int k;
  if (x != x || x == INFINITY) return x;
  if (x <= 0) return x == 0 ? -(double)INFINITY : (double)NAN;
  double m = infuse_frexp(x, &k);
  if (m < 0.70710678118654752) m *= 2, --k;
  const double f = m - 1, s = f / (2 + f), z = s * s, half = 0.5 * f * f;
  double r = 0;
  for (int i = 23; i >= 3; i -= 2) r = z * (2.0 / i + r);
  return k * LN2_HIGH - ((half - (s * (half + r) + k * LN2_LOW)) - f);
}
MATH double infuse_log1p(double x) {
  const double u = 1 + x;
  if (infuse_fabs(x) < 0x1p-54 || x == INFINITY) return x;
  if (!(u > 0)) return x == -1 ? -(double)INFINITY : (double)NAN;
  return infuse_log(u) + (x - (u - 1)) / u;
}
MATH double infuse_sinh(double x) {
  const double a = infuse_fabs(x), t = infuse_expm1(a);
  const double e = a > 700 ? infuse_exp(a / 2) : 0;
  return infuse_copysign(a > 700 ? e / 2 * e : a < 0x1p-30 ? a : (t + t / (t + 1)) / 2, x);
}
MATH double infuse_cosh(double x) {
  const double a = infuse_fabs(x), e = infuse_exp(a > 700 ? a / 2 : a);
  return a > 700 ? e / 2 * e : (e + 1 / e) / 2;
}
MATH double infuse_tanh(double x) {
  const double a = infuse_fabs(x), t = infuse_expm1(2 * a);
  return x != x ? x : infuse_copysign(a > 22 ? 1 : t / (t + 2), x);
}
MATH double infuse_asinh(double x) {
  const double a = infuse_fabs(x);
  if (a > 1e8) return infuse_copysign(infuse_log(a) + (LN2_HIGH + LN2_LOW), x);
  return infuse_copysign(infuse_log1p(a + a * a / (1 + infuse_sqrt(a * a + 1))), x);
}
MATH double infuse_acosh(double x) {
  const double t = x - 1;
  if (x > 1e8) return infuse_log(x) + (LN2_HIGH + LN2_LOW);
  return t < 0 ? (double)NAN : infuse_log1p(t + infuse_sqrt(2 * t + t * t));
}
MATH double infuse_atanh(double x) {
  const double a = infuse_fabs(x);
  return a > 1 ? (double)NAN : infuse_copysign(0.5 * infuse_log1p(2 * a / (1 - a)), x);
}

// ---- float64: angles -----------------------------------------------------------------------------

/** 2 / pi in 32 digits to the base 2^32. */
static const uint32_t two_over_pi[] = {
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561,
    0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484,
    0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f,
    0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b,
    0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046, 0xfc7b6bab, 0xf0cfbc20, 0x9af4361d,
};
/** The quarter turn of x >= 0, modulo 4, and in *r what is left of it, at most pi / 4. */
MATH int quarter(double x, double* r) {
  int e;
  if (x < 0.7853981633974483) return *r = x, 0;
  const uint64_t m = (uint64_t)(infuse_frexp(x, &e) * 0x1p53);
  uint32_t w[6], p[8] = {0};  // the digits of 2 / pi that count, and their product with m, lowest first
  e -= 53;                    // x = m · 2^e; digits of a weight of 4 and more fall off
  const int first = e > 2 ? e - 2 : 0, word = first / 32, bit = first % 32;
  for (int i = 0; i < 6; ++i) {
    const uint32_t high = two_over_pi[word + 5 - i], low = two_over_pi[word + 6 - i];
    w[i] = bit ? high << bit | low >> (32 - bit) : high;
  }
  for (int j = 0; j < 2; ++j) {
    uint64_t carry = 0;
    for (int i = 0; i < 6; ++i) {
      carry += (uint64_t)w[i] * (uint32_t)(m >> 32 * j) + p[i + j];
      p[i + j] = (uint32_t)carry;
      carry >>= 32;
    }
    p[6 + j] = (uint32_t)carry;
  }
  const int point = 192 + first - e;  // digits of p behind the point: 190 and more
  int turn = 0;
  for (int i = 1; i >= 0; --i) turn = 2 * turn + (int)(p[(point + i) / 32] >> (point + i) % 32 & 1);
  const bool up = p[(point - 1) / 32] >> (point - 1) % 32 & 1;
  double rest = 0, unit = infuse_ldexp(1, -point);
  uint32_t below = up;  // of more than a half: what is missing to the whole
  for (int i = 0; i < 8; ++i, unit *= 0x1p32) {
    const int left = point - 32 * i;
    uint32_t digit = up ? ~p[i] + below : p[i];
    below = below && !digit;
    if (left < 32) digit &= left > 0 ? ((uint32_t)1 << left) - 1 : 0;
    rest += digit * unit;
  }
  *r = (up ? -rest : rest) * HALF_PI;
  return (turn + up) & 3;
}
/** The sine of |r| <= pi / 4, or its cosine. */
MATH double sine_of(double r, bool cosine) {
  const double z = r * r;
  double p = 0;
  for (int i = cosine ? 18 : 19; i > 1; i -= 2) p = (1 + p) * -z / (i * (i - 1));
  return cosine ? 1 + p : r + r * p;
}
MATH double infuse_sin(double x) {
  double r;
  if (!(infuse_fabs(x) < INFINITY)) return NAN;
  const int n = quarter(infuse_fabs(x), &r);
  const double s = sine_of(r, n & 1);
  return x == 0 ? x : (n > 1) != (x < 0) ? -s : s;
}
MATH double infuse_cos(double x) {
  double r;
  if (!(infuse_fabs(x) < INFINITY)) return NAN;
  const int n = quarter(infuse_fabs(x), &r);
  const double c = sine_of(r, !(n & 1));
  return n == 1 || n == 2 ? -c : c;
}
MATH double infuse_tan(double x) { return x == 0 ? x : infuse_sin(x) / infuse_cos(x); }
MATH double infuse_atan(double x) {
  double a = infuse_fabs(x), base = 0, low = 0, p = 0;
  const bool over = a > 1;
  if (x != x || x == 0) return x;
  if (over) a = 1 / a;
  const bool middle = a > 0.41421356237309503;
  if (middle) a = (a - 1) / (a + 1), base = HALF_PI / 2, low = HALF_PI_LOW / 2;
  const double z = a * a;
  for (int i = 45; i > 1; i -= 2) p = z * (1.0 / i - p);
  double y = base + ((a - a * p) + low);
  if (over) y = HALF_PI - (y - HALF_PI_LOW);
  return infuse_copysign(y, x);
}
MATH double infuse_asin(double x) {
  const double a = infuse_fabs(x);
  if (!(a <= 1)) return NAN;
  if (a <= 0.5) return x == 0 ? x : infuse_atan(x / infuse_sqrt((1 - x) * (1 + x)));
  const double h = infuse_sqrt((1 - a) / 2);
  return infuse_copysign(HALF_PI - (2 * infuse_atan(h / infuse_sqrt((1 + a) / 2)) - HALF_PI_LOW), x);
}
MATH double infuse_acos(double x) {
  if (!(infuse_fabs(x) <= 1)) return NAN;
  if (x > 0.5) return 2 * infuse_atan(infuse_sqrt((1 - x) / (1 + x)));
  return x < -0.5 ? 2 * (HALF_PI - (infuse_atan(infuse_sqrt((1 + x) / (1 - x))) - HALF_PI_LOW))
                  : HALF_PI - (infuse_asin(x) - HALF_PI_LOW);
}

// ---- float64: the error function, powers, a fused product ------------------------------------------

MATH double infuse_erf(double x) {
  const double a = infuse_fabs(x), e = infuse_exp(-a * a);
  double term = a, sum = a, tail = 0;
  if (x != x) return x;
  if (a > 6) return infuse_copysign(1, x);
  for (int i = 1; a < 2 && i < 60; ++i) term *= 2 * a * a / (2 * i + 1), sum += term;
  for (int i = 120; a >= 2 && i > 0; --i) tail = i * 0.5 / (a + tail);
  const double y = a < 2 ? 1.1283791670955126 * e * sum : 1 - e / (1.7724538509055159 * (a + tail));
  return infuse_copysign(y, x);
}
MATH double infuse_pow(double x, double y) {
  const bool whole = infuse_trunc(y) == y, odd = whole && infuse_fmod(y, 2) != 0;
  const double a = infuse_fabs(x);
  double r = 1;
  if (y == 0 || x == 1 || (x == -1 && isinf(y))) return 1;
  if (x != x || y != y || (x < 0 && a != INFINITY && !whole)) return NAN;
  if (whole && infuse_fabs(y) <= 64 && a < INFINITY) {
    double base = a;
    for (unsigned n = (unsigned)infuse_fabs(y); n; n >>= 1, base *= base)
      if (n & 1) r *= base;
    if (y < 0) r = r == INFINITY || r < 0x1p-1000 ? infuse_exp(y * infuse_log(a)) : 1 / r;
  } else {
    r = a == 1 ? 1 : infuse_exp(y * infuse_log(a));
  }
  return odd && signbit(x) ? -r : r;
}
/** a · b + c, rounded once where a · b is not near the largest number. */
MATH double exact_sum(double p, double e, double c) {
  const double s = p + c, b = s - p;
  return s == s && !isinf(s) ? s + (((p - (s - b)) + (c - b)) + e) : s;
}
MATH double infuse_fma(double a, double b, double c) {
  const double sa = a * 134217729.0, sb = b * 134217729.0, p = a * b;
  const double ah = sa - (sa - a), bh = sb - (sb - b), al = a - ah, bl = b - bh;
  const double e = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
  return p - p == 0 && e - e == 0 ? exact_sum(p, e, c) : p + c;
}
