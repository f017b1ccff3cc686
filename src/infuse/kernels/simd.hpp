// Vectors of LANES floats, lane tags, loads and stores that never touch memory past a tail.
//
//   vf, vi        LANES floats, LANES int32 (GCC vector extensions: + - * / < & | ~ work on them)
//   Full          all lanes are valid
//   Tail{n}       the first n lanes are valid, 0 <= n <= LANES; a load fills the rest with zero
//   One           a scalar of any type
//
// A mask is a vi of 0 and -1 for vectors, a bool for scalars.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "instructions.hpp"
#include "isize.h"

#define INFUSE_INLINE inline __attribute__((always_inline))
#define INFUSE_NOINLINE __attribute__((noinline))

// Numbers of the machine come from the one place that has them (targets/machine.py), as -D.
#if !defined(INFUSE_LANES) || !defined(INFUSE_REGISTERS) || !defined(INFUSE_TILE_ROWS) || \
    !defined(INFUSE_BLOCK_BYTES)
#error "the machine is not described: compile with the definitions of Machine.defines()"
#endif
#if defined(__AVX512F__)
static_assert(INFUSE_LANES == 16, "AVX-512 has vectors of 16 floats");
#elif defined(__AVX__)
static_assert(INFUSE_LANES == 8, "AVX has vectors of 8 floats");
#elif defined(INFUSE_SVE)
static_assert(INFUSE_LANES * 32 == __ARM_FEATURE_SVE_BITS, "vectors have the length that is stated");
#elif defined(__riscv_v_min_vlen)
static_assert(INFUSE_LANES * 32 == __riscv_v_min_vlen, "vectors have the least length that is stated");
#else
static_assert(INFUSE_LANES == 4, "vectors have 4 floats");
#endif

#if defined(__has_builtin)
#define INFUSE_HAS(name) __has_builtin(name)
#else
#define INFUSE_HAS(name) 0
#endif

// Where the target has no fused multiply-add, fma() is a multiplication and an addition.
#if defined(__FMA__) || defined(__AVX512F__) || defined(__ARM_FEATURE_FMA)
#define INFUSE_FMA 1
#else
#define INFUSE_FMA 0
#endif

