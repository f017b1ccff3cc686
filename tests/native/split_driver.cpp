// Calls the kernels of products of split numbers as generated code does, for test_kernels_split.py.
#include "attention_bf16x2.hpp"
#include "attention_call.hpp"
#include "conv_bf16x2.hpp"
#include "driver.hpp"

EXPORT void run_gemm_bf16x2(int threads, const GemmSizes* s, const float* a, const bfloat16* b,
                            const float* bias, float low, float* out) {
  Run run(threads, gemm_bf16x2_scratch(*s));
  Context* c = run.ctx;
  gemm_bf16x2(*c, *s, a, b, Sink{bias, out, s->n, low});
}

// A is the rows of a, each number times that of its column in `gates`.
EXPORT void run_gemm_made_bf16x2(int threads, const GemmSizes* s, const float* a,
                                 const float* gates, const bfloat16* b, const float* bias,
                                 float low, float* out) {
  Run run(threads, gemm_bf16x2_scratch(*s));
  Context* c = run.ctx;
  const auto value = [=](long row, long k, auto lanes) {
    return load(a + row * s->lda + k, lanes) * load(gates + k, lanes);
  };
  gemm_made_bf16x2(*c, *s, value, b, Sink{bias, out, s->n, low});
}

EXPORT void run_conv_bf16x2(int threads, const ConvSizes* s, const float* x, const bfloat16* w,
                            const float* bias, float low, float* out) {
  Run run(threads, conv_bf16x2_scratch(*s));
  Context* c = run.ctx;
  conv_bf16x2(*c, *s, x, w, Sink{bias, out, s->out_channels, low});
}

EXPORT void attend_bf16x2(int threads, const AttentionCall* a, float scale, const float* q,
                          const float* k, const float* v, const float* mask, float* y) {
  attend(threads, a, scale, q, k, v, mask, y,
         [](auto&&... arguments) { attention_bf16x2(arguments...); });
}
