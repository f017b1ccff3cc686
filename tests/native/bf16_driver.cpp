// Calls the kernels of bfloat16 products as generated code does, for test_kernels_bf16.py.
#include "attention_bf16.hpp"
#include "conv_bf16.hpp"
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

EXPORT void run_winograd_bf16(int threads, const ConvSizes* s, const float* x, const bfloat16* w,
                              const float* bias, float low, float* out) {
  Run run(threads, winograd_scratch<Line<2, 3>, Line<2, 3>, WinogradPairs>(*s));
  Context* c = run.ctx;
  winograd<Line<2, 3>, Line<2, 3>, WinogradPairs>(*c, *s, x, (const int32_t*)w, Sink{bias, out, s->out_channels, low});
}

struct Store {
  float* out;
  long n;

  template <class L>
  INFUSE_INLINE void operator()(vf acc, long row, long col, L lanes) const {
    store(out + row * n + col, acc, lanes);
  }
};

struct AttentionCall {
  long batch, heads, kv_heads, queries, keys, dim, value_dim, causal, offset, merge;
  long q[3], k[3], v[3], mask[4];
};

EXPORT void attend_bf16(int threads, const AttentionCall* a, float scale, const float* q,
                        const float* k, const float* v, const float* mask, float* y) {
  AttentionSizes sizes = {a->batch, a->heads, a->kv_heads,  a->queries,
                          a->keys,  a->dim,   a->value_dim, a->offset};
  AttentionShape s = {sizes, scale, a->causal != 0, a->merge != 0};
  Run run(threads, attention_scratch(s));
  Context* c = run.ctx;
  HeadRows qs = {q, a->q[0], a->q[1], a->q[2]}, ks = {k, a->k[0], a->k[1], a->k[2]};
  HeadRows vs = {v, a->v[0], a->v[1], a->v[2]};
  Store out = {y, s.merge_heads ? s.heads * s.value_dim : s.value_dim};
  const long* m = a->mask;
  if (mask)
    attention_bf16(*c, s, qs, ks, vs, AddMask{mask, m[0], m[1], m[2], m[3]}, out);
  else
    attention_bf16(*c, s, qs, ks, vs, NoMask{}, out);
}
