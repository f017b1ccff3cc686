// Elements of few bits, one to a byte: small floats, powers of two, integers of four and two bits.
#pragma once
#include "half.hpp"

namespace infuse {

/** What a small float has beside numbers. */
enum SmallForm {
  SMALL_IEEE,       // infinities and NaN
  SMALL_ONE_NAN,    // the highest code is NaN, no infinities
  SMALL_PLUS_ZERO,  // the code of −0 is NaN, no infinities
  SMALL_FINITE,     // numbers only
};

namespace lowbit_detail {
constexpr float two_to(int n) {
  float x = 1;
  for (; n > 0; --n) x *= 2;
  for (; n < 0; ++n) x /= 2;
  return x;
}
INFUSE_INLINE float nan_of(uint32_t sign) { return as_float(int32_t(sign | 0x7fc00000)); }
// A float that rounds to few bits as x does.
template <class T> INFUSE_INLINE float ready(T x) { return float(x); }
INFUSE_INLINE float ready(double x) { return half_detail::to_odd(x); }
}  // namespace lowbit_detail

/**
 * A float of a sign, E bits of exponent with a bias, M bits of mantissa. Made of a float it is the
 * nearest, ties to even; what is too large becomes infinite or NaN where the form has it.
 */
template <int E, int M, int BIAS, SmallForm FORM> struct SmallFloat {
  uint8_t bits;

  static constexpr uint32_t SIGN = 1u << (E + M), CODES = SIGN - 1;
  static constexpr uint32_t LARGEST = FORM == SMALL_IEEE      ? (((1u << E) - 1) << M) - 1
                                      : FORM == SMALL_ONE_NAN ? CODES - 1
                                                              : CODES;

  SmallFloat() = default;
  SmallFloat(float x) : bits(encode(x, false)) {}
  SmallFloat(double x) : SmallFloat(half_detail::to_odd(x)) {}
  template <class T> explicit SmallFloat(T x) : SmallFloat(float(x)) {}
  operator float() const { return decode(bits); }

  /** The number nearest to x, the largest for all that are larger. */
  template <class T> static INFUSE_INLINE float limited(T x) {
    return decode(encode(lowbit_detail::ready(x), true));
  }

  static INFUSE_INLINE float decode(uint32_t code) {
    using namespace lowbit_detail;
    uint32_t rest = code & CODES, sign = (code & SIGN) << (31 - E - M);
    if (FORM == SMALL_PLUS_ZERO && sign && !rest) return nan_of(sign);
    if (FORM == SMALL_ONE_NAN && rest > LARGEST) return nan_of(sign);
    if (FORM == SMALL_IEEE && rest > LARGEST)
      return rest > LARGEST + 1 ? nan_of(sign) : as_float(int32_t(sign | 0x7f800000));
    float small = float(int32_t(rest)) * two_to(1 - BIAS - M);
    float usual = as_float(int32_t((rest << (23 - M)) + (uint32_t(127 - BIAS) << 23)));
    float x = rest >> M ? usual : small;
    return as_float(int32_t(uint32_t(as_int(x)) | sign));
  }

  static INFUSE_INLINE uint8_t encode(float x, bool limit) {
    using namespace lowbit_detail;
    constexpr uint32_t least = uint32_t(128 - BIAS) << 23;  // the smallest with all its bits
    constexpr int cut = 23 - M;
    uint32_t all = uint32_t(as_int(x)), rest = all & 0x7fffffff;
    uint32_t sign = all >> 31 << (E + M);
    if (rest > 0x7f800000) {
      if (FORM == SMALL_PLUS_ZERO) return uint8_t(SIGN);
      // What has no NaN takes a zero for it, of the other sign.
      if (FORM == SMALL_FINITE) return uint8_t(sign ^ SIGN);
      return uint8_t(sign | (FORM == SMALL_IEEE ? LARGEST + 1 + (1u << (M - 1)) : CODES));
    }
    uint32_t code;
    if (rest < least)  // the sum's last bit is the smallest number
      code = uint32_t(as_int(as_float(int32_t(rest)) * two_to(BIAS + M - 1) + two_to(23))) - 0x4b000000;
    else
      code = ((rest + (1u << (cut - 1)) - 1 + (rest >> cut & 1)) >> cut) - (uint32_t(127 - BIAS) << M);
    if (code > LARGEST) {
      if (limit || FORM == SMALL_FINITE) code = LARGEST;
      else if (FORM == SMALL_PLUS_ZERO) return uint8_t(SIGN);
      else code = LARGEST + 1;
    }
    if (FORM == SMALL_PLUS_ZERO && code == 0) return 0;
    return uint8_t(sign | code);
  }
};

using float8e4m3fn = SmallFloat<4, 3, 7, SMALL_ONE_NAN>;
using float8e4m3fnuz = SmallFloat<4, 3, 8, SMALL_PLUS_ZERO>;
using float8e5m2 = SmallFloat<5, 2, 15, SMALL_IEEE>;
using float8e5m2fnuz = SmallFloat<5, 2, 16, SMALL_PLUS_ZERO>;
using float6e2m3 = SmallFloat<2, 3, 1, SMALL_FINITE>;
using float6e3m2 = SmallFloat<3, 2, 3, SMALL_FINITE>;
using float4e2m1 = SmallFloat<2, 1, 1, SMALL_FINITE>;

enum ScaleRounding { SCALE_UP, SCALE_DOWN, SCALE_NEAREST };

/** A power of two from 2^-127 to 2^127, or NaN; the sign of what it is made of is lost. */
struct float8e8m0 {
  uint8_t bits;
  float8e8m0() = default;
  float8e8m0(float x) : bits(encode(x, SCALE_NEAREST, false)) {}
  float8e8m0(double x) : bits(encode(x, SCALE_NEAREST, false)) {}
  template <class T> explicit float8e8m0(T x) : float8e8m0(float(x)) {}
  operator float() const { return decode(bits); }

