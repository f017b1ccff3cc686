// Calls the matrix kernels as generated code does, for test_kernels_gemm.py.
#include "conv.hpp"
#include "driver.hpp"
#include "matmul.hpp"
#include "winograd.hpp"

// A context whose scratch ends at a page that nobody may touch.
struct Run {
  Context* ctx;
  char *scratch, *mapped;
  size_t size;

  Run(int threads, long bytes) : ctx(context_open(threads)) {
    ctx->reserve(bytes);
    const size_t page = size_t(sysconf(_SC_PAGESIZE)),
                 used = size_t(ctx->scratch_stride * ctx->threads);
    const size_t round = (used + page - 1) / page * page;
    size = round + page;
    mapped = (char*)mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(mapped + round, page, PROT_NONE);
    scratch = ctx->scratch_memory;
    ctx->scratch_memory = mapped + round - used;
  }
  ~Run() {
    ctx->scratch_memory = scratch;
    munmap(mapped, size);
    context_close(ctx);
  }
};

EXPORT void run_gemm(int threads, bool scratch, const GemmShape* s, const float* a, const float* b,
                     const float* bias, float low, float* out) {
  Run run(threads, scratch ? gemm_scratch(*s) : 0);
  gemm(*run.ctx, *s, a, b, Sink{bias, out, s->n, low});
}

EXPORT void run_matmul(int threads, const MatmulShape* s, const float* a, const float* b,
                       const float* bias, float low, float* out) {
  Run run(threads, matmul_scratch(*s));
  matmul(*run.ctx, *s, a, b, Sink{bias, out, s->n, low});
}

EXPORT void run_matmul_at(int threads, const MatmulShape* s, const float* a, const float* b,
                          const long* a_at, const long* b_at, const float* bias, float low,
                          float* out) {
  Run run(threads, matmul_scratch(*s));
  matmul(
      *run.ctx, *s, a, b, [=](long i) { return a_at[i]; }, [=](long i) { return b_at[i]; },
      Sink{bias, out, s->n, low});
}

EXPORT void run_conv(int threads, const ConvShape* s, const float* x, const float* w,
                     const float* bias, float low, float* out) {
  Run run(threads, conv_scratch(*s));
  conv(*run.ctx, *s, x, w, Sink{bias, out, s->oc, low});
}

template <int M>
static void run_winograd(int threads, const ConvShape* s, const float* x, const float* w,
                         const float* bias, float low, float* out) {
  Run run(threads, winograd_scratch<M>(*s));
  winograd<M>(*run.ctx, *s, x, w, Sink{bias, out, s->oc, low});
}

EXPORT void run_winograd2(int threads, const ConvShape* s, const float* x, const float* w,
                          const float* bias, float low, float* out) {
  run_winograd<2>(threads, s, x, w, bias, low, out);
}

EXPORT void run_winograd4(int threads, const ConvShape* s, const float* x, const float* w,
                          const float* bias, float low, float* out) {
  run_winograd<4>(threads, s, x, w, bias, low, out);
}
