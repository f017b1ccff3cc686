// Sizes of a convolution with filters of one channel each.
#pragma once
#include "isize.h"

namespace infuse {

/** Sizes of a depthwise convolution; `channels` are those of its input. */
struct DepthwiseSizes {
  isize batch, height, width, channels;
  isize out_height, out_width;
  isize kernel_height, kernel_width;
  isize stride_height, stride_width, dilation_height, dilation_width;
  isize pad_top, pad_left;
};

}  // namespace infuse
