// Convolution of channels-last images in operands that are split into two bfloat16 each
// (gemm_bf16x2.hpp), by windows that tile registers read in place (conv_tiles.hpp).
//
// A pixel is the channels of a group, a multiple of 32, in blocks of low and high halves.
#pragma once

#include "conv_bf16.hpp"
#include "gemm_bf16x2.hpp"

namespace infuse {
namespace detail {

constexpr PhasedImage split_image(const ConvSizes& s) {
  PhasedImage image = phased_pairs(s);
  image.bytes *= 2;
  image.tight = false;
  return image;
}

}  // namespace detail

// Bytes of scratch that a worker needs for conv_bf16x2.
constexpr isize conv_bf16x2_scratch(const ConvSizes& s) { return detail::split_image(s).scratch(); }

// As conv() of conv.hpp, with the filters of each group packed as for gemm_bf16x2, in the order of
// k: line and column of the window, channel of the group.
template <class Sink>
void conv_bf16x2(Context& ctx, ConvSizes s, const float* x, const bfloat16* packed_w,
                 const Sink& sink) {
  static_assert(detail::has_tiles<Sink>, "numbers are split for tile registers");
  if (s.batch <= 0 || s.out_height <= 0 || s.out_width <= 0 || s.out_channels <= 0) return;
  detail::conv_phases<SplitPairs>(
      ctx, s, detail::split_image(s), x, packed_w,
      [&](int32_t* to, const float* from, isize count) { detail::split_row(to, from, count); },
      sink);
}

}  // namespace infuse
