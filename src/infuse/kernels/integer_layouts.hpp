// How 8-bit integers lie in registers so that one instruction multiplies and adds several of them.
//
//   I16x2   both operands widened to 16 bits, zero points taken off; two products a lane
//   U8S8x4  bytes times signed bytes (weights less their zero points); four products a lane, no saturation
//
// U8S8x4 leave the zero point of the bytes in the sum: `zero · (sum of the weights)` has to come off.
// Signed elements become bytes by adding 128 to them and to their zero point. Where instructions multiply signed bytes
// only, it is the other way round: 128 is taken off unsigned elements and their zero point.
#pragma once
#include "narrow.hpp"
#include "ordered.hpp"
#include "tiles.hpp"

#if defined(INFUSE_NEON) && \
    (defined(__ARM_FEATURE_MATMUL_INT8) || defined(__ARM_FEATURE_DOTPROD))
#define INFUSE_NEON_DOTS 1
#endif

namespace infuse {

namespace integer_detail {

constexpr int PANEL = 2 * LANES;                 // columns of a panel
// Rows of a tile, whose sums fill the registers; by lane they need a register each themselves.
#if INFUSE_ORDERED
constexpr int ROWS = detail::ORDERED_ROWS;
#elif defined(INFUSE_NEON_DOTS) || defined(INFUSE_SVE)
constexpr int ROWS = INFUSE_REGISTERS / 4;
#else
constexpr int ROWS = INFUSE_REGISTERS * 3 / 8;
#endif

#if INFUSE_LANES == 16 && defined(__AVX512BW__)
typedef short v_pairs __attribute__((vector_size(64)));
#elif INFUSE_LANES == 8 && defined(__AVX2__)
typedef short v_pairs __attribute__((vector_size(32)));
#elif INFUSE_LANES == 4 && (defined(__SSE2__) || defined(__wasm_simd128__))
typedef short v_pairs __attribute__((vector_size(16)));
#endif

/** Adds both products of each pair of 16-bit integers. */
INFUSE_INLINE vi add_pairs(vi sum, vi a, vi b) {
#if INFUSE_LANES == 16 && defined(__AVX512BW__) && defined(__clang__)
  return sum + (vi)__builtin_ia32_pmaddwd512((v_pairs)a, (v_pairs)b);
#elif INFUSE_LANES == 16 && defined(__AVX512VNNI__)
  return __builtin_ia32_vpdpwssd_v16si(sum, a, b);
#elif INFUSE_LANES == 16 && defined(__AVX512BW__)
  return sum + (vi)__builtin_ia32_pmaddwd512_mask((v_pairs)a, (v_pairs)b, vi{}, (short)-1);
#elif INFUSE_LANES == 8 && defined(__AVXVNNI__)
  INFUSE_ADDING_VEX(vpdpwssd, sum, a, b);
  return sum;
#elif INFUSE_LANES == 8 && defined(__AVX2__)
  return sum + (vi)__builtin_ia32_pmaddwd256((v_pairs)a, (v_pairs)b);
#elif INFUSE_LANES == 4 && defined(__SSE2__)
  return sum + (vi)__builtin_ia32_pmaddwd128((v_pairs)a, (v_pairs)b);
#elif defined(__wasm_simd128__)
  return sum + (vi)__builtin_wasm_dot_s_i32x4_i16x8((v_pairs)a, (v_pairs)b);
#else
  return sum + (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16);
#endif
}

/** Adds the four products of bytes of `a` and signed bytes of `b` in each lane. */
INFUSE_INLINE vi add_quads(vi sum, vi a, vi b) {
#if INFUSE_LANES == 16 && defined(__AVX512VNNI__) && defined(__clang__)
  INFUSE_ADDING(vpdpbusd, sum, a, b);
  return sum;
#elif INFUSE_LANES == 16 && defined(__AVX512VNNI__)
  return __builtin_ia32_vpdpbusd_v16si(sum, a, b);
#elif INFUSE_LANES == 8 && defined(__AVXVNNI__)
  INFUSE_ADDING_VEX(vpdpbusd, sum, a, b);
  return sum;
#elif defined(INFUSE_SVE)
  return (vi)(sve_words)svdot_s32((sve_words)sum, (sve_bytes)a, (sve_bytes)b);
#elif defined(__ARM_FEATURE_MATMUL_INT8)
  INFUSE_DOT(usdot, "16b", sum, a, b);
  return sum;
#elif defined(__ARM_FEATURE_DOTPROD)
  INFUSE_DOT(sdot, "16b", sum, a, b);
  return sum;
#else
  sum += (a & 255) * (b << 24 >> 24) + (a >> 8 & 255) * (b << 16 >> 24);
  return sum + (a >> 16 & 255) * (b << 8 >> 24) + (a >> 24 & 255) * (b >> 24);
#endif
}

// Whether four bytes are multiplied with all lanes of weights where they lie, in a lane of a register.
#if defined(INFUSE_NEON_DOTS) || defined(INFUSE_SVE)
constexpr bool QUADS_BY_LANE = true;
#else
constexpr bool QUADS_BY_LANE = false;
#endif

/** Four lanes, in each part of 128 bits of a vector. */
INFUSE_INLINE vi four_lanes(const char* p) {
#if defined(INFUSE_SVE)
  return (vi)(sve_words)svld1rq_s32(svptrue_b32(), (const int32_t*)p);
#else
  return load((const int32_t*)p, Full{});
#endif
}

/** Adds the products of the bytes in lane LANE of `a` with those of all lanes of weights. */
template <int LANE>
INFUSE_INLINE vi add_quads_of(vi sum, vi a, vi b) {
#if defined(INFUSE_SVE)
  return (vi)(sve_words)svdot_lane_s32((sve_words)sum, (sve_bytes)b, (sve_bytes)a, LANE);
#elif defined(INFUSE_NEON_DOTS) && defined(__ARM_FEATURE_MATMUL_INT8)
  INFUSE_DOT_LANE(sudot, "16b", "4b", sum, b, a, LANE);
#elif defined(INFUSE_NEON_DOTS)
  INFUSE_DOT_LANE(sdot, "16b", "4b", sum, b, a, LANE);
#else
  sum = add_quads(sum, splat(a[LANE]), b);
#endif
  return sum;
}

// Whether the bytes that are multiplied with weights count as signed.
#if defined(INFUSE_SVE) || \
    (defined(__ARM_FEATURE_DOTPROD) && !defined(__ARM_FEATURE_MATMUL_INT8))
constexpr bool SIGNED_BYTES = true;
#else
constexpr bool SIGNED_BYTES = false;
#endif

template <class T>
constexpr bool SIGNED = T(-1) < T(0);

/** The bit of an element that changes where it becomes a byte of U8S8x4. */
template <class T>
constexpr int FLIP = SIGNED<T> == SIGNED_BYTES ? 0 : 128;

}  // namespace integer_detail

/** Two 16-bit integers a lane. */
struct I16x2 {
  typedef int16_t Left;
  typedef int16_t Right;
  static constexpr int GROUP = 2;
  static constexpr bool TILED = false;    // whether right operands are packed in tiles
  static constexpr bool BY_LANE = false;  // whether the processor multiplies by one lane (add_lane)
  static INFUSE_INLINE vi add(vi sum, vi a, vi b) { return integer_detail::add_pairs(sum, a, b); }
  /** A lane that `add_one` multiplies with all others. */
  static INFUSE_INLINE vi one(int32_t lane) { return splat(lane); }
  static INFUSE_INLINE vi add_one(vi sum, vi a, vi b) { return add(sum, a, b); }
  /** An element as it is multiplied. */
  template <class T>
  static INFUSE_INLINE Left left(T x, int zero) {
    return Left(x - zero);
  }
  /** What stands for a number of zero. */
  template <class T>
  static INFUSE_INLINE Left nothing(int) {
    return 0;
  }
  /** The factor of the sum of the weights that has to come off. */
  template <class T>
  static INFUSE_INLINE int excess(int) {
    return 0;
  }
};

/** Four bytes a lane. */
struct U8S8x4 {
  typedef uint8_t Left;
  typedef int8_t Right;
  static constexpr int GROUP = 4;
  static constexpr bool TILED = U8S8_TILES;
  static INFUSE_INLINE vi add(vi sum, vi a, vi b) { return integer_detail::add_quads(sum, a, b); }
  static constexpr bool BY_LANE = integer_detail::QUADS_BY_LANE;
  static INFUSE_INLINE vi one(int32_t lane) { return splat(lane); }
  static INFUSE_INLINE vi add_one(vi sum, vi a, vi b) { return add(sum, a, b); }
  /** Adds the products of lane LANE of `a` with all lanes of b. */
  template <int LANE>
  static INFUSE_INLINE vi add_lane(vi sum, vi a, vi b) {
    return integer_detail::add_quads_of<LANE>(sum, a, b);
  }
  template <class T>
  static INFUSE_INLINE Left left(T x, int) {
    return Left(x) ^ integer_detail::FLIP<T>;
  }
  template <class T>
  static INFUSE_INLINE Left nothing(int zero) {
    return Left(excess<T>(zero));
  }
  template <class T>
  static INFUSE_INLINE int excess(int zero) {
    return integer_detail::SIGNED_BYTES ? zero - integer_detail::FLIP<T> : zero + integer_detail::FLIP<T>;
  }
};

}  // namespace infuse
