// Calls the kernels of products of split numbers as generated code does, for test_kernels_split.py.
#include "conv_bf16x2.hpp"
#include "driver.hpp"

EXPORT void run_gemm_bf16x2(int threads, const GemmSizes* s, const float* a, const bfloat16* b,
                            const float* bias, float low, float* out) {
  Run run(threads, gemm_bf16x2_scratch(*s));
  Context* c = run.ctx;
  gemm_bf16x2(*c, *s, a, b, Sink{bias, out, s->n, low});
}

EXPORT void run_conv_bf16x2(int threads, const ConvSizes* s, const float* x, const bfloat16* w,
                            const float* bias, float low, float* out) {
  Run run(threads, conv_bf16x2_scratch(*s));
  Context* c = run.ctx;
  conv_bf16x2(*c, *s, x, w, Sink{bias, out, s->out_channels, low});
}
