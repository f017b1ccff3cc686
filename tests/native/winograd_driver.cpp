// Calls the forms of Winograd's convolution as generated code does, for test_winograd.py.
#include "driver.hpp"
#include "winograd.hpp"

template <class Down, class Across>
static void call(int threads, const ConvSizes& s, const float* x, const float* w, const Sink& sink) {
  Run run(threads, winograd_scratch<Down, Across>(s));
  winograd<Down, Across>(*run.ctx, s, x, w, sink);
}

// False where there is no such form.
EXPORT bool run_winograd(int tile, int threads, const ConvSizes* s, const float* x, const float* w,
                         const float* bias, float low, float* out) {
  const Sink sink = {bias, out, s->out_channels, low};
#define FORM(M, KH, KW, SH, SW)                                                                    \
  if (tile == M && s->kernel_height == KH && s->kernel_width == KW &&                               \
      s->stride_height == SH && s->stride_width == SW) {                                             \
    call<Line<KH == 1 ? 1 : M, KH, SH>, Line<KW == 1 ? 1 : M, KW, SW>>(threads, *s, x, w, sink);   \
    return true;                                                                                   \
  }
  FORM(2, 3, 3, 1, 1) FORM(4, 3, 3, 1, 1) FORM(2, 5, 5, 1, 1) FORM(2, 3, 3, 2, 2)
  FORM(4, 3, 3, 2, 2) FORM(4, 1, 7, 1, 1) FORM(4, 7, 1, 1, 1) FORM(2, 1, 7, 1, 1)
  FORM(4, 1, 3, 1, 1) FORM(4, 3, 1, 1, 1) FORM(4, 1, 5, 1, 1) FORM(2, 3, 5, 1, 1)
  FORM(4, 1, 3, 2, 2) FORM(4, 3, 1, 2, 1) FORM(4, 3, 3, 1, 2)
  FORM(3, 2, 2, 1, 1) FORM(5, 2, 2, 1, 1) FORM(5, 1, 2, 1, 1)
#undef FORM
  return false;
}
