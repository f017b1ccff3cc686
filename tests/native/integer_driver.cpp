// Calls products of 8-bit integers as generated code does, for test_kernels_integer.py.
#include "integer.hpp"
#include "driver.hpp"

struct Sizes {
  long m, n, k, row, step;
};

template <class T>
static void multiply(int threads, const Sizes& s, const T* a, const T* zero, const int8_t* b,
                     const int32_t* sums, int32_t* out) {
  Run run(threads, integer_scratch<U8S8x4>(s.k));
  integer_matmul<U8S8x4>(*run.ctx, s.m, s.n, s.k, s.row, a, zero, s.step, b, sums,
                         Whole{out, s.n});
}

EXPORT void multiply_bytes(int threads, const Sizes* s, const uint8_t* a, const uint8_t* zero,
                           const int8_t* b, const int32_t* sums, int32_t* out) {
  multiply(threads, *s, a, zero, b, sums, out);
}
EXPORT void multiply_signed(int threads, const Sizes* s, const int8_t* a, const int8_t* zero,
                            const int8_t* b, const int32_t* sums, int32_t* out) {
  multiply(threads, *s, a, zero, b, sums, out);
}
EXPORT int has_tiles() { return U8S8_TILES; }
