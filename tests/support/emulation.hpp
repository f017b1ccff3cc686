// AVX-512, VNNI and BF16 on a processor with AVX2, for tests: force-included before kernels that GCC compiles.
//
// The compiler splits operators on 64-byte vectors itself. What is here are the builtins that the kernels name and the
// instructions of kernels/instructions.hpp, with the meaning that Intel's manual gives them: masks, exceptional values,
// and no access to elements that a mask leaves out. emulation.py defines __AVX512F__ and its like.
#pragma once

#include <stdint.h>
#include <string.h>

namespace infuse {
namespace emulated {

#define INFUSE_EMULATED inline __attribute__((always_inline))

typedef float f32x16 __attribute__((vector_size(64)));
typedef float f32x8 __attribute__((vector_size(32)));
typedef double f64x8 __attribute__((vector_size(64)));
typedef double f64x4 __attribute__((vector_size(32)));
typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef int32_t i32x8 __attribute__((vector_size(32)));
typedef uint32_t u32x8 __attribute__((vector_size(32)));
typedef short i16x32 __attribute__((vector_size(64)));
typedef short i16x16 __attribute__((vector_size(32)));
typedef short i16x8 __attribute__((vector_size(16)));
typedef char i8x32 __attribute__((vector_size(32)));
typedef char i8x16 __attribute__((vector_size(16)));

// How an operand says to round and to report: 4, as the control register does. Nothing else is here.
template <int>
struct Mode {};
typedef Mode<4> Usual;

template <class To, class From>
INFUSE_EMULATED To bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "the same bits, as another type");
  To to;
  memcpy(&to, &x, sizeof to);
  return to;
}

// ---- two halves of a vector -----------------------------------------------------------------

template <class Half>
struct Halves {
  Half low, high;
};
template <class Half, class V>
INFUSE_EMULATED Halves<Half> halves(V x) {
  return bits<Halves<Half>>(x);
}
// f on both halves of every operand, together again.
template <class To, class Half, class F, class... V>
INFUSE_EMULATED To by_halves(F f, V... x) {
  return bits<To>(Halves<decltype(f(halves<Half>(x).low...))>{f(halves<Half>(x).low...), f(halves<Half>(x).high...)});
}

// ---- masks ----------------------------------------------------------------------------------

// -1 in the lanes whose bit is set.
INFUSE_EMULATED Halves<i32x8> lanes(uint16_t mask) {
  const i32x8 bit = {1, 2, 4, 8, 16, 32, 64, 128};
  return {((mask & 255) & bit) != 0, ((mask >> 8) & bit) != 0};
}
// x where the mask is set, else other.
template <class V>
INFUSE_EMULATED V merge(uint16_t mask, V x, V other) {
  const auto on = lanes(mask), a = halves<i32x8>(x), b = halves<i32x8>(other);
  return bits<V>(Halves<i32x8>{(a.low & on.low) | (b.low & ~on.low), (a.high & on.high) | (b.high & ~on.high)});
}

// ---- memory ---------------------------------------------------------------------------------

INFUSE_EMULATED f32x16 loadups512_mask(const float* p, f32x16 other, uint16_t mask) {
  const auto on = lanes(mask);
  const Halves<f32x8> x = {__builtin_ia32_maskloadps256((const f32x8*)p, on.low),
                           __builtin_ia32_maskloadps256((const f32x8*)(p + 8), on.high)};
  return merge(mask, bits<f32x16>(x), other);
}
INFUSE_EMULATED void storeups512_mask(float* p, f32x16 x, uint16_t mask) {
  const auto on = lanes(mask);
  __builtin_ia32_maskstoreps256((f32x8*)p, on.low, halves<f32x8>(x).low);
  __builtin_ia32_maskstoreps256((f32x8*)(p + 8), on.high, halves<f32x8>(x).high);
}
INFUSE_EMULATED i8x16 loaddquqi128_mask(const char* p, i8x16 other, uint16_t mask) {
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) other[i] = p[i];
  return other;
}
INFUSE_EMULATED i8x16 pmovdb512_mask(i32x16 x, i8x16 other, uint16_t mask) {
  const i8x32 firsts = {0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                        0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  const auto parts = halves<i8x32>(x);
  const auto low = bits<i32x8>(__builtin_ia32_pshufb256(parts.low, firsts));
  const auto high = bits<i32x8>(__builtin_ia32_pshufb256(parts.high, firsts));
  typedef int32_t i32x4 __attribute__((vector_size(16)));
  const auto whole = bits<i8x16>(i32x4{low[0], low[4], high[0], high[4]});
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) other[i] = whole[i];
  return other;
}
INFUSE_EMULATED void pmovdb512mem_mask(i8x16* p, i32x16 x, uint16_t mask) {
  const i8x16 whole = pmovdb512_mask(x, i8x16{}, 0xffff);
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) ((char*)p)[i] = whole[i];
}

