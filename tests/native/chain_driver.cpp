// Calls chain.hpp and gemm_made.hpp as generated code does, for test_chains.py.
#include "chain.hpp"
#include "gemm_made.hpp"
#include "store_once.hpp"

using namespace infuse;

#define EXPORT extern "C" __attribute__((visibility("default")))

// max(acc + bias, low)
struct Stage {
  const float* bias;
  float low;

  template <class L>
  INFUSE_INLINE vf operator()(vf acc, long col, L lanes) const {
    return max(acc + load(bias + col, lanes), splat(low));
  }
};

struct Sink {
  Stage stage;
  float* out;
  long n;

  template <class L>
  INFUSE_INLINE void operator()(vf acc, long row, long col, L lanes) const {
    store_once(out + row * n + col, stage(acc, col, lanes), lanes);
  }
};

// A context whose scratch is full of NaN.
struct Run {
  Context* ctx;

  Run(int threads, long bytes) : ctx(context_open(threads)) {
    ctx->reserve(bytes);
    memset(ctx->scratch_memory, 0xff, size_t(ctx->scratch_stride * ctx->threads));
  }
  ~Run() { context_close(ctx); }
};

struct Call {
  const ChainSizes* shape;
  const float *x, *expanding, *weights, *projecting;
  const float *first, *second, *third;
  float low;
  float* out;
};

enum { EXPANDS = 1, PROJECTS = 2, BOTH = 3 };

template <int KW, int STRIDE, int PARTS>
static void run(Context& ctx, const Call& c) {
  const ChainSizes& s = *c.shape;
  const Stage first = {c.first, c.low}, second = {c.second, c.low}, third = {c.third, c.low};
  const Sink narrow = {third, c.out, s.out_channels}, wide = {second, c.out, s.mid.channels};
  if constexpr (PARTS == BOTH)
    chain<KW, STRIDE>(ctx, s, c.x, c.expanding, c.weights, c.projecting, first, second, narrow);
  if constexpr (PARTS == EXPANDS)
    chain<KW, STRIDE>(ctx, s, c.x, c.expanding, c.weights, nullptr, first, NoStage{}, wide);
  if constexpr (PARTS == PROJECTS)
    chain<KW, STRIDE>(ctx, s, c.x, nullptr, c.weights, c.projecting, NoStage{}, second, narrow);
}

// 1 where there is no such kernel here.
EXPORT int run_chain(int threads, const Call* call) {
  Run context(threads, chain_scratch(*call->shape));
  const ChainSizes& s = *call->shape;
  const int parts = (s.in_channels ? EXPANDS : 0) | (s.out_channels ? PROJECTS : 0);
  Context& ctx = *context.ctx;
  if (s.mid.kernel_width == 3 && s.mid.stride_width == 1) {
    if (parts == EXPANDS) return run<3, 1, EXPANDS>(ctx, *call), 0;
    if (parts == PROJECTS) return run<3, 1, PROJECTS>(ctx, *call), 0;
    return run<3, 1, BOTH>(ctx, *call), 0;
  }
  if (s.mid.kernel_width == 3 && parts == BOTH) return run<3, 2, BOTH>(ctx, *call), 0;
  if (s.mid.kernel_width == 5 && parts == BOTH) return run<5, 2, BOTH>(ctx, *call), 0;
  return 1;
}

EXPORT long band_lines(const ChainSizes* shape) { return detail::chain_plan(*shape).band; }

// A is the rows of a, each number scaled by that of its image and channel, the rest as in gemm.
EXPORT void run_made(int threads, const GemmSizes* s, long pixels, const float* a,
                     const float* gates, const float* b, const float* bias, float low, float* out) {
  Run context(threads, gemm_made_scratch(*s));
  const long k = s->k;
  auto value = [=](long row, long col, auto lanes) {
    return load(a + row * k + col, lanes) * load(gates + row / pixels * k + col, lanes);
  };
  gemm_made(*context.ctx, *s, value, b, Sink{{bias, low}, out, s->n});
}

EXPORT int lanes() { return LANES; }
