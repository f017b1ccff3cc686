// The functions of <math.h> for float32, beside bare_math.h: within 2 units in the last place, tanh and
// the sigmoid 4.
#pragma once
#include "bare_math.h"

#if defined(__ARM_FP) && (__ARM_FP & 4) && !defined(__ARM_ARCH_ISA_A64) && defined(__GNUC__)
#define BARE_FLOATS 1  // instructions of ARM's unit for floats, of which compilers make calls
#endif
#define SIGN32 0x80000000u
MATH float infuse_fabsf(float x) { return bits_float(float_bits(x) & ~SIGN32); }
MATH float infuse_copysignf(float x, float y) {
  return bits_float((float_bits(x) & ~SIGN32) | (float_bits(y) & SIGN32));
}
MATH float infuse_truncf(float x) {
  return infuse_fabsf(x) < 0x1p23f ? infuse_copysignf((float)(int32_t)x, x) : x;
}
MATH float infuse_floorf(float x) {
  const float t = infuse_truncf(x);
  return t > x ? t - 1 : t;
}
MATH float infuse_ceilf(float x) {
  const float t = infuse_truncf(x);
  return t < x ? infuse_copysignf(t + 1, x) : t;
}
MATH float infuse_rintf(float x) {
#if defined(BARE_FLOATS) && defined(__ARM_FEATURE_DIRECTED_ROUNDING)
  float y;
  __asm__("vrintn.f32 %0, %1" : "=t"(y) : "t"(x));
  return y;
#elif defined(BARE_FLOATS)
  float y;
  if (!(infuse_fabsf(x) < 0x1p23f)) return x;
  __asm__("vcvtr.s32.f32 %0, %1\n\tvcvt.f32.s32 %0, %0" : "=&t"(y) : "t"(x));
  return infuse_copysignf(y, x);
#else
  if (!(infuse_fabsf(x) < 0x1p23f)) return x;
  const int32_t t = (int32_t)x;
  const float rest = infuse_fabsf(x - (float)t);
  const int32_t up = rest > 0.5f || (rest == 0.5f && (t & 1)) ? (x < 0 ? -1 : 1) : 0;
  return infuse_copysignf((float)(t + up), x);
#endif
}
MATH float infuse_sqrtf(float x) {
#if defined(BARE_FLOATS)
  float y;
  __asm__("vsqrt.f32 %0, %1" : "=t"(y) : "t"(x));
  return y;
#else
  return (float)infuse_sqrt(x);
#endif
}
MATH float scaled_float(float x, int k) {
  const int half = k / 2;
  return x * bits_float((uint32_t)(127 + half) << 23) * bits_float((uint32_t)(127 + k - half) << 23);
}
/** e^x = 2^k · (1 + the result); x in [-104, 89]. */
MATH float expf_parts(float x, int* k) {
  *k = (int)(x * 1.44269504f + (x < 0 ? -0.5f : 0.5f));
  const float r = (x - (float)*k * 0.693145752f) - (float)*k * 1.42860677e-6f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720, p = p * r + 1.0f / 120, p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6, p = p * r + 0.5f;
  return r + r * r * p;
}
MATH float infuse_expf(float x) {
  int k;
  if (x != x) return x;
  if (x > 89.0f || x < -104.0f) return x > 0 ? INFINITY : 0;
  const float e = expf_parts(x, &k);
  return scaled_float(1 + e, k);
}
MATH float infuse_expm1f(float x) {
  int k;
  if (x != x || x == 0) return x;
  if (x > 89.0f || x < -30.0f) return x > 0 ? INFINITY : -1;
  const float e = expf_parts(x, &k);
  if (k == 0) return e;
  if (k > 25) return scaled_float(1 + e, k);
  const float two = bits_float((uint32_t)(127 + k) << 23);
  return two * e + (two - 1);
}
MATH float infuse_logf(float x) {
  int k = 0;
  if (x != x || x == INFINITY) return x;
  if (x <= 0) return x == 0 ? -INFINITY : NAN;
  if (x < 0x1p-126f) x *= 0x1p23f, k = -23;
  const uint32_t b = float_bits(x) - 0x3f3504f3u;  // from the root of a half on
  k += (int)(b >> 23) - (b >> 31 ? 512 : 0);
  const float f = bits_float((b & 0x7fffffu) + 0x3f3504f3u) - 1, s = f / (2 + f), z = s * s;
  const float rest = 0.40000972152f + z * (0.28498786688f + z * 0.24279078841f);
  const float r = z * (0.66666662693f + z * rest);
  const float half = 0.5f * f * f;
  return (float)k * 0.693145752f - ((half - (s * (half + r) + (float)k * 1.42860677e-6f)) - f);
}
MATH float infuse_tanhf(float x) {
  const float a = infuse_fabsf(x);
  if (x != x || x == 0) return x;
  const float t = a > 10 ? 0 : infuse_expm1f(2 * a);
  return infuse_copysignf(a > 10 ? 1 : t / (t + 2), x);
}
MATH float infuse_sigmoidf(float x) {
  const float e = infuse_expf(-infuse_fabsf(x));
  return (x < 0 ? e : 1) / (1 + e);
}
MATH float infuse_erff(float x) {
  const float t = infuse_fabsf(x), s = x * x;
  if (x != x) return x;
  if (t <= 0.927734375f) {
    float p = -5.96761703e-4f;
    p = p * s + 4.99119423e-3f, p = p * s - 2.67681349e-2f, p = p * s + 1.12819925e-1f;
    p = p * s - 3.76125336e-1f, p = p * s + 1.28379166e-1f;
    return p * x + x;
  }
  float r = -1.72853470e-5f * t + 3.83197126e-4f;
  const float u = -3.88396438e-3f * t + 2.42546219e-2f;
  r = r * s + u, r = r * t - 1.06777877e-1f, r = r * t - 6.34846687e-1f, r = r * t - 1.28717512e-1f;
  return infuse_copysignf(1 - infuse_expf(r * t - t), x);
}
/** The product is exact in double; its sum with c gets an odd last digit where it is not, so that it is
 * rounded once. */
MATH float infuse_fmaf(float a, float b, float c) {
  const double p = (double)a * b, s = p + c, t = s - p, e = (p - (s - t)) + (c - t);
  uint64_t bits = double_bits(s);
  if (s - s == 0 && e != 0 && !(bits & 1)) bits += (e > 0) == (s > 0) ? 1 : (uint64_t)-1;
  return (float)bits_double(bits);
}
#define BY_DOUBLE(name) \
  MATH float infuse_##name##f(float x) { return (float)infuse_##name(x); }
BY_DOUBLE(log1p)
BY_DOUBLE(sin)
BY_DOUBLE(cos)
BY_DOUBLE(tan)
BY_DOUBLE(asin)
BY_DOUBLE(acos)
BY_DOUBLE(atan)
BY_DOUBLE(sinh)
BY_DOUBLE(cosh)
BY_DOUBLE(asinh)
BY_DOUBLE(acosh)
BY_DOUBLE(atanh)
MATH float infuse_powf(float x, float y) { return (float)infuse_pow(x, y); }
MATH float infuse_fmodf(float x, float y) { return (float)infuse_fmod(x, y); }