// ---- float32 --------------------------------------------------------------------------------

INFUSE_EMULATED f32x16 fused(f32x16 a, f32x16 b, f32x16 c) {
  return by_halves<f32x16, f32x8>([](f32x8 x, f32x8 y, f32x8 z) { return __builtin_ia32_vfmaddps256(x, y, z); }, a, b, c);
}
INFUSE_EMULATED f32x16 vfmaddps512_mask(f32x16 a, f32x16 b, f32x16 c, uint16_t mask, Usual) {
  return merge(mask, fused(a, b, c), a);
}
INFUSE_EMULATED f32x16 maxps512_mask(f32x16 a, f32x16 b, f32x16 other, uint16_t mask, Usual) {
  return merge(mask, by_halves<f32x16, f32x8>([](f32x8 x, f32x8 y) { return __builtin_ia32_maxps256(x, y); }, a, b), other);
}
INFUSE_EMULATED f32x16 minps512_mask(f32x16 a, f32x16 b, f32x16 other, uint16_t mask, Usual) {
  return merge(mask, by_halves<f32x16, f32x8>([](f32x8 x, f32x8 y) { return __builtin_ia32_minps256(x, y); }, a, b), other);
}
INFUSE_EMULATED f32x16 sqrtps512_mask(f32x16 x, f32x16 other, uint16_t mask, Usual) {
  return merge(mask, by_halves<f32x16, f32x8>([](f32x8 y) { return __builtin_ia32_sqrtps256(y); }, x), other);
}
// To whole numbers: `how` is to nearest even (8), down (9), up (10) or towards zero (11).
template <int how>
INFUSE_EMULATED f32x16 rndscaleps_mask(f32x16 x, f32x16 other, uint16_t mask, Usual) {
  static_assert(how >= 8 && how < 12, "no binary digits after the point");
  return merge(mask, by_halves<f32x16, f32x8>([](f32x8 y) { return __builtin_ia32_roundps256(y, how); }, x), other);
}
// a · 2^floor(b), rounded once.
inline float scaled(float a, float b) {
  const float inf = __builtin_inff();
  if (a != a || b != b) {
    const bool quiet = a != a && (bits<uint32_t>(a) & 0x400000) != 0;
    if (quiet && b == inf) return inf;
    if (quiet && b == -inf) return 0;
    return a + b;
  }
  if (b == inf) return a == 0 ? __builtin_nanf("") : a * inf;
  if (b == -inf) return __builtin_isinf(a) ? __builtin_nanf("") : __builtin_copysignf(0, a);
  const float whole = __builtin_floorf(b);
  const int power = whole > 1000 ? 1000 : whole < -1000 ? -1000 : int(whole);
  // Both factors are normal doubles, and so is the product of any float but zero.
  const double exact = double(a) * bits<double>(uint64_t(power + 1023) << 52);
  return float(exact);
}
INFUSE_EMULATED f32x16 scalefps512_mask(f32x16 a, f32x16 b, f32x16 other, uint16_t mask, Usual) {
  f32x16 to;
  for (int i = 0; i < 16; ++i) to[i] = scaled(a[i], b[i]);
  return merge(mask, to, other);
}

// ---- integers -------------------------------------------------------------------------------

