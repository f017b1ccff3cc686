// Products of two computed operands, rounded to bfloat16 and summed up in float32.
#pragma once

#include "matmul_tiles.hpp"

namespace infuse {

// Bytes of scratch that a worker needs for matmul_bf16.
constexpr isize matmul_bf16_scratch(const MatmulSizes& s) {
  return detail::tiled_matmul_scratch<TiledPairs>(s);
}

// As matmul, with all of its arguments.
template <class... Arguments>
void matmul_bf16(Context& ctx, const MatmulSizes& s, const float* a, const float* b,
                 const Arguments&... rest) {
  detail::tiled_matmul<TiledPairs>(ctx, s, a, b, rest...);
}

}  // namespace infuse
