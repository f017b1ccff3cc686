// Products of two computed operands, split into two bfloat16 each: as exact as gemm_bf16x2.
#pragma once

#include "matmul_tiles.hpp"

namespace infuse {

// Bytes of scratch that a worker needs for matmul_bf16x2.
constexpr isize matmul_bf16x2_scratch(const MatmulSizes& s) {
  return detail::tiled_matmul_scratch<SplitPairs>(s);
}

// As matmul, with all of its arguments.
template <class... Arguments>
void matmul_bf16x2(Context& ctx, const MatmulSizes& s, const float* a, const float* b,
                 const Arguments&... rest) {
  detail::tiled_matmul<SplitPairs>(ctx, s, a, b, rest...);
}

}  // namespace infuse