namespace infuse {

constexpr int LANES = INFUSE_LANES;

typedef float vf __attribute__((vector_size(LANES * 4)));
typedef int32_t vi __attribute__((vector_size(LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(LANES * 4)));
#if defined(__clang__) && __SIZEOF_LONG__ == 4
#define INFUSE_LONG_MASKS 1
typedef long vl __attribute__((vector_size(LANES * 4)));  // what Clang makes of comparisons there
#endif

#if defined(INFUSE_SVE)
// The same as instructions take them.
typedef svfloat32_t sve_floats __attribute__((arm_sve_vector_bits(__ARM_FEATURE_SVE_BITS)));
typedef svint32_t sve_words __attribute__((arm_sve_vector_bits(__ARM_FEATURE_SVE_BITS)));
typedef svint8_t sve_bytes __attribute__((arm_sve_vector_bits(__ARM_FEATURE_SVE_BITS)));
#endif

struct Full {};
struct Tail {
  int n;
};
struct One {};

INFUSE_INLINE int count(Full) { return LANES; }
INFUSE_INLINE int count(Tail t) { return t.n; }
INFUSE_INLINE int count(One) { return 1; }

// Calls f(i, Full) for each whole vector of [begin, end), then f(i, Tail) for what is left.
template <class F>
INFUSE_INLINE void sweep(isize begin, isize end, F&& f) {
  isize i = begin;
  for (; i + LANES <= end; i += LANES) f(i, Full{});
  if (i < end) f(i, Tail{int(end - i)});
}

// ---- splat -----------------------------------------------------------------------------------

// Subtracting +0 keeps every number, -0 too, so compilers leave only the broadcast.
INFUSE_INLINE vf splat(float x) { return x - vf{}; }
INFUSE_INLINE vi splat(int32_t x) { return x - vi{}; }

namespace detail {
template <class L>
struct Splat {
  static INFUSE_INLINE vf of(float x) { return splat(x); }
  static INFUSE_INLINE vi of(int32_t x) { return splat(x); }
  static INFUSE_INLINE vi of(bool x) { return splat(-int32_t(x)); }
};
template <>
struct Splat<One> {
  template <class T>
  static INFUSE_INLINE T of(T x) {
    return x;
  }
};
}  // namespace detail

// The scalar in every lane; a bool becomes a mask. With One, the scalar itself.
template <class L, class T>
INFUSE_INLINE auto splat(T x) {
  return detail::Splat<L>::of(x);
}

INFUSE_INLINE vi iota() {
#if INFUSE_LANES == 16
  return vi{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif INFUSE_LANES == 8
  return vi{0, 1, 2, 3, 4, 5, 6, 7};
#else
  return vi{0, 1, 2, 3};
#endif
}

// All bits set in the first n lanes.
INFUSE_INLINE vi lane_mask(Full) { return splat(-1); }
INFUSE_INLINE vi lane_mask(Tail t) { return iota() < splat(int32_t(t.n)); }

// ---- bits and conversions --------------------------------------------------------------------

INFUSE_INLINE vi as_int(vf x) { return (vi)x; }
INFUSE_INLINE vf as_float(vi x) { return (vf)x; }
INFUSE_INLINE int32_t as_int(float x) {
  int32_t r;
  memcpy(&r, &x, 4);
  return r;
}
INFUSE_INLINE float as_float(int32_t x) {
  float r;
  memcpy(&r, &x, 4);
  return r;
}

// Numeric conversion; to_int truncates towards zero and is undefined outside int32.
INFUSE_INLINE vf to_float(vi x) { return __builtin_convertvector(x, vf); }
INFUSE_INLINE vi to_int(vf x) { return __builtin_convertvector(x, vi); }
template <class T>
INFUSE_INLINE float to_float(T x) {
  return float(x);
}
template <class T>
INFUSE_INLINE int32_t to_int(T x) {
  return int32_t(x);
}

// ---- load and store --------------------------------------------------------------------------

#if defined(__SANITIZE_ADDRESS__)
extern "C" void __asan_loadN_noabort(const void* p, usize bytes);
extern "C" void __asan_storeN_noabort(void* p, usize bytes);
#elif defined(__SANITIZE_THREAD__)
extern "C" void __tsan_read_range(void* p, usize bytes);
extern "C" void __tsan_write_range(void* p, usize bytes);
#endif

namespace detail {

// Masked instructions are not watched by sanitizers: these tell them what they touch.
INFUSE_INLINE void reads([[maybe_unused]] const void* p, [[maybe_unused]] isize bytes) {
#if defined(__SANITIZE_ADDRESS__)
  if (bytes != 0) __asan_loadN_noabort(p, (usize)bytes);
#elif defined(__SANITIZE_THREAD__)
  if (bytes != 0) __tsan_read_range(const_cast<void*>(p), (usize)bytes);
#endif
}
INFUSE_INLINE void writes([[maybe_unused]] void* p, [[maybe_unused]] isize bytes) {
#if defined(__SANITIZE_ADDRESS__)
  if (bytes != 0) __asan_storeN_noabort(p, (usize)bytes);
#elif defined(__SANITIZE_THREAD__)
  if (bytes != 0) __tsan_write_range(p, (usize)bytes);
#endif
}

typedef float vf_any __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t vi_any __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

#if INFUSE_LANES == 16
INFUSE_INLINE unsigned short bits(int n) { return (unsigned short)((1u << n) - 1); }
INFUSE_INLINE vf load_n(const float* p, int n) {
  reads(p, isize(4) * n);
  return __builtin_ia32_loadups512_mask(p, vf{}, bits(n));
}
INFUSE_INLINE void store_n(float* p, vf x, int n) {
  writes(p, isize(4) * n);
  __builtin_ia32_storeups512_mask(p, x, bits(n));
}
#elif defined(INFUSE_SVE)
INFUSE_INLINE vf load_n(const float* p, int n) {
  reads(p, isize(4) * n);
  return (vf)(sve_floats)svld1_f32(svwhilelt_b32(0, n), p);
}
INFUSE_INLINE void store_n(float* p, vf x, int n) {
  writes(p, isize(4) * n);
  svst1_f32(svwhilelt_b32(0, n), p, (sve_floats)x);
}
#elif defined(__AVX__)
typedef float v8f __attribute__((vector_size(32)));
INFUSE_INLINE vf load_n(const float* p, int n) {
  reads(p, isize(4) * n);
  return __builtin_ia32_maskloadps256((const v8f*)p, lane_mask(Tail{n}));
}
INFUSE_INLINE void store_n(float* p, vf x, int n) {
  writes(p, isize(4) * n);
  __builtin_ia32_maskstoreps256((v8f*)p, lane_mask(Tail{n}), x);
}
#elif INFUSE_LANES == 8
INFUSE_INLINE vf load_n(const float* p, int n) {
  vf r{};
  for (int i = 0; i < n; ++i) r[i] = p[i];
  return r;
}
INFUSE_INLINE void store_n(float* p, vf x, int n) {
  for (int i = 0; i < n; ++i) p[i] = x[i];
}
#else
INFUSE_INLINE vf load_n(const float* p, int n) {
  vf r{};
  if (n == LANES) return *(const vf_any*)p;
  if (n > 0) r[0] = p[0];
  if (n > 1) r[1] = p[1];
  if (n > 2) r[2] = p[2];
  return r;
}
INFUSE_INLINE void store_n(float* p, vf x, int n) {
  if (n == LANES) {
    *(vf_any*)p = x;
    return;
  }
  if (n > 0) p[0] = x[0];
  if (n > 1) p[1] = x[1];
  if (n > 2) p[2] = x[2];
}
#endif
}  // namespace detail

INFUSE_INLINE vf load(const float* p, Full) { return *(const detail::vf_any*)p; }
INFUSE_INLINE vf load(const float* p, Tail t) { return detail::load_n(p, t.n); }
INFUSE_INLINE vi load(const int32_t* p, Full) { return *(const detail::vi_any*)p; }
INFUSE_INLINE vi load(const int32_t* p, Tail t) {
  return as_int(detail::load_n((const float*)p, t.n));
}
template <class T>
INFUSE_INLINE T load(const T* p, One) {
  return *p;
}

INFUSE_INLINE void store(float* p, vf x, Full) { *(detail::vf_any*)p = x; }
INFUSE_INLINE void store(float* p, vf x, Tail t) { detail::store_n(p, x, t.n); }
INFUSE_INLINE void store(int32_t* p, vi x, Full) { *(detail::vi_any*)p = x; }
INFUSE_INLINE void store(int32_t* p, vi x, Tail t) { detail::store_n((float*)p, as_float(x), t.n); }
template <class T>
INFUSE_INLINE void store(T* p, T x, One) {
  *p = x;
}

// ---- arithmetic that needs more than an operator ---------------------------------------------

// a * b + c, rounded once where the target can.
INFUSE_INLINE vf fma(vf a, vf b, vf c) {
#if defined(__wasm_relaxed_simd__)
  return __builtin_wasm_relaxed_madd_f32x4(a, b, c);
#elif !INFUSE_FMA
  return a * b + c;
#elif defined(__clang__)
  return __builtin_elementwise_fma(a, b, c);
#elif INFUSE_LANES == 16
  return __builtin_ia32_vfmaddps512_mask(a, b, c, (short)-1, 4);
#elif defined(INFUSE_SVE)
  return (vf)(sve_floats)svmla_f32_x(svptrue_b32(), (sve_floats)c, (sve_floats)a, (sve_floats)b);
#elif INFUSE_LANES == 8
  return __builtin_ia32_vfmaddps256(a, b, c);
#else
  for (int i = 0; i < LANES; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
#endif
}
INFUSE_INLINE float fma(float a, float b, float c) {
  return INFUSE_FMA ? __builtin_fmaf(a, b, c) : a * b + c;
}
INFUSE_INLINE double fma(double a, double b, double c) {
  return INFUSE_FMA ? __builtin_fma(a, b, c) : a * b + c;
}

// a * b + c, rounded once on every target. With -0 for c it is a product that no compiler puts
// together with a sum that follows.
#if !INFUSE_FMA
// Whether compilers see that it is -0, with which a product is as it is.
INFUSE_INLINE bool adds_nothing(float c) {
  return __builtin_constant_p(c) && as_int(c) == INT32_MIN;
}
#endif
INFUSE_INLINE float fused(float a, float b, float c) {
#if INFUSE_FMA
  return __builtin_fmaf(a, b, c);
#else
  if (adds_nothing(c)) return a * b;
  // An inexact sum in float64 becomes odd, so that it lies on no middle between two float32.
  const double product = double(a) * double(b), rest = double(c);
  double sum = product + rest;
  const double added = sum - product, lost = (product - (sum - added)) + (rest - added);
  isize word;
  memcpy(&word, &sum, 8);
  if ((lost < 0 || lost > 0) && word % 2 == 0) word += (lost > 0) == (sum > 0) ? 1 : -1;
  memcpy(&sum, &word, 8);
  return float(sum);
#endif
}
INFUSE_INLINE vf fused(vf a, vf b, vf c) {
#if INFUSE_FMA
  return fma(a, b, c);
#else
  bool nothing = true;
  for (int i = 0; i < LANES; ++i) nothing &= adds_nothing(c[i]);
  if (nothing) return a * b;
  for (int i = 0; i < LANES; ++i) c[i] = fused(a[i], b[i], c[i]);
  return c;
#endif
}

INFUSE_INLINE vf select(vi mask, vf a, vf b) { return mask ? a : b; }
INFUSE_INLINE vi select(vi mask, vi a, vi b) { return mask ? a : b; }
template <class T>
INFUSE_INLINE T select(bool mask, T a, T b) {
  return mask ? a : b;
}

namespace detail {
// The operand b where either is NaN, as the x86 instructions do.
INFUSE_INLINE vf raw_max(vf a, vf b) {
#if defined(__wasm_simd128__)
  return __builtin_wasm_pmax_f32x4(b, a);  // else Clang takes a relaxed one, which loses NaN
#elif defined(__clang__) || !defined(__AVX__)
  return a > b ? a : b;
#elif INFUSE_LANES == 16
  return __builtin_ia32_maxps512_mask(a, b, vf{}, (short)-1, 4);
#else
  return __builtin_ia32_maxps256(a, b);
#endif
}
INFUSE_INLINE vf raw_min(vf a, vf b) {
#if defined(__wasm_simd128__)
  return __builtin_wasm_pmin_f32x4(b, a);
#elif defined(__clang__) || !defined(__AVX__)
  return a < b ? a : b;
#elif INFUSE_LANES == 16
  return __builtin_ia32_minps512_mask(a, b, vf{}, (short)-1, 4);
#else
  return __builtin_ia32_minps256(a, b);
#endif
}
#if defined(INFUSE_MAX)
// Whether compilers see that no lane is zero or NaN, which the instructions take otherwise.
INFUSE_INLINE bool is_bound(vf b) {
  bool is = true;
#pragma GCC unroll 16
  for (int i = 0; i < LANES; ++i) is &= __builtin_constant_p(b[i]) && b[i] == b[i] && b[i] != 0;
  return is;
}
#endif
}  // namespace detail

// NaN if either operand is NaN, the first if they are equal (zeros of both signs are). One
// instruction when b is a constant.
INFUSE_INLINE vf max(vf a, vf b) {
#if defined(INFUSE_MAX)
  if (detail::is_bound(b)) {
    INFUSE_MAX(a, b);
    return a;
  }
#endif
  return select(b != b, b, detail::raw_max(b, a));
}
INFUSE_INLINE vf min(vf a, vf b) {
#if defined(INFUSE_MIN)
  if (detail::is_bound(b)) {
    INFUSE_MIN(a, b);
    return a;
  }
#endif
  return select(b != b, b, detail::raw_min(b, a));
}
INFUSE_INLINE vi max(vi a, vi b) { return a > b ? a : b; }
INFUSE_INLINE vi min(vi a, vi b) { return a < b ? a : b; }
template <class T>
constexpr INFUSE_INLINE T max(T a, T b) {
  return a != a || a >= b ? a : b;
}
template <class T>
constexpr INFUSE_INLINE T min(T a, T b) {
  return a != a || a <= b ? a : b;
}

// ---- caches ----------------------------------------------------------------------------------

// Hints: bring the line of p into all caches, or only into the second level, or to be written.
INFUSE_INLINE void prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }
INFUSE_INLINE void prefetch_l2(const void* p) { __builtin_prefetch(p, 0, 2); }
INFUSE_INLINE void prefetch_to_write(const void* p) { __builtin_prefetch(p, 1, 3); }

}  // namespace infuse

#include "lane_reductions.hpp"
#include "narrow.hpp"
