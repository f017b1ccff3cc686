// Calls the kernels of products of two computed operands by tile registers, as generated code does,
// for test_kernels_matmul_tiles.py.
#include "driver.hpp"
#include "matmul_bf16.hpp"
#include "matmul_bf16x2.hpp"

EXPORT void run_matmul_bf16(int threads, const MatmulSizes* s, const float* a, const float* b,
                            const float* bias, float low, float* out) {
  Run run(threads, matmul_bf16_scratch(*s));
  matmul_bf16(*run.ctx, *s, a, b, Sink{bias, out, s->n, low});
}

EXPORT void run_matmul_bf16x2(int threads, const MatmulSizes* s, const float* a, const float* b,
                              const float* bias, float low, float* out) {
  Run run(threads, matmul_bf16x2_scratch(*s));
  matmul_bf16x2(*run.ctx, *s, a, b, Sink{bias, out, s->n, low});
}

EXPORT void run_matmul_bf16_at(int threads, const MatmulSizes* s, const float* a, const float* b,
                               const long* a_at, const long* b_at, const float* bias, float low,
                               float* out) {
  Run run(threads, matmul_bf16_scratch(*s));
  matmul_bf16(
      *run.ctx, *s, a, b, [=](long i) { return a_at[i]; }, [=](long i) { return b_at[i]; },
      Sink{bias, out, s->n, low});
}
