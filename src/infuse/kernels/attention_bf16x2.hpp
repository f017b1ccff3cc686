// Attention (attention.hpp) whose two products split their operands into two bfloat16 each
// (gemm_bf16x2.hpp); the softmax stays in float32.
#pragma once
#include "attention_tiles.hpp"

namespace infuse {

/** attention(), of split operands. Few queries stay in float32, as those of attention_bf16. */
template <class Mask, class Sink>
inline void attention_bf16x2(Context& context, const AttentionShape& shape, const HeadRows& q,
                             const HeadRows& k, const HeadRows& v, const Mask& mask,
                             const Sink& sink) {
  static_assert(detail::has_tiles<Sink>, "numbers are split for tile registers");
  if (shape.queries <= shape.few)
    attention(context, shape, q, k, v, mask, sink);
  else
    attention<attention_detail::SplitInTiles>(context, shape, q, k, v, mask, sink);
}

}  // namespace infuse
