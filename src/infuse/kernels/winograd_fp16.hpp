// Winograd convolution (winograd.hpp) whose weights are rounded to halves after their transform.
#pragma once

#include "half.hpp"
#include "winograd.hpp"

namespace infuse {

typedef WinogradOf<float16> WinogradHalves;

}  // namespace infuse
