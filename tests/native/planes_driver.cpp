// Convolutions of planes, for test_conv_planes.py.
#include "conv_planes.hpp"
#include "driver_calls.hpp"

API void convolve_planes(Context* c, const long* s, const float* x, const float* w, float* y) {
  const ConvSizes sizes = {s[0], s[1],  s[2],  s[3],  s[4],  s[5],  s[6],  s[7], s[8],
                           s[9], s[10], s[11], s[12], s[13], s[14], s[15], s[3]};
  c->reserve(conv_planes_scratch(sizes));
  conv_planes(*c, sizes, x, w, Store{y, sizes.out_height * sizes.out_width});
}
