// What does not depend on a sink of sparse.hpp: all models of a machine share one object with it, where `how` is
// nothing, and declare it, where `how` is extern.
#pragma once

#include "sparse.hpp"

#define INFUSE_SHARED_SPARSE_TILE(how, R)                                                         \
  how template void tile<FloatUnit, R>(const float*, const uint16_t*, const float*, isize, float*);
#if INFUSE_REGISTERS == 32
#define INFUSE_SHARED_SPARSE_TILES(how) INFUSE_SHARED_SPARSE_TILE(how, 16)
#else
#define INFUSE_SHARED_SPARSE_TILES(how)
#endif
#define INFUSE_SHARED_SPARSE(how)                                                                  \
  namespace infuse {                                                                               \
  namespace sparse_detail {                                                                        \
  INFUSE_SHARED_SPARSE_TILE(how, 1) INFUSE_SHARED_SPARSE_TILE(how, 2)                              \
  INFUSE_SHARED_SPARSE_TILE(how, 4) INFUSE_SHARED_SPARSE_TILE(how, 8)                              \
  INFUSE_SHARED_SPARSE_TILES(how)                                                                  \
  }                                                                                                \
  }
