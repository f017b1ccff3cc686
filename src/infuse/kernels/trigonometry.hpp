// Angles and hyperbolic functions, and the inverses of both.
#pragma once

#include "math.hpp"

namespace infuse {

namespace detail {

// x + x^3 q(x^2) with the coefficients of q, the lowest first.
template <int terms>
INFUSE_INLINE vf odd(vf x, const float (&q)[terms]) {
  vf s = x * x, y = splat(q[terms - 1]);
#pragma GCC unroll 16
  for (int i = terms - 2; i >= 0; --i) y = fma(y, s, splat(q[i]));
  return fma(x * s, y, x);
}

// ---- sine, cosine and tangent ----------------------------------------------------------------

#define INFUSE_LIBM(name)                                             \
  INFUSE_NOINLINE inline vf libm_##name(vf x) {                       \
    for (int i = 0; i < LANES; ++i) x[i] = __builtin_##name##f(x[i]); \
    return x;                                                         \
  }
INFUSE_LIBM(sin)
INFUSE_LIBM(cos)
INFUSE_LIBM(tan)
#undef INFUSE_LIBM

// x = k pi / 2 + r with a whole k, |r| <= pi/4, for |x| <= 10000: the multiples of the parts of
// pi/2 are then exact.
struct Turned {
  vi k;
  vf r;
};

INFUSE_INLINE Turned turn(vf x) {
  const vf magic = splat(12582912.0f);
  vf shifted = fma(x, splat(0.636619772f), magic);
  vf n = shifted - magic;
#if INFUSE_FMA
  vf r = fma(n, splat(-1.57079625f), x);
  r = fma(n, splat(-7.54978942e-08f), r);
  r = fma(n, splat(-5.39030253e-15f), r);
#else
  vf r = x - n * 1.5703125f;
  r = r - n * 4.83751297e-04f;
  r = r - n * 7.54953362e-08f;
  r = r - n * 2.56334407e-12f;
#endif
  return {as_int(shifted), r};
}

// sin(x + quarter * pi / 2) for |x| <= 10000.
INFUSE_INLINE vf sine(vf x, int32_t quarter) {
  auto [k, r] = turn(x);
  k = k + quarter;
  vf t = r * r;
  vf s = fma(fma(splat(-1.9515218e-04f), t, splat(8.33216029e-03f)), t, splat(-0.166666546f));
  s = r * fma(t, s, splat(1.0f));
  vf c = fma(fma(splat(2.44330826e-05f), t, splat(-1.38873156e-03f)), t, splat(4.16666457e-02f));
  c = fma(t * t, c, fma(t, splat(-0.5f), splat(1.0f)));
  vf y = select((k & 1) == 0, s, c);
  return as_float(as_int(y) ^ ((k & 2) << 30));
}

// tan(x) for |x| <= 10000: tan(r) or -1 / tan(r).
INFUSE_INLINE vf tangent(vf x) {
  auto [k, r] = turn(x);
  vf t = odd(r, {0.333333492f, 0.133326754f, 0.0540589094f, 0.0212862547f, 0.0108272443f,
                 9.86001469e-05f, 0.00437247334f});
  vi even = (k & 1) == 0;
  vf y = select(even, t, splat(-1.0f)) / select(even, splat(1.0f), t);
  return select(x == 0.0f, x, y);
}
}  // namespace detail

INFUSE_INLINE vf sin(vf x) {
  vi far = abs(x) > 10000.0f;
  vf y = detail::sine(x, 0);
  return __builtin_expect(any(far), 0) ? select(far, detail::libm_sin(x), y) : y;
}
INFUSE_INLINE vf cos(vf x) {
  vi far = abs(x) > 10000.0f;
  vf y = detail::sine(x, 1);
  return __builtin_expect(any(far), 0) ? select(far, detail::libm_cos(x), y) : y;
}
INFUSE_INLINE vf tan(vf x) {
  vi far = abs(x) > 10000.0f;
  vf y = detail::tangent(x);
  return __builtin_expect(any(far), 0) ? select(far, detail::libm_tan(x), y) : y;
}

// ---- angles ----------------------------------------------------------------------------------

namespace detail {
// The arcsine of |x| <= 1/2.
INFUSE_INLINE vf asin_near(vf x) {
  return odd(x, {0.166667521f, 0.0749530941f, 0.0454691537f, 0.0241847429f, 0.0421583876f});
}

// From one half on, asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)): the smaller angle of |x|, which is
// asin(|x|) up to one half and half of acos(|x|) above. NaN above 1.
struct SmallAngle {
  vi above;
  vf angle;
};

INFUSE_INLINE SmallAngle small_angle(vf x) {
  vf a = abs(x);
  vi above = a > 0.5f;
  return {above, asin_near(select(above, sqrt(fma(a, splat(-0.5f), splat(0.5f))), a))};
}
}  // namespace detail