// The lanes in which the comparison `how` holds: ==, <, <=, never, !=, >=, >, always.
template <int how>
INFUSE_EMULATED uint16_t cmpd512_mask(i32x16 a, i32x16 b, uint16_t mask) {
  static_assert(how >= 0 && how < 8, "one of eight comparisons");
  const auto on = by_halves<f32x16, i32x8>(
      [](i32x8 x, i32x8 y) {
        const i32x8 is = (how & 3) == 0 ? x == y : (how & 3) == 1 ? x < y : (how & 3) == 2 ? x <= y : x != x;
        return how < 4 ? is : ~is;
      },
      a, b);
  const int low = __builtin_ia32_movmskps256(halves<f32x8>(on).low);
  const int high = __builtin_ia32_movmskps256(halves<f32x8>(on).high);
  return uint16_t((low | high << 8) & mask);
}
// The lanes in which a < b of numbers; the only comparison of floats that is here.
template <int how>
INFUSE_EMULATED uint16_t cmpps512_mask(f32x16 a, f32x16 b, uint16_t mask, Usual) {
  static_assert(how == 1, "only <");
  const auto x = halves<f32x8>(a), y = halves<f32x8>(b);
  const int low = __builtin_ia32_movmskps256(bits<f32x8>(x.low < y.low));
  const int high = __builtin_ia32_movmskps256(bits<f32x8>(x.high < y.high));
  return uint16_t((low | high << 8) & mask);
}
template <int how>
INFUSE_EMULATED uint8_t cmppd512_mask(f64x8 a, f64x8 b, uint8_t mask, Usual) {
  static_assert(how == 1, "only <");
  const auto x = halves<f64x4>(a), y = halves<f64x4>(b);
  const int low = __builtin_ia32_movmskpd256(bits<f64x4>(x.low < y.low));
  const int high = __builtin_ia32_movmskpd256(bits<f64x4>(x.high < y.high));
  return uint8_t((low | high << 4) & mask);
}
INFUSE_EMULATED f64x8 vfmaddpd512_mask(f64x8 a, f64x8 b, f64x8 c, uint8_t mask, Usual) {
  f64x8 sum = by_halves<f64x8, f64x4>(
      [](f64x4 x, f64x4 y, f64x4 z) { return __builtin_ia32_vfmaddpd256(x, y, z); }, a, b, c);
  if (mask != 255)
    for (int i = 0; i < 8; ++i) sum[i] = mask >> i & 1 ? sum[i] : a[i];
  return sum;
}
// Sums of both products of each pair of 16-bit integers, which may wrap around.
INFUSE_EMULATED i32x16 pairs(i16x32 a, i16x32 b) {
  return by_halves<i32x16, i16x16>([](i16x16 x, i16x16 y) { return __builtin_ia32_pmaddwd256(x, y); }, a, b);
}
INFUSE_EMULATED i32x16 pmaddwd512_mask(i16x32 a, i16x32 b, i32x16 other, uint16_t mask) {
  return merge(mask, pairs(a, b), other);
}
INFUSE_EMULATED i32x16 plus(i32x16 a, i32x16 b) {
  typedef uint32_t u32x16 __attribute__((vector_size(64)));
  return bits<i32x16>(bits<u32x16>(a) + bits<u32x16>(b));
}
INFUSE_EMULATED i32x16 vpdpwssd_v16si(i32x16 sum, i32x16 a, i32x16 b) {
  return plus(sum, pairs(bits<i16x32>(a), bits<i16x32>(b)));
}
// Bytes of a times signed bytes of b: those at even places in pairs, then those at odd places.
template <class V>
INFUSE_EMULATED V vpdpbusd(V sum, V a, V b) {
  const auto x = bits<i16x32>(a), y = bits<i16x32>(b);
  const i16x32 even = x & 255, odd = (x >> 8) & 255;
  const i16x32 even_signed = bits<i16x32>(y << 8) >> 8, odd_signed = y >> 8;
  return bits<V>(plus(bits<i32x16>(sum), plus(pairs(even, even_signed), pairs(odd, odd_signed))));
}
// The same of 32 bytes, one lane after another; sums wrap around.
template <int Bits, bool Signed, class V>
INFUSE_EMULATED V add_lanes(V sum, V a, V b) {
  const auto x = bits<i32x8>(a), y = bits<i32x8>(b);
  auto total = bits<u32x8>(sum);
  for (int i = 0; i < 8; ++i)
    for (int at = 0; at < 32; at += Bits) {
      const int32_t up = int32_t(uint32_t(x[i]) << (32 - Bits - at)), down = 32 - Bits;
      const int32_t left = Signed ? up >> down : int32_t(uint32_t(up) >> down);
      const int32_t right = int32_t(uint32_t(y[i]) << (32 - Bits - at)) >> down;
      total[i] += uint32_t(left * right);
    }
  return bits<V>(total);
}
template <class V>
INFUSE_EMULATED V vpdpbusd_narrow(V sum, V a, V b) {
  return add_lanes<8, false>(sum, a, b);
}
template <class V>
INFUSE_EMULATED V vpdpwssd_narrow(V sum, V a, V b) {
  return add_lanes<16, true>(sum, a, b);
}

