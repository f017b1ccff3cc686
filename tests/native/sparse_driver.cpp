// Calls the kernels of matrices in blocks as generated code does, for test_kernels_sparse.py.
#include "driver.hpp"
#include "sparse_integer.hpp"

EXPORT void run_sparse_gemm(int threads, const SparseSizes* s, const float* a,
                            const int32_t* starts, const uint16_t* places, const float* blocks,
                            const float* bias, float low, float* out) {
  Run run(threads, sparse_gemm_scratch(*s));
  sparse_gemm(*run.ctx, *s, a, starts, places, blocks, Sink{bias, out, s->n, low});
}

struct IntegerSizes {
  long m, n, k, row, filled, step;
};

#define MULTIPLY(name, Layout, T)                                                                 \
  EXPORT void name(int threads, const IntegerSizes* s, const T* a, const T* zero,                 \
                   const int32_t* starts, const uint16_t* places, const Layout::Right* blocks,    \
                   const int32_t* sums, int32_t* out) {                                           \
    Run run(threads, sparse_integer_scratch<Layout>(s->k));                                       \
    sparse_integer_matmul<Layout>(*run.ctx, s->m, s->n, s->k, s->row, s->filled, a, zero,         \
                                  s->step, starts, places, blocks, sums, Whole{out, s->n});       \
  }
MULTIPLY(multiply_bytes, U8S8x4, uint8_t)
MULTIPLY(multiply_signed, U8S8x4, int8_t)
MULTIPLY(multiply_byte_pairs, I16x2, uint8_t)
MULTIPLY(multiply_signed_pairs, I16x2, int8_t)
