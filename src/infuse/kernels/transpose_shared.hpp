// What no model changes of transpose.hpp: all models of a machine share one object with it, where `how` is nothing,
// and declare it, where `how` is extern.
#pragma once

#include "transpose.hpp"

#define INFUSE_SHARED_TRANSPOSE(how)                                                             \
  namespace infuse {                                                                             \
  namespace copying {                                                                            \
  how template void turn_block<uint32_t>(uint32_t*, isize, const uint32_t*, isize, isize, isize);    \
  }                                                                                              \
  }
