// Sizes of a convolution with filters of one channel each.
#pragma once

namespace infuse {

/** Sizes of a depthwise convolution; `channels` are those of its input. */
struct DepthwiseSizes {
  long batch, height, width, channels;
  long out_height, out_width;
  long kernel_height, kernel_width;
  long stride_height, stride_width, dilation_height, dilation_width;
  long pad_top, pad_left;
};

}  // namespace infuse
