// Elementwise mathematics: one name for vectors (vf, vi) and scalars (float, double, integers), so
// that one formula text compiles for both. NaN, infinities and signed zero follow NumPy; results
// below the smallest normal number may be zeros of their sign (see FlushSubnormals).
//
// Accuracy in float, in units of the last place: tanh and erf within 8, sqrt exact, mod and fmod
// that of libm, pow within 1, all others within 4. A float scalar of a polynomial function gives
// the same bits as a lane of the vector.
#pragma once

#include "simd.hpp"

namespace infuse {

// ---- comparisons and masks -------------------------------------------------------------------

template <class T>
INFUSE_INLINE auto eq(T a, T b) {
  return a == b;
}
template <class T>
INFUSE_INLINE auto ne(T a, T b) {
  return a != b;
}
template <class T>
INFUSE_INLINE auto lt(T a, T b) {
  return a < b;
}
template <class T>
INFUSE_INLINE auto le(T a, T b) {
  return a <= b;
}
template <class T>
INFUSE_INLINE auto gt(T a, T b) {
  return a > b;
}
template <class T>
INFUSE_INLINE auto ge(T a, T b) {
  return a >= b;
}

INFUSE_INLINE vi logical_and(vi a, vi b) { return a & b; }
INFUSE_INLINE vi logical_or(vi a, vi b) { return a | b; }
INFUSE_INLINE vi logical_xor(vi a, vi b) { return a ^ b; }
INFUSE_INLINE vi logical_not(vi a) { return ~a; }
INFUSE_INLINE bool logical_and(bool a, bool b) { return a & b; }
INFUSE_INLINE bool logical_or(bool a, bool b) { return a | b; }
INFUSE_INLINE bool logical_xor(bool a, bool b) { return a != b; }
INFUSE_INLINE bool logical_not(bool a) { return !a; }

// ---- signs -----------------------------------------------------------------------------------

namespace detail {
constexpr int32_t SIGN = int32_t(0x80000000);
// The magnitude of the first with the sign of the second.
INFUSE_INLINE vf copysign(vf x, vf s) { return as_float((as_int(x) & ~SIGN) | (as_int(s) & SIGN)); }
INFUSE_INLINE vf infinity() { return splat(__builtin_inff()); }
INFUSE_INLINE vf nan() { return splat(__builtin_nanf("")); }
}  // namespace detail

INFUSE_INLINE vf abs(vf x) { return as_float(as_int(x) & ~detail::SIGN); }
INFUSE_INLINE vi abs(vi x) { return x < 0 ? -x : x; }
INFUSE_INLINE float abs(float x) { return __builtin_fabsf(x); }
INFUSE_INLINE double abs(double x) { return __builtin_fabs(x); }
template <class T>
INFUSE_INLINE T abs(T x) {
  return x < 0 ? T(-x) : x;
}

template <class T>
INFUSE_INLINE T neg(T x) {
  return T(-x);
}

INFUSE_INLINE vf sign(vf x) {
  return select(x > 0.0f, splat(1.0f), select(x < 0.0f, splat(-1.0f), x + 0.0f));
}
INFUSE_INLINE vi sign(vi x) { return (x < 0) - (x > 0); }
template <class T>
INFUSE_INLINE T sign(T x) {
  return x > 0 ? T(1) : x < 0 ? T(-1) : T(x + T(0));
}

INFUSE_INLINE vi is_nan(vf x) { return x != x; }
INFUSE_INLINE bool is_nan(float x) { return x != x; }
INFUSE_INLINE bool is_nan(double x) { return x != x; }
INFUSE_INLINE vi is_inf(vf x) { return abs(x) == detail::infinity(); }
INFUSE_INLINE bool is_inf(float x) { return abs(x) == __builtin_inff(); }
INFUSE_INLINE bool is_inf(double x) { return abs(x) == __builtin_inf(); }

// ---- roots -----------------------------------------------------------------------------------

INFUSE_INLINE vf sqrt(vf x) {
#if defined(__clang__)
  return __builtin_elementwise_sqrt(x);
#elif INFUSE_LANES == 16
  return __builtin_ia32_sqrtps512_mask(x, vf{}, (short)-1, 4);
#elif defined(__AVX__)
  return __builtin_ia32_sqrtps256(x);
#elif defined(__SSE__)
  return __builtin_ia32_sqrtps(x);
#else
  for (int i = 0; i < LANES; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}
INFUSE_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
INFUSE_INLINE double sqrt(double x) { return __builtin_sqrt(x); }
template <class T>
INFUSE_INLINE T rsqrt(T x) {
  return 1 / sqrt(x);
}
INFUSE_INLINE vf rsqrt(vf x) { return 1.0f / sqrt(x); }

// ---- rounding --------------------------------------------------------------------------------

// Without an instruction for it, clang would call the C library, which need not have the function.
#if defined(__clang__) && (defined(__SSE4_1__) || defined(__aarch64__) || defined(__wasm_simd128__))
INFUSE_INLINE vf round(vf x) { return __builtin_elementwise_roundeven(x); }
INFUSE_INLINE vf floor(vf x) { return __builtin_elementwise_floor(x); }
INFUSE_INLINE vf ceil(vf x) { return __builtin_elementwise_ceil(x); }
INFUSE_INLINE vf trunc(vf x) { return __builtin_elementwise_trunc(x); }
#elif INFUSE_LANES == 16
INFUSE_INLINE vf round(vf x) { return __builtin_ia32_rndscaleps_mask(x, 8, x, (short)-1, 4); }
INFUSE_INLINE vf floor(vf x) { return __builtin_ia32_rndscaleps_mask(x, 9, x, (short)-1, 4); }
INFUSE_INLINE vf ceil(vf x) { return __builtin_ia32_rndscaleps_mask(x, 10, x, (short)-1, 4); }
INFUSE_INLINE vf trunc(vf x) { return __builtin_ia32_rndscaleps_mask(x, 11, x, (short)-1, 4); }
#elif defined(__AVX__)
INFUSE_INLINE vf round(vf x) { return __builtin_ia32_roundps256(x, 8); }
INFUSE_INLINE vf floor(vf x) { return __builtin_ia32_roundps256(x, 9); }
INFUSE_INLINE vf ceil(vf x) { return __builtin_ia32_roundps256(x, 10); }
INFUSE_INLINE vf trunc(vf x) { return __builtin_ia32_roundps256(x, 11); }
#else
// Adding 2^23 leaves no bits for a fraction; larger numbers (and NaN) are whole already.
INFUSE_INLINE vf round(vf x) {
  vf magic = detail::copysign(splat(8388608.0f), x);
  vf r = detail::copysign((x + magic) - magic, x);
  return select(abs(x) < 8388608.0f, r, x);
}
INFUSE_INLINE vf floor(vf x) {
  vf r = round(x);
  return select(r > x, r - 1.0f, r);
}
INFUSE_INLINE vf ceil(vf x) { return -floor(-x); }
INFUSE_INLINE vf trunc(vf x) { return detail::copysign(floor(abs(x)), x); }
#endif
INFUSE_INLINE float round(float x) { return __builtin_rintf(x); }
INFUSE_INLINE float floor(float x) { return __builtin_floorf(x); }
INFUSE_INLINE float ceil(float x) { return __builtin_ceilf(x); }
INFUSE_INLINE float trunc(float x) { return __builtin_truncf(x); }
INFUSE_INLINE double round(double x) { return __builtin_rint(x); }
INFUSE_INLINE double floor(double x) { return __builtin_floor(x); }
INFUSE_INLINE double ceil(double x) { return __builtin_ceil(x); }
INFUSE_INLINE double trunc(double x) { return __builtin_trunc(x); }

// ---- exponentials ----------------------------------------------------------------------------

namespace detail {
// x = n ln 2 + r with a whole n; p = e^r - 1, |r| <= ln(2) / 2. The caller clamps x. For NaN, p is
// NaN and i is any number.
struct Reduced {
  vi i;
  vf n, p;
};

INFUSE_INLINE Reduced reduce_exp(vf x) {
  const vf magic = splat(12582912.0f);
  vf shifted = fma(x, splat(1.44269504f), magic);
  vf n = shifted - magic;
  vf r = fma(n, splat(-0.693115234f), x);
  r = fma(n, splat(-3.19461833e-05f), r);
  vf q = splat(1.38144669e-03f);
  q = fma(q, r, splat(8.36878042e-03f));
  q = fma(q, r, splat(4.16683942e-02f));
  q = fma(q, r, splat(0.166665201f));
  q = fma(q, r, splat(0.499999934f));
  return {as_int(shifted) - as_int(magic), n, fma(r * r, q, r)};
}

// 2^n for whole -126 <= n <= 127.
INFUSE_INLINE vf exp2i(vi n) { return as_float((n + 127) << 23); }

// (1 + p) * 2^n, rounded once.
INFUSE_INLINE vf scale(Reduced e) {
#if INFUSE_LANES == 16
  return __builtin_ia32_scalefps512_mask(e.p + 1.0f, e.n, vf{}, (unsigned short)-1, 4);
#else
  vi half = e.i >> 1;
  return (e.p + 1.0f) * exp2i(half) * exp2i(e.i - half);
#endif
}

// The bounds clamp, NaN passes.
INFUSE_INLINE vf clamp(vf x, float low, float high) {
  return raw_min(splat(high), raw_max(splat(low), x));
}
}  // namespace detail

INFUSE_INLINE vf exp(vf x) {
  return detail::scale(detail::reduce_exp(detail::clamp(x, -104.0f, 89.0f)));
}

// e^x for x <= 0 and NaN: 2^n is a number for all n there but the least, for which it is zero.
INFUSE_INLINE vf exp_nonpositive(vf x) {
  const detail::Reduced e = detail::reduce_exp(detail::raw_max(splat(-88.0f), x));
#if INFUSE_LANES == 16
  return detail::scale(e);
#else
  return (e.p + 1.0f) * detail::exp2i(e.i);
#endif
}

INFUSE_INLINE vf expm1(vf x) {
  detail::Reduced e = detail::reduce_exp(detail::clamp(x, -25.0f, 89.0f));
  vf s = detail::exp2i(e.i - 1);
  vf half = fma(s, e.p, s - 0.5f);
  return select(x == 0.0f, x, half + half);
}

// With x = n ln 2 + r and c = r coth(r / 2), e^-x = 2^-n (c - r) / (c + r): one division in all.
// Far below zero the power is infinite and the result zero.
INFUSE_INLINE vf sigmoid(vf x) {
  x = detail::clamp(x, -89.0f, 88.0f);
  const vf magic = splat(12582912.0f);
  vf shifted = fma(x, splat(1.44269504f), magic);
  vf n = shifted - magic;
  vf r = fma(n, splat(-0.693115234f), x);
  r = fma(n, splat(-3.19461833e-05f), r);
  vf t = r * r;
  vf c = fma(fma(splat(-0.00276600383f), t, splat(0.16666618f)), t, splat(2.0f));
  vf power = as_float((as_int(magic) + 127 - as_int(shifted)) << 23);
  vf whole = c + r;
  return whole / fma(power, c - r, whole);
}

// ---- logarithms ------------------------------------------------------------------------------

INFUSE_INLINE vf log(vf x) {
  const int32_t low = 0x3f3504f3;  // sqrt(1/2): the mantissa m lies in [sqrt(1/2), sqrt(2))
  vi tiny = x < 1.17549435e-38f;
  vi bits = as_int(select(tiny, x * 33554432.0f, x)) - low;
  vf f = as_float((bits & 0x7fffff) + low) - 1.0f;
  vf e = to_float((bits >> 23) + (tiny & -25));
  vf q = splat(-0.0763448545f);
  q = fma(q, f, splat(0.127619618f));
  q = fma(q, f, splat(-0.131603644f));
  q = fma(q, f, splat(0.142017191f));
  q = fma(q, f, splat(-0.166233361f));
  q = fma(q, f, splat(0.200012278f));
  q = fma(q, f, splat(-0.250008216f));
  q = fma(q, f, splat(0.333333317f));
  vf g = f * f;
  vf r = fma(e, splat(3.19461833e-05f), q * (f * g));
  r = fma(g, splat(-0.5f), r) + f;
  r = fma(e, splat(0.693115234f), r);
  vf edge = select(x == 0.0f, -detail::infinity(), select(x < 0.0f, detail::nan(), x));
  return select((x > 0.0f) & (x < detail::infinity()), r, edge);
}

INFUSE_INLINE vf log1p(vf x) {
  vf u = 1.0f + x;
  vf lost = (x - (u - 1.0f)) / u;
  vf r = log(u) + select(abs(lost) < 1.0f, lost, vf{});
  return select(u == 1.0f, x, r);
}

INFUSE_INLINE vf softplus(vf x) { return max(x, vf{}) + log1p(exp(-abs(x))); }

// ---- tanh and erf: x P(x^2) / Q(x^2), minimax up to where the result rounds to 1 -------------

INFUSE_INLINE vf tanh(vf x) {
  vf y = detail::clamp(x, -9.02f, 9.02f);
  vf t = y * y;
  vf p = splat(1.33189725e-08f);
  p = fma(p, t, splat(2.05834107e-05f));
  p = fma(p, t, splat(3.49403032e-03f));
  p = fma(p, t, splat(1.33797144e-01f));
  p = fma(p, t, splat(9.99999979e-01f));
  vf q = splat(7.76197910e-07f);
  q = fma(q, t, splat(3.28308587e-04f));
  q = fma(q, t, splat(2.58710571e-02f));
  q = fma(q, t, splat(4.67130296e-01f));
  q = fma(q, t, splat(1.0f));
  return detail::clamp(y * p / q, -1.0f, 1.0f);
}

INFUSE_INLINE vf erf(vf x) {
  vf y = detail::clamp(x, -3.93f, 3.93f);
  vf t = y * y;
  vf p = splat(2.04196143e-06f);
  p = fma(p, t, splat(2.84807136e-04f));
  p = fma(p, t, splat(3.77958569e-03f));
  p = fma(p, t, splat(5.27902099e-02f));
  p = fma(p, t, splat(1.90783404e-01f));
  p = fma(p, t, splat(1.12837915e+00f));
  vf q = splat(3.80039023e-05f);
  q = fma(q, t, splat(1.16520528e-03f));
  q = fma(q, t, splat(1.49973909e-02f));
  q = fma(q, t, splat(1.14257328e-01f));
  q = fma(q, t, splat(5.02410110e-01f));
  q = fma(q, t, splat(1.0f));
  return detail::clamp(y * p / q, -1.0f, 1.0f);
}

// ---- float scalars by the same polynomials, doubles by libm ----------------------------------

#define INFUSE_SCALAR(name) \
  INFUSE_INLINE float name(float x) { return name(splat(x))[0]; }
INFUSE_SCALAR(exp)
INFUSE_SCALAR(expm1)
INFUSE_SCALAR(log)
INFUSE_SCALAR(log1p)
INFUSE_SCALAR(tanh)
INFUSE_SCALAR(erf)
INFUSE_SCALAR(sigmoid)
INFUSE_SCALAR(softplus)
#undef INFUSE_SCALAR

#define INFUSE_DOUBLE(name) \
  INFUSE_INLINE double name(double x) { return __builtin_##name(x); }
INFUSE_DOUBLE(exp)
INFUSE_DOUBLE(expm1)
INFUSE_DOUBLE(log)
INFUSE_DOUBLE(log1p)
INFUSE_DOUBLE(tanh)
INFUSE_DOUBLE(erf)
#undef INFUSE_DOUBLE

INFUSE_INLINE double sigmoid(double x) {
  double e = exp(-abs(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}
INFUSE_INLINE double softplus(double x) { return max(x, 0.0) + log1p(exp(-abs(x))); }

}  // namespace infuse

#include "power.hpp"
#include "trigonometry.hpp"
