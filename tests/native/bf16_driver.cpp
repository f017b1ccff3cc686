// Calls the kernels of bfloat16 products as generated code does, for test_kernels_bf16.py.
#include "attention_bf16.hpp"
#include "attention_call.hpp"
#include "conv_bf16.hpp"
#include "conv_lines_bf16.hpp"
#include "driver.hpp"
#include "winograd_bf16.hpp"

EXPORT int is_native() {
#if INFUSE_LANES == 16 && defined(__AVX512BF16__)
  return 1;
#else
  return 0;
#endif
}
EXPORT int has_tiles() { return BF16_TILES; }
#if defined(INFUSE_BF16_TILES)
EXPORT void use_tile() { INFUSE_TILE_ZERO(0); }
#endif

EXPORT void run_gemm_bf16(int threads, const GemmSizes* s, const float* a, const bfloat16* b,
                          const float* bias, float low, float* out) {
  Run run(threads, gemm_bf16_scratch(*s));
  Context* c = run.ctx;
  gemm_bf16(*c, *s, a, b, Sink{bias, out, s->n, low});
}

EXPORT void run_gemm_of_rounded(int threads, const GemmSizes* s, const bfloat16* a,
                                const bfloat16* b, const float* bias, float low, float* out) {
  Run run(threads, gemm_bf16_scratch(*s));
  Context* c = run.ctx;
  gemm_bf16(*c, *s, a, b, Sink{bias, out, s->n, low});
}

// A is the rows of a, each number times that of its column in `gates`.
EXPORT void run_gemm_made_bf16(int threads, const GemmSizes* s, const float* a, const float* gates,
                               const bfloat16* b, const float* bias, float low, float* out) {
  Run run(threads, gemm_bf16_scratch(*s));
  Context* c = run.ctx;
  const auto value = [=](long row, long k, auto lanes) {
    return load(a + row * s->lda + k, lanes) * load(gates + k, lanes);
  };
  gemm_made_bf16(*c, *s, value, b, Sink{bias, out, s->n, low});
}

EXPORT void run_conv_bf16(int threads, const ConvSizes* s, const float* x, const bfloat16* w,
                          const float* bias, float low, float* out) {
  Run run(threads, conv_bf16_scratch(*s));
  Context* c = run.ctx;
  conv_bf16(*c, *s, x, w, Sink{bias, out, s->out_channels, low});
}

EXPORT void run_conv_lines_bf16(int threads, const ConvSizes* s, const float* x, const bfloat16* w,
                                const float* bias, float low, float* out) {
  Run run(threads, conv_lines_bf16_scratch(*s));
  Context* c = run.ctx;
  conv_lines_bf16(*c, *s, x, w, Sink{bias, out, s->out_channels, low});
}

template <class Down, class Across>
static void run_tiles(int threads, const ConvSizes* s, const float* x, const bfloat16* w,
                      const float* bias, float low, float* out) {
  Run run(threads, winograd_scratch<Down, Across, WinogradPairs>(*s));
  Context* c = run.ctx;
  winograd<Down, Across, WinogradPairs>(*c, *s, x, (const int32_t*)w,
                                        Sink{bias, out, s->out_channels, low});
}

EXPORT void run_winograd_bf16(int threads, const ConvSizes* s, const float* x, const bfloat16* w,
                              const float* bias, float low, float* out) {
  run_tiles<Line<2, 3>, Line<2, 3>>(threads, s, x, w, bias, low, out);
}

EXPORT void run_winograd_oblong_bf16(int threads, const ConvSizes* s, const float* x,
                                     const bfloat16* w, const float* bias, float low, float* out) {
  run_tiles<Line<2, 3>, Line<4, 3>>(threads, s, x, w, bias, low, out);
}

EXPORT void attend_bf16(int threads, const AttentionCall* a, float scale, const float* q,
                        const float* k, const float* v, const float* mask, float* y) {
  attend(threads, a, scale, q, k, v, mask, y,
         [](auto&&... arguments) { attention_bf16(arguments...); });
}
