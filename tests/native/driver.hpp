// What the drivers of matrix kernels share.
#pragma once

#include "store_once.hpp"
#include "threads.hpp"

using namespace infuse;

#define EXPORT extern "C" __attribute__((visibility("default")))

// out = max(acc + bias, low)
struct Sink {
  const float* bias;
  float* out;
  long n;
  float low;

  template <class L>
  INFUSE_INLINE void operator()(vf acc, long row, long col, L lanes) const {
    store_once(out + row * n + col, max(acc + load(bias + col, lanes), splat(low)), lanes);
  }
};

// out = acc, of integers
struct Whole {
  int32_t* out;
  long n;

  template <class L>
  INFUSE_INLINE void operator()(vi acc, long row, long col, L lanes) const {
    store(out + row * n + col, acc, lanes);
  }
};

// A context whose scratch ends at a page that nobody may touch, and holds what is no number.
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
    memset(mapped, 255, round);
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

EXPORT int lanes() { return LANES; }