  static INFUSE_INLINE float decode(uint32_t code) {
    if (code == 255) return lowbit_detail::nan_of(0);
    return as_float(code ? int32_t(code << 23) : 0x400000);
  }
  /** `limit`: what is too large or too small becomes the largest or smallest, else NaN. */
  static INFUSE_INLINE uint8_t encode(float x, ScaleRounding rounding, bool limit) {
    uint32_t rest = uint32_t(as_int(x)) & 0x7fffffff;
    if (rest > 0x7f800000) return 255;
    if (rest < 0x400000) return limit ? 0 : 255;
    uint32_t code = rest >> 23, part = rest & 0x7fffff;
    // Below 2^-126 floats have no leading one: the number 2^-127 is half of their range.
    if (code == 0) part = (part - 0x400000) * 2;
    code += rounding == SCALE_UP ? part > 0 : rounding == SCALE_NEAREST ? part >= 0x400000 : 0;
    return uint8_t(code <= 254 ? code : limit ? 254 : 255);
  }
  /** The same from the bits of a double: as a float, the least of them would be flushed to zero. */
  static INFUSE_INLINE uint8_t encode(double x, ScaleRounding rounding, bool limit) {
    constexpr uint64_t half = uint64_t(1) << 51, least = uint64_t(1023 - 127) << 52;
    uint64_t rest;
    memcpy(&rest, &x, 8);
    rest &= ~(uint64_t(1) << 63);
    if (rest > uint64_t(0x7ff) << 52) return 255;
    if (rest < least) return limit ? 0 : 255;
    uint64_t code = (rest - least) >> 52, part = rest & (2 * half - 1);
    code += rounding == SCALE_UP ? part > 0 : rounding == SCALE_NEAREST ? part >= half : 0;
    return uint8_t(code <= 254 ? code : limit ? 254 : 255);
  }
  template <class S> static INFUSE_INLINE uint8_t encode(S x, ScaleRounding rounding, bool limit) {
    return encode(float(x), rounding, limit);
  }
};

/** An integer of few bits; made of others it takes their lowest bits. */
template <int BITS, bool SIGNED> struct SmallInt {
  uint8_t bits;
  SmallInt() = default;
  template <class T> constexpr explicit SmallInt(T x) : bits(uint8_t(uint64_t(x) & ((1u << BITS) - 1))) {}
  constexpr operator int() const {
    constexpr int half = SIGNED ? 1 << (BITS - 1) : 0;
    return ((bits & ((1 << BITS) - 1)) ^ half) - half;
  }
};

using int4 = SmallInt<4, true>;
using uint4 = SmallInt<4, false>;
using int2 = SmallInt<2, true>;
using uint2 = SmallInt<2, false>;

// ---- single elements ---------------------------------------------------------------------------

template <int E, int M, int BIAS, SmallForm FORM>
INFUSE_INLINE float load(const SmallFloat<E, M, BIAS, FORM>* p, One) {
  return float(*p);
}
template <int E, int M, int BIAS, SmallForm FORM>
INFUSE_INLINE void store(SmallFloat<E, M, BIAS, FORM>* p, float x, One) {
  *p = SmallFloat<E, M, BIAS, FORM>(x);
}
INFUSE_INLINE float load(const float8e8m0* p, One) { return float(*p); }
INFUSE_INLINE void store(float8e8m0* p, float x, One) { *p = float8e8m0(x); }

namespace half_detail {
template <int E, int M, int BIAS, SmallForm FORM> struct Round<SmallFloat<E, M, BIAS, FORM>> {
  template <class S> static INFUSE_INLINE float of(S x) {
    return SmallFloat<E, M, BIAS, FORM>::limited(x);
  }
};
template <> struct Round<float8e8m0> {
  template <class S> static INFUSE_INLINE float of(S x) {
    return float8e8m0::decode(float8e8m0::encode(x, SCALE_UP, true));
  }
};
}  // namespace half_detail

/** The nearest number that T holds, in float; what is too large is infinite or NaN. */
template <class T, class S> INFUSE_INLINE float round_over(S x) { return float(T(x)); }

/** A power of two near x, in float. */
template <ScaleRounding ROUNDING, bool LIMIT, class S> INFUSE_INLINE float round_scale(S x) {
  return float8e8m0::decode(float8e8m0::encode(x, ROUNDING, LIMIT));
}

}  // namespace infuse
