// What does not depend on a sink of gemm.hpp: all models of a machine share one object with it, where `how` is
// nothing, and declare it, where `how` is extern.
#pragma once

#include "gemm.hpp"

#define INFUSE_SHARED_TILE(how, R)                                                               \
  how template void tile<R, 1>(const float* const*, isize, isize, isize, const float*, float*);     \
  how template void tile<R, 2>(const float* const*, isize, isize, isize, const float*, float*);
#if INFUSE_TILE_ROWS == 12
#define INFUSE_SHARED_TILES(how)                                                      \
  INFUSE_SHARED_TILE(how, 5) INFUSE_SHARED_TILE(how, 6) INFUSE_SHARED_TILE(how, 7)    \
  INFUSE_SHARED_TILE(how, 8) INFUSE_SHARED_TILE(how, 9) INFUSE_SHARED_TILE(how, 10)   \
  INFUSE_SHARED_TILE(how, 11) INFUSE_SHARED_TILE(how, 12)
#elif INFUSE_TILE_ROWS == 8
#define INFUSE_SHARED_TILES(how)                                                      \
  INFUSE_SHARED_TILE(how, 5) INFUSE_SHARED_TILE(how, 6) INFUSE_SHARED_TILE(how, 7)    \
  INFUSE_SHARED_TILE(how, 8)
#elif INFUSE_TILE_ROWS == 6
#define INFUSE_SHARED_TILES(how) INFUSE_SHARED_TILE(how, 5) INFUSE_SHARED_TILE(how, 6)
#else
#define INFUSE_SHARED_TILES(how)
#endif
#if INFUSE_LANES == 16
#define INFUSE_SHARED_HALVES(how)                                                     \
  how template void narrow_tile<1>(const float*, isize, isize, const float*, float*);   \
  how template void narrow_tile<2>(const float*, isize, isize, const float*, float*);   \
  how template void narrow_tile<3>(const float*, isize, isize, const float*, float*);
#else
#define INFUSE_SHARED_HALVES(how)
#endif
#define INFUSE_SHARED_BLOCK(how, R, V)                                                           \
  how template void block_tile<R, V>(const float* const*, isize, isize, isize, isize, const float*,  \
                                     isize, const float*, float*, isize, LinesAhead);
#if INFUSE_BLOCK_PANELS == 2
#define INFUSE_SHARED_BLOCK_ROW(how, R)                                                 \
  INFUSE_SHARED_BLOCK(how, R, 1) INFUSE_SHARED_BLOCK(how, R, 2)                         \
  INFUSE_SHARED_BLOCK(how, R, 3) INFUSE_SHARED_BLOCK(how, R, 4)
#else
#define INFUSE_SHARED_BLOCK_ROW(how, R) \
  INFUSE_SHARED_BLOCK(how, R, 1) INFUSE_SHARED_BLOCK(how, R, 2)
#endif
#if INFUSE_TILE_ROWS == 4
#define INFUSE_SHARED_BLOCKS(how)
#elif INFUSE_TILE_ROWS == 6 || INFUSE_BLOCK_PANELS == 2
#define INFUSE_SHARED_BLOCKS(how) INFUSE_SHARED_BLOCK_ROW(how, 5) INFUSE_SHARED_BLOCK_ROW(how, 6)
#else
#define INFUSE_SHARED_BLOCKS(how)                                                       \
  INFUSE_SHARED_BLOCK_ROW(how, 5) INFUSE_SHARED_BLOCK_ROW(how, 6)                       \
  INFUSE_SHARED_BLOCK_ROW(how, 7) INFUSE_SHARED_BLOCK_ROW(how, 8)                       \
  INFUSE_SHARED_BLOCK_ROW(how, 9) INFUSE_SHARED_BLOCK_ROW(how, 10)                      \
  INFUSE_SHARED_BLOCK_ROW(how, 11) INFUSE_SHARED_BLOCK_ROW(how, 12)
#endif
#define INFUSE_SHARED_GEMM(how)                                                                  \
  namespace infuse {                                                                             \
  namespace detail {                                                                             \
  INFUSE_SHARED_TILE(how, 1) INFUSE_SHARED_TILE(how, 2) INFUSE_SHARED_TILE(how, 3)               \
  INFUSE_SHARED_TILE(how, 4) INFUSE_SHARED_TILES(how) INFUSE_SHARED_HALVES(how)                  \
  how template void edge_tile(const float*, isize, isize, const float*, isize, isize, float*);       \
  how template void full_tile(const float*, isize, isize, const float*, isize, isize,                \
                              const StoreTile&, const AskBehind&);                               \
  how template void full_tile(const float*, isize, isize, const float*, isize, isize,                \
                              const StoreTile&, const Forget&);                                  \
  }                                                                                              \
  }
#define INFUSE_SHARED_GEMM_BLOCKS(how)                                                           \
  namespace infuse {                                                                             \
  namespace detail {                                                                             \
  INFUSE_SHARED_BLOCK_ROW(how, 1) INFUSE_SHARED_BLOCK_ROW(how, 2)                                \
  INFUSE_SHARED_BLOCK_ROW(how, 3) INFUSE_SHARED_BLOCK_ROW(how, 4) INFUSE_SHARED_BLOCKS(how)      \
  }                                                                                              \
  }
