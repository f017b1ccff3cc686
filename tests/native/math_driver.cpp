// Every function of math.hpp over arrays, for test_kernels_math.py.
#include "math.hpp"

using namespace infuse;

#define EXPORT extern "C" __attribute__((visibility("default")))

#define UNARY(name)                                                                          \
  EXPORT void vector_##name(const float* x, float* y, long n) {                              \
    sweep(0, n, [&](long i, auto lanes) { store(y + i, name(load(x + i, lanes)), lanes); }); \
  }                                                                                          \
  EXPORT void scalar_##name(const float* x, float* y, long n) {                              \
    for (long i = 0; i < n; ++i) y[i] = name(x[i]);                                          \
  }                                                                                          \
  EXPORT void double_##name(const double* x, double* y, long n) {                            \
    for (long i = 0; i < n; ++i) y[i] = name(x[i]);                                          \
  }
UNARY(exp)
UNARY(expm1) UNARY(log) UNARY(log1p) UNARY(tanh) UNARY(erf) UNARY(sigmoid) UNARY(softplus)
    UNARY(sqrt) UNARY(rsqrt) UNARY(sin) UNARY(cos) UNARY(tan) UNARY(asin) UNARY(acos) UNARY(atan)
        UNARY(sinh) UNARY(cosh) UNARY(asinh) UNARY(acosh) UNARY(atanh) UNARY(floor) UNARY(ceil)
            UNARY(round) UNARY(trunc) UNARY(abs) UNARY(neg) UNARY(sign)
#define BINARY(name)                                                                      \
  EXPORT void vector_##name(const float* a, const float* b, float* y, long n) {           \
    sweep(0, n, [&](long i, auto lanes) {                                                 \
      store(y + i, name(load(a + i, lanes), load(b + i, lanes)), lanes);                  \
    });                                                                                   \
  }                                                                                       \
  EXPORT void scalar_##name(const float* a, const float* b, float* y, long n) {           \
    for (long i = 0; i < n; ++i) y[i] = name(a[i], b[i]);                                 \
  }                                                                                       \
  EXPORT void double_##name(const double* a, const double* b, double* y, long n) {        \
    for (long i = 0; i < n; ++i) y[i] = name(a[i], b[i]);                                 \
  }                                                                                       \
  EXPORT void vector_int_##name(const int32_t* a, const int32_t* b, int32_t* y, long n) { \
    sweep(0, n, [&](long i, auto lanes) {                                                 \
      store(y + i, name(load(a + i, lanes), load(b + i, lanes)), lanes);                  \
    });                                                                                   \
  }                                                                                       \
  EXPORT void long_##name(const int64_t* a, const int64_t* b, int64_t* y, long n) {       \
    for (long i = 0; i < n; ++i) y[i] = name(a[i], b[i]);                                 \
  }
                BINARY(min) BINARY(max) BINARY(mod) BINARY(fmod) BINARY(pow) BINARY(div)

    // Bit i of each result is comparison i of eq, ne, lt, le, gt, ge, then and, or, xor, not of a <
    // b and a == 0, then is_nan(a), is_inf(a).
    template <class V, class M, class Pick>
    INFUSE_INLINE auto comparisons(V a, V b, V zero, Pick pick) {
  M less = lt(a, b), none = eq(a, zero);
  return pick(eq(a, b), 1) + pick(ne(a, b), 2) + pick(less, 4) + pick(le(a, b), 8) +
         pick(gt(a, b), 16) + pick(ge(a, b), 32) + pick(logical_and(less, none), 64) +
         pick(logical_or(less, none), 128) + pick(logical_xor(less, none), 256) +
         pick(logical_not(none), 512) + pick(is_nan(a), 1024) + pick(is_inf(a), 2048);
}
EXPORT void vector_comparisons(const float* a, const float* b, int32_t* y, long n) {
  sweep(0, n, [&](long i, auto lanes) {
    auto pick = [](vi mask, int32_t bit) { return select(mask, splat(bit), vi{}); };
    store(y + i, comparisons<vf, vi>(load(a + i, lanes), load(b + i, lanes), vf{}, pick), lanes);
  });
}
EXPORT void scalar_comparisons(const float* a, const float* b, int32_t* y, long n) {
  auto pick = [](bool mask, int32_t bit) { return select(mask, bit, 0); };
  for (long i = 0; i < n; ++i) y[i] = comparisons<float, bool>(a[i], b[i], 0.0f, pick);
}

// Sum, largest and smallest of LANES numbers, any and all of them being positive.
EXPORT void reductions(const float* x, const int32_t* k, float* y) {
  vf v = load(x, Full{});
  vi u = load(k, Full{});
  y[0] = hsum(v), y[1] = hmax(v), y[2] = hmin(v);
  y[3] = float(hsum(u)), y[4] = float(hmax(u)), y[5] = float(hmin(u));
  y[6] = any(v > 0.0f), y[7] = all(v > 0.0f);
}

#define WIDE(T, name)                                                                         \
  EXPORT void widen_##name(const T* x, int32_t* y, long n) {                                  \
    sweep(0, n, [&](long i, auto lanes) { store(y + i, load_wide(x + i, lanes), lanes); });   \
  }                                                                                           \
  EXPORT void narrow_##name(const int32_t* x, T* y, long n) {                                 \
    sweep(0, n, [&](long i, auto lanes) { store_narrow(y + i, load(x + i, lanes), lanes); }); \
  }
WIDE(int8_t, int8)
WIDE(uint8_t, uint8) WIDE(int16_t, int16) WIDE(uint16_t, uint16)

    EXPORT void masks(const bool* x, bool* y, long n) {
  sweep(0, n, [&](long i, auto lanes) {
    store_mask(y + i, logical_not(load_mask(x + i, lanes)), lanes);
  });
}
EXPORT int lanes() { return LANES; }
