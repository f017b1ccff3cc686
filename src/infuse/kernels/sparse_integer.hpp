// Products of 8-bit integers with a constant matrix whose zero blocks are left out (sparse.hpp):
// sinks receive sums without zero points, as those of integer.hpp do.
#pragma once

#include "integer.hpp"
#include "sparse.hpp"

namespace infuse {

namespace sparse_detail {

template <class Layout>
struct IntegerUnit {
  typedef int32_t Word;
  static INFUSE_INLINE vi add(vi sum, vi a, vi b) { return Layout::add(sum, a, b); }
};

// Bytes of the rows of a tile before they are turned.
template <class Layout>
inline isize line_bytes(isize k) {
  return ROWS * integer_detail::pitch<Layout>(k) + integer_detail::SLACK;
}

// m rows times a matrix; line(row, count, to) copies rows as words, `pitch` bytes apart, and says
// where they lie.
template <class Layout, class T, class Lines, class Sink>
inline void integer_product(Context& c, isize m, isize n, isize k, isize filled,
                            FilledBlocks<int32_t> w, integer_detail::Zeros<T> zeros,
                            const int32_t* sums, const Lines& lines, const Sink& sink) {
  const isize words = integer_detail::lanes_of<Layout>(k);
  const auto turn = [&](isize row, isize count, int32_t* to, char* spare) {
    const integer_detail::LaneRows rows = lines(row, count, spare);
    turn_rows(to, (const int32_t*)rows.start, rows.stride / 4, words, count);
    return true;
  };
  const auto finish = [&](int32_t* out, isize count, isize row, isize p, const int32_t*) {
    integer_detail::drain<Layout>(out, count, row, p * NR, n, zeros, sums, 0, sink);
  };
  product<IntegerUnit<Layout>>(c, m, n, words, filled, w, turn, finish);
}

}  // namespace sparse_detail

// Bytes of scratch that a worker needs for products of rows of k integers.
template <class Layout>
inline isize sparse_integer_scratch(isize k) {
  using namespace sparse_detail;
  const isize words = integer_detail::lanes_of<Layout>(k);
  return turned_bytes(chunk_rows(words), words) + line_bytes<Layout>(k);
}

// (a − zero[row · step]) · b to the sink [m, n]: rows of k integers of a are `row` apart; b has
// `filled` blocks.
template <class Layout, class T, class Sink>
inline void sparse_integer_matmul(Context& c, isize m, isize n, isize k, isize row, isize filled,
                                  const T* a, const T* zero, isize step, const int32_t* starts,
                                  const uint16_t* places, const typename Layout::Right* blocks,
                                  const int32_t* sums, const Sink& sink) {
  using namespace integer_detail;
  const Zeros<T> zeros = {zero, step};
  const bool in_place = Layout::GROUP == 4 && FLIP<T> == 0 && k % 4 == 0 && row % 4 == 0 &&
                        (uintptr_t)a % 4 == 0;
  const auto lines = [&](isize first, isize rows, char* scratch) {
    if (in_place) return LaneRows{(const char*)(a + first * row), row};
    left_lines<Layout>(scratch, pitch<Layout>(k), a, row, first, rows, m, k, zeros);
    return LaneRows{scratch, pitch<Layout>(k)};
  };
  sparse_detail::integer_product<Layout>(c, m, n, k, filled,
                                         {starts, places, (const int32_t*)blocks}, zeros, sums,
                                         lines, sink);
}

// Convolution of x − zero [n, in .., c] to the sink [n, out .., filters], in one group; the filters
// are a matrix [taps · c, filters]. Padding counts as the zero point.
template <class Layout, class T, class Sink>
inline void sparse_integer_conv(Context& c, const Windows& shape, isize filters, isize filled,
                                const T* x, const T* zero, const int32_t* starts,
                                const uint16_t* places, const typename Layout::Right* blocks,
                                const int32_t* sums, const Sink& sink) {
  using namespace integer_detail;
  const isize k = window_detail::taps(shape) * shape.c;
  const Zeros<T> zeros = {zero, 0};
  const T* end = x + shape.n * window_detail::inputs(shape) * shape.c;
  const isize line = shape.axis[shape.rank - 1].kernel * shape.c;
  const Gather<Layout, T> images = {shape, x, end, shape.c, zeros.of(0), line};
  const auto lines = [&](isize first, isize rows, char* scratch) {
    images.windows(first, rows, scratch, pitch<Layout>(k));
    return LaneRows{scratch, pitch<Layout>(k)};
  };
  const isize rows = shape.n * window_detail::outputs(shape);
  sparse_detail::integer_product<Layout>(c, rows, filters, k, filled,
                                         {starts, places, (const int32_t*)blocks}, zeros, sums,
                                         lines, sink);
}

}  // namespace infuse
