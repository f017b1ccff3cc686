// Instructions that compilers share no name for, and a hold on registers.
//
// A macro each, so that a test may put functions in their place (testing/emulation.hpp).
#pragma once

// WebAssembly is compiled once more where it runs (ordered.hpp). INFUSE_ORDER: a value that compilers
// may not compute anew from others, so that offsets from an address are constants.
#if defined(__wasm__)
#define INFUSE_ORDERED 1
#define INFUSE_ORDER(x) __asm__ __volatile__("" : "+r"(x))
#else
#define INFUSE_ORDERED 0
#define INFUSE_ORDER(x) (void)(x)
#endif

// Vectors of 64-bit ARM: of a stated length (SVE), or of 128 bits.
#if defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS > 128
#define INFUSE_SVE 1
#include <arm_sve.h>
#elif defined(__aarch64__)
#define INFUSE_NEON 1
#endif

// Whether a vector is multiplied by one lane of another without being spread before (row_steps.hpp).
#if defined(INFUSE_NEON) || defined(INFUSE_SVE)
#define INFUSE_BY_LANE 1
#else
#define INFUSE_BY_LANE 0
#endif

#if !defined(INFUSE_HOLD)

// sum += x · a[lane]
#define INFUSE_FMA_LANE(sum, x, a, lane) \
  __asm__("fmla %0.4s, %1.4s, %2.s[%c3]" : "+w"(sum) : "w"(x), "w"(a), "i"(lane))

// Keeps a vector in a register, so that it is not loaded again for every use.
#if defined(__AVX512F__)
#define INFUSE_HOLD(x) __asm__("" : "+v"(x))
#elif defined(__x86_64__)
#define INFUSE_HOLD(x) __asm__("" : "+x"(x))
#else
#define INFUSE_HOLD(x) (void)(x)
#endif

// to = name(x), to = name(a, b), and an instruction that adds to `sum`.
#define INFUSE_UNARY(name, to, x) __asm__(#name " %1, %0" : "=v"(to) : "v"(x))
#define INFUSE_BINARY(name, to, a, b) __asm__(#name " %2, %1, %0" : "=v"(to) : "v"(a), "v"(b))
#define INFUSE_ADDING(name, sum, a, b) __asm__(#name " %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b))
// The same in the encoding of processors without AVX-512.
#define INFUSE_ADDING_VEX(name, sum, a, b) \
  __asm__("%{vex%} " #name " %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b))

// The greater and the lesser number of each lane; NaN where either is, and zeros are ordered by sign.
#if defined(INFUSE_NEON)
#define INFUSE_MAX(x, b) __asm__("fmax %0.4s, %0.4s, %1.4s" : "+w"(x) : "w"(b))
#define INFUSE_MIN(x, b) __asm__("fmin %0.4s, %0.4s, %1.4s" : "+w"(x) : "w"(b))
#endif

// Truncated to int32, or its nearest number; NaN becomes zero.
#define INFUSE_TRUNCATE_NEAR(to, x) __asm__("fcvtzs %0.4s, %1.4s" : "=w"(to) : "w"(x))

// The same on 64-bit ARM, of operands that are split into `parts`.
#define INFUSE_DOT(name, parts, sum, a, b) \
  __asm__(#name " %0.4s, %1." parts ", %2." parts : "+w"(sum) : "w"(a), "w"(b))

// The same with one group of b for all groups of a.
#define INFUSE_DOT_LANE(name, parts, group, sum, a, b, lane) \
  __asm__(#name " %0.4s, %1." parts ", %2." group "[%c3]" : "+w"(sum) : "w"(a), "w"(b), "i"(lane))

// Tile registers (tiles.hpp), which no compiler allocates: constants name them. Rows in memory are
// `stride` bytes apart.
#define INFUSE_TILES_CONFIGURE(from) \
  __asm__ __volatile__("ldtilecfg (%0)" : : "r"(from) : "memory")
#define INFUSE_TILES_RELEASE() __asm__ __volatile__("tilerelease")
#define INFUSE_TILE_ZERO(to) __asm__ __volatile__("tilezero %%tmm%c0" : : "i"(to))
#define INFUSE_TILE_LOAD(to, from, stride) \
  __asm__ __volatile__("tileloadd (%1,%2,1), %%tmm%c0"  \
                       :                                \
                       : "i"(to), "r"(from), "r"(isize(stride)) \
                       : "memory")
#define INFUSE_TILE_STORE(from, to, stride) \
  __asm__ __volatile__("tilestored %%tmm%c0, (%1,%2,1)" \
                       :                                \
                       : "i"(from), "r"(to), "r"(isize(stride)) \
                       : "memory")
#define INFUSE_TILE_ADDING(name, sum, a, b) \
  __asm__ __volatile__(#name " %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(a), "i"(b))

#endif