INFUSE_INLINE vf asin(vf x) {
  detail::SmallAngle small = detail::small_angle(x);
  vf far = fma(small.angle, splat(-2.0f), splat(1.57079633f));
  return detail::copysign(select(small.above, far, small.angle), x);
}

INFUSE_INLINE vf acos(vf x) {
  detail::SmallAngle small = detail::small_angle(x);
  vi negative = x < 0.0f;
  vf twice = small.angle + small.angle;
  vf far = select(negative, 3.14159265f - twice, twice);
  return select(small.above, far, 1.57079633f - detail::copysign(small.angle, x));
}

INFUSE_INLINE vf atan(vf x) {
  vf a = abs(x);
  vi above = a > 1.0f;
  vf t = select(above, splat(-1.0f), a) / select(above, a, splat(1.0f));
  vf y = detail::odd(t, {-0.333332986f, 0.199985296f, -0.142640159f, 0.109508805f, -0.0839930549f,
                         0.0578813329f, -0.0310968421f, 0.0108685335f, -0.00178276387f});
  return detail::copysign(y + select(above, splat(1.57079633f), vf{}), x);
}

// ---- hyperbolic functions --------------------------------------------------------------------

namespace detail {
// Half of e^x for 0 <= x, infinite where the hyperbolic functions are.
INFUSE_INLINE vf half_exp(vf x) {
  Reduced e = reduce_exp(clamp(x, 0.0f, 90.0f));
  e.i = e.i - 1, e.n = e.n - 1.0f;
  return scale(e);
}
}  // namespace detail

INFUSE_INLINE vf cosh(vf x) {
  vf half = detail::half_exp(abs(x));
  return half + 0.25f / half;
}

INFUSE_INLINE vf sinh(vf x) {
  vf a = abs(x), half = detail::half_exp(a);
  vf near = detail::odd(a, {0.166666672f, 0.00833331048f, 0.000198428956f, 2.78221319e-06f});
  return detail::copysign(select(a < 1.0f, near, half - 0.25f / half), x);
}

// ---- their inverses --------------------------------------------------------------------------

// Beyond 10000, asinh(x) and acosh(x) are log(2 x).

INFUSE_INLINE vf asinh(vf x) {
  vf a = abs(x);
  vi far = a > 10000.0f;
  vf sum = a + select(far, vf{}, sqrt(fma(a, a, splat(1.0f))));
  vf y = log(sum) + select(far, splat(0.693147181f), vf{});
  vf near = detail::odd(a, {-0.166666612f, 0.0749971122f, -0.0445907749f, 0.0299288016f,
                            -0.0201931428f, 0.0111958375f, -0.00341953058f});
  return detail::copysign(select(a < 0.7f, near, y), x);
}

INFUSE_INLINE vf acosh(vf x) {
  vi far = x > 10000.0f;
  vf t = x - 1.0f;
  vf y = log1p(t + select(far, vf{}, sqrt(fma(t, t, t + t))));
  return select(x < 1.0f, detail::nan(), y + select(far, splat(0.693147181f), vf{}));
}

INFUSE_INLINE vf atanh(vf x) {
  vf a = abs(x);
  vf near = detail::odd(a, {0.333333015f, 0.200024545f, 0.142237455f, 0.118167624f, 0.0515895747f,
                            0.176399395f});
  vf y = log((1.0f + a) / (1.0f - a)) * 0.5f;
  return detail::copysign(select(a < 0.5f, near, y), x);
}

// ---- float scalars by the same polynomials, doubles by libm ----------------------------------

#define INFUSE_SCALARS(name)                                      \
  INFUSE_INLINE float name(float x) { return name(splat(x))[0]; } \
  INFUSE_INLINE double name(double x) { return __builtin_##name(x); }
INFUSE_SCALARS(sin)
INFUSE_SCALARS(cos)
INFUSE_SCALARS(tan)
INFUSE_SCALARS(asin)
INFUSE_SCALARS(acos)
INFUSE_SCALARS(atan)
INFUSE_SCALARS(sinh)
INFUSE_SCALARS(cosh)
INFUSE_SCALARS(asinh)
INFUSE_SCALARS(acosh)
INFUSE_SCALARS(atanh)
#undef INFUSE_SCALARS

}  // namespace infuse
