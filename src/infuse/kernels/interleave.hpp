// Images of few channels, of which planes lie one after another, become such whose channels are neighbours.
#pragma once
#include "threads.hpp"
#include "transpose.hpp"

namespace infuse {

/** to[image][pixel][N] = from[image][N][pixel], numbers of 4 bytes. The two do not overlap. */
template <int N>
inline void interleave_planes(Context& context, long images, long pixels, const uint32_t* from,
                              uint32_t* to) {
  constexpr long PIECE = 4096;
  const long pieces = (pixels + PIECE - 1) / PIECE;
  context.parallel(
      images * pieces,
      [=](long begin, long end, int) {
        for (long unit = begin; unit < end; ++unit) {
          const long first = unit % pieces * PIECE, image = unit / pieces * pixels * N;
          const long count = pixels - first < PIECE ? pixels - first : PIECE;
          copying::interleave<N>(to + image + first * N, from + image + first, pixels, count);
        }
      },
      1);
}

}  // namespace infuse
