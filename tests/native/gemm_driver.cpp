// Calls the matrix kernels as generated code does, for test_kernels_gemm.py.
#include "conv.hpp"
#include "driver.hpp"
#include "matmul.hpp"

EXPORT void run_gemm(int threads, bool scratch, const GemmSizes* s, const float* a, const float* b,
                     const float* bias, float low, float* out) {
  Run run(threads, scratch ? gemm_scratch(*s) : 0);
  gemm(*run.ctx, *s, a, b, Sink{bias, out, s->n, low});
}

EXPORT void run_matmul(int threads, const MatmulSizes* s, const float* a, const float* b,
                       const float* bias, float low, float* out) {
  Run run(threads, matmul_scratch(*s));
  matmul(*run.ctx, *s, a, b, Sink{bias, out, s->n, low});
}

EXPORT void run_matmul_at(int threads, const MatmulSizes* s, const float* a, const float* b,
                          const long* a_at, const long* b_at, const float* bias, float low,
                          float* out) {
  Run run(threads, matmul_scratch(*s));
  matmul(
      *run.ctx, *s, a, b, [=](long i) { return a_at[i]; }, [=](long i) { return b_at[i]; },
      Sink{bias, out, s->n, low});
}

EXPORT void run_conv(int threads, const ConvSizes* s, const float* x, const float* w,
                     const float* bias, float low, float* out) {
  Run run(threads, conv_scratch(*s));
  conv(*run.ctx, *s, x, w, Sink{bias, out, s->out_channels, low});
}