INFUSE_EMULATED i32x16 pmovsxwd512_mask(i16x16 x, i32x16 other, uint16_t mask) {
  const auto parts = halves<i16x8>(x);
  return merge(mask, bits<i32x16>(Halves<i32x8>{__builtin_ia32_pmovsxwd256(parts.low),
                                                __builtin_ia32_pmovsxwd256(parts.high)}), other);
}
INFUSE_EMULATED i32x16 pmovzxwd512_mask(i16x16 x, i32x16 other, uint16_t mask) {
  return pmovsxwd512_mask(x, other, mask) & merge(mask, i32x16{} + 0xffff, i32x16{} - 1);
}
INFUSE_EMULATED i32x16 pmovsxbd512_mask(i8x16 x, i32x16 other, uint16_t mask) {
  typedef long long i64x2 __attribute__((vector_size(16)));
  const auto high = bits<i8x16>(i64x2{bits<i64x2>(x)[1], 0});
  return merge(mask, bits<i32x16>(Halves<i32x8>{__builtin_ia32_pmovsxbd256(x), __builtin_ia32_pmovsxbd256(high)}), other);
}
INFUSE_EMULATED i32x16 pmovzxbd512_mask(i8x16 x, i32x16 other, uint16_t mask) {
  return pmovsxbd512_mask(x, other, mask) & merge(mask, i32x16{} + 0xff, i32x16{} - 1);
}

// ---- float16 --------------------------------------------------------------------------------

INFUSE_EMULATED f32x16 vcvtph2ps512_mask(i16x16 x, f32x16 other, uint16_t mask, Usual) {
  const auto parts = halves<i16x8>(x);
  return merge(mask, bits<f32x16>(Halves<f32x8>{__builtin_ia32_vcvtph2ps256(parts.low),
                                                __builtin_ia32_vcvtph2ps256(parts.high)}), other);
}
template <int how>
INFUSE_EMULATED i16x16 vcvtps2ph512_mask(f32x16 x, i16x16 other, uint16_t mask) {
  const auto parts = halves<f32x8>(x);
  const auto whole = bits<i16x16>(Halves<i16x8>{__builtin_ia32_vcvtps2ph256(parts.low, how),
                                                __builtin_ia32_vcvtps2ph256(parts.high, how)});
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) other[i] = whole[i];
  return other;
}

// ---- bfloat16 -------------------------------------------------------------------------------
// These instructions do not look at the control register: they round to nearest even, read denormal numbers as zeros of
// their sign and write zeros in place of denormal results.

INFUSE_EMULATED u32x8 without_denormals(u32x8 x) {
  const u32x8 exponent = x & 0x7f800000;
  return exponent == 0 ? x & 0x80000000 : x;
}
INFUSE_EMULATED f32x8 add_product(f32x8 sum, u32x8 a, u32x8 b) {
  const auto x = bits<f32x8>(without_denormals(a)), y = bits<f32x8>(without_denormals(b));
  return bits<f32x8>(without_denormals(bits<u32x8>(__builtin_ia32_vfmaddps256(x, y, sum))));
}
// sum + the upper product, rounded, + the lower product, rounded.
template <class V, class W>
INFUSE_EMULATED V vdpbf16ps(V sum, W a, W b) {
  return by_halves<V, u32x8>(
      [](u32x8 s, u32x8 x, u32x8 y) {
        const auto start = bits<f32x8>(without_denormals(s));
        return add_product(add_product(start, x & 0xffff0000, y & 0xffff0000), x << 16, y << 16);
      },
      bits<i32x16>(sum), bits<i32x16>(a), bits<i32x16>(b));
}
// bfloat16 in the lower half of each lane; what is no number becomes quiet.
INFUSE_EMULATED u32x8 rounded(u32x8 x) {
  const u32x8 y = without_denormals(x);
  const u32x8 near = (y + 0x7fff + (y >> 16 & 1)) >> 16;
  return (y & 0x7fffffff) > 0x7f800000 ? (y >> 16) | 0x40 : near;
}
INFUSE_EMULATED i32x8 vcvtneps2bf16(f32x16 x) {
  const auto parts = halves<u32x8>(x);
  const u32x8 low = rounded(parts.low), high = rounded(parts.high);
  uint16_t to[16];
  for (int i = 0; i < 8; ++i) to[i] = uint16_t(low[i]), to[i + 8] = uint16_t(high[i]);
  i32x8 all;
  memcpy(&all, to, sizeof all);
  return all;
}
// The second operand is the lower half of the result.
INFUSE_EMULATED i32x16 vcvtne2ps2bf16(f32x16 high, f32x16 low) {
  return bits<i32x16>(Halves<i32x8>{vcvtneps2bf16(low), vcvtneps2bf16(high)});
}

}  // namespace emulated
}  // namespace infuse

