// Calls the kernels of matrices in blocks as generated code does, for test_kernels_sparse.py.
#include "driver.hpp"
#include "sparse.hpp"

EXPORT void run_sparse_gemm(int threads, const SparseSizes* s, const float* a,
                            const int32_t* starts, const uint16_t* places, const float* blocks,
                            const float* bias, float low, float* out) {
  Run run(threads, sparse_gemm_scratch(*s));
  sparse_gemm(*run.ctx, *s, a, starts, places, blocks, Sink{bias, out, s->n, low});
}
