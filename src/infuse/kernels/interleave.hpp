// Images of few channels, of which planes lie one after another, become such whose channels are neighbours.
#pragma once
#include "threads.hpp"
#include "transpose.hpp"

namespace infuse {

/** to[image][pixel][N] = from[image][N][pixel], numbers of 4 bytes. The two do not overlap. */
template <int N>
inline void interleave_planes(Context& context, isize images, isize pixels, const uint32_t* from,
                              uint32_t* to) {
  constexpr isize PIECE = 4096;
  const isize pieces = (pixels + PIECE - 1) / PIECE;
  context.parallel(
      images * pieces,
      [=](isize begin, isize end, int) {
        for (isize unit = begin; unit < end; ++unit) {
          const isize first = unit % pieces * PIECE, image = unit / pieces * pixels * N;
          const isize count = pixels - first < PIECE ? pixels - first : PIECE;
          copying::interleave<N>(to + image + first * N, from + image + first, pixels, count);
        }
      },
      1);
}

}  // namespace infuse
