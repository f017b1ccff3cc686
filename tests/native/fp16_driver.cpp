// Calls the kernels with weights of halves as generated code does, for test_precision_fp16.py.
#include "conv_fp16.hpp"
#include "driver.hpp"
#include "winograd_fp16.hpp"

EXPORT int converts() {
#if defined(__F16C__)
  return 1;
#else
  return 0;
#endif
}

EXPORT void widen_vectors(long n, const float16* from, float* to) {
  sweep(0, n, [&](long i, auto lanes) { store(to + i, load(from + i, lanes), lanes); });
}

EXPORT void widen_singles(long n, const float16* from, float* to) {
  for (long i = 0; i < n; ++i) to[i] = load(from + i, One{});
}

EXPORT void widen_panels(long n, const float16* from, float* to) { detail::widen_all(to, from, n); }

EXPORT void run_gemm_fp16(int threads, const GemmSizes* s, const float* a, const float16* b,
                          const float* bias, float low, float* out) {
  Context* c = context_open(threads);
  c->reserve(gemm_fp16_scratch(*s));
  gemm_fp16(*c, *s, a, b, Sink{bias, out, s->n, low});
  context_close(c);
}

EXPORT void run_conv_fp16(int threads, const ConvSizes* s, const float* x, const float16* w,
                          const float* bias, float low, float* out) {
  Context* c = context_open(threads);
  c->reserve(conv_fp16_scratch(*s));
  conv_fp16(*c, *s, x, w, Sink{bias, out, s->out_channels, low});
  context_close(c);
}

template <int M>
static void run_winograd(int threads, const ConvSizes* s, const float* x, const float16* w,
                         const float* bias, float low, float* out) {
  Context* c = context_open(threads);
  c->reserve(winograd_scratch<Line<M, 3>, Line<M, 3>, WinogradHalves>(*s));
  winograd<Line<M, 3>, Line<M, 3>, WinogradHalves>(*c, *s, x, w, Sink{bias, out, s->out_channels, low});
  context_close(c);
}

EXPORT void run_winograd2(int threads, const ConvSizes* s, const float* x, const float16* w,
                          const float* bias, float low, float* out) {
  run_winograd<2>(threads, s, x, w, bias, low, out);
}

EXPORT void run_winograd4(int threads, const ConvSizes* s, const float* x, const float16* w,
                          const float* bias, float low, float* out) {
  run_winograd<4>(threads, s, x, w, bias, low, out);
}