#include "emulation_tiles.hpp"

#define __builtin_ia32_loadups512_mask ::infuse::emulated::loadups512_mask
#define __builtin_ia32_storeups512_mask ::infuse::emulated::storeups512_mask
#define __builtin_ia32_loaddquqi128_mask ::infuse::emulated::loaddquqi128_mask
#define __builtin_ia32_pmovdb512_mask ::infuse::emulated::pmovdb512_mask
#define __builtin_ia32_pmovdb512mem_mask ::infuse::emulated::pmovdb512mem_mask
#define __builtin_ia32_pmaddwd512_mask ::infuse::emulated::pmaddwd512_mask
#define __builtin_ia32_vpdpbusd_v16si ::infuse::emulated::vpdpbusd
#define __builtin_ia32_vpdpwssd_v16si ::infuse::emulated::vpdpwssd_v16si
#define __builtin_ia32_pmovsxwd512_mask ::infuse::emulated::pmovsxwd512_mask
#define __builtin_ia32_pmovzxwd512_mask ::infuse::emulated::pmovzxwd512_mask
#define __builtin_ia32_pmovsxbd512_mask ::infuse::emulated::pmovsxbd512_mask
#define __builtin_ia32_pmovzxbd512_mask ::infuse::emulated::pmovzxbd512_mask
#define __builtin_ia32_vfmaddps512_mask(a, b, c, mask, mode) \
  ::infuse::emulated::vfmaddps512_mask(a, b, c, mask, ::infuse::emulated::Mode<mode>{})
#define __builtin_ia32_maxps512_mask(a, b, other, mask, mode) \
  ::infuse::emulated::maxps512_mask(a, b, other, mask, ::infuse::emulated::Mode<mode>{})
#define __builtin_ia32_minps512_mask(a, b, other, mask, mode) \
  ::infuse::emulated::minps512_mask(a, b, other, mask, ::infuse::emulated::Mode<mode>{})
#define __builtin_ia32_scalefps512_mask(a, b, other, mask, mode) \
  ::infuse::emulated::scalefps512_mask(a, b, other, mask, ::infuse::emulated::Mode<mode>{})
#define __builtin_ia32_sqrtps512_mask(x, other, mask, mode) \
  ::infuse::emulated::sqrtps512_mask(x, other, mask, ::infuse::emulated::Mode<mode>{})
#define __builtin_ia32_vcvtph2ps512_mask(x, other, mask, mode) \
  ::infuse::emulated::vcvtph2ps512_mask(x, other, mask, ::infuse::emulated::Mode<mode>{})
#define __builtin_ia32_rndscaleps_mask(x, how, other, mask, mode) \
  ::infuse::emulated::rndscaleps_mask<how>(x, other, mask, ::infuse::emulated::Mode<mode>{})
#define __builtin_ia32_vcvtps2ph512_mask(x, how, other, mask) \
  ::infuse::emulated::vcvtps2ph512_mask<how>(x, other, mask)
#define __builtin_ia32_vfmaddpd512_mask(a, b, c, mask, mode) \
  ::infuse::emulated::vfmaddpd512_mask(a, b, c, mask, ::infuse::emulated::Mode<mode>{})
#define __builtin_ia32_cmpps512_mask(a, b, how, mask, mode) \
  ::infuse::emulated::cmpps512_mask<how>(a, b, mask, ::infuse::emulated::Mode<mode>{})
#define __builtin_ia32_cmppd512_mask(a, b, how, mask, mode) \
  ::infuse::emulated::cmppd512_mask<how>(a, b, mask, ::infuse::emulated::Mode<mode>{})
#define __builtin_ia32_cmpd512_mask(a, b, how, mask) \
  ::infuse::emulated::cmpd512_mask<how>(a, b, mask)

#define INFUSE_HOLD(x) (void)(x)
#define INFUSE_UNARY(name, to, x) (void)((to) = ::infuse::emulated::name(x))
#define INFUSE_BINARY(name, to, a, b) (void)((to) = ::infuse::emulated::name(a, b))
#define INFUSE_ADDING(name, sum, a, b) (void)((sum) = ::infuse::emulated::name(sum, a, b))
#define INFUSE_ADDING_VEX(name, sum, a, b) (void)((sum) = ::infuse::emulated::name##_narrow(sum, a, b))
