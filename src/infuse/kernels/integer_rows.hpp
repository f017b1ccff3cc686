// Rows of 8-bit integers as they are multiplied (integer_layouts.hpp): copied, or gathered from
// windows.
#pragma once
#include "integer_layouts.hpp"
#include "windows.hpp"

namespace infuse {

namespace integer_detail {

template <class Layout>
inline isize lanes_of(isize k) {
  return (k + Layout::GROUP - 1) / Layout::GROUP;
}

/** Bytes from one gathered row to the next. */
template <class Layout>
inline isize pitch(isize k) {
  const isize bytes = round_up(lanes_of<Layout>(k) * 4, 64);
  return bytes % 1024 == 0 ? bytes + 64 : bytes;
}

/** Elements as they are multiplied; `zero` is their zero point. */
template <class Layout, class T>
INFUSE_INLINE void left_row(typename Layout::Left* to, const T* from, isize n, int zero) {
  for (isize i = 0; i < n; ++i) to[i] = Layout::left(from[i], zero);
}

constexpr int SLACK = 64;  // bytes after gathered rows that may be written
typedef uint8_t any_bytes __attribute__((vector_size(SLACK), aligned(1), may_alias));

/**
 * The same for the elements before `end`; what follows `to` in its line of SLACK bytes may change.
 * Bytes have their next line `step` behind one.
 */
template <class Layout, class T>
INFUSE_INLINE void left_line(typename Layout::Left* to, const T* from, isize n, int zero,
                             const T* end, isize step = SLACK) {
  if constexpr (Layout::GROUP == 4) {
    for (; n > 0 && end - from >= SLACK; n -= SLACK, from += SLACK, to += step)
      *(any_bytes*)to = *(const any_bytes*)from ^ uint8_t(FLIP<T>);
  }
  if (n > 0) left_row<Layout>(to, from, n, zero);
}

/**
 * Elements of a line of the window in a gathered row: tile registers take whole blocks, where a line
 * is a run and a pixel none of them (conv_tiles.hpp).
 */
template <class Layout>
inline isize filled_line(const Windows& shape, isize depth) {
  const WindowAxis& across = shape.axis[shape.rank - 1];
  const isize size = across.kernel * depth, block = TILE_SIDE * Layout::GROUP;
  const bool fills = Layout::TILED && shape.rank <= 2 && depth == shape.c && across.dilation == 1 &&
                     depth % block != 0;
  return fills ? round_up(size, block) : size;
}

/** Where windows over lines or planes take what they multiply from: `depth` channels of each pixel. */
template <class Layout, class T>
struct Gather {
  typedef typename Layout::Left Left;
  const Windows& shape;
  const T *x, *end;
  isize depth;
  int zero;
  isize filled;  // elements of a line of the window

  INFUSE_INLINE Left* blank(Left* to, isize n) const {
    const Left nothing = Layout::template nothing<T>(zero);
    for (isize i = 0; i < n; ++i) to[i] = nothing;
    return to + n;
  }

  /** Taps of one line of the window, at `line`, from column `left` on. */
  INFUSE_INLINE Left* line(Left* to, const T* line, isize left, const WindowAxis& a) const {
    if (a.dilation == 1 && depth == shape.c) {
      const isize skip = left < 0 ? min(-left, a.kernel) : 0;
      const isize last = max(min(a.kernel, a.in - left), skip);
      to = blank(to, skip * depth);
      left_line<Layout>(to, line + (left + skip) * shape.c, (last - skip) * depth, zero, end);
      return blank(to + (last - skip) * depth, (a.kernel - last) * depth);
    }
    for (isize kx = 0; kx < a.kernel; ++kx, left += a.dilation) {
      if (left < 0 || left >= a.in)
        blank(to, depth);
      else
        left_line<Layout>(to, line + left * shape.c, depth, zero, end);
      to += depth;
    }
    return to;
  }

  /** `rows` windows from number `first` on, `stride` bytes apart. */
  void rows(isize first, isize rows, char* to, isize stride) const {
    const WindowAxis& across = shape.axis[shape.rank - 1];
    const WindowAxis down = shape.rank == 2 ? shape.axis[0] : WindowAxis{1, 1, 1, 1, 1, 0, 0};
    const isize more = filled - across.kernel * depth;
    isize ox = first % across.out, oy = first / across.out % down.out, n = first / (across.out * down.out);
    for (isize r = 0; r < rows; ++r, to += stride) {
      Left* at = (Left*)to;
      const T* image = x + n * down.in * across.in * shape.c;
      const isize left = ox * across.stride - across.before, top = oy * down.stride - down.before;
      if (is_inside(left, across) && is_inside(top, down)) {
        const isize width = across.kernel * depth, step = down.dilation * across.in * shape.c;
        const T* from = image + (top * across.in + left) * shape.c;
        for (isize ky = 0; ky < down.kernel; ++ky, at += filled, from += step) {
          left_line<Layout>(at, from, width, zero, end);
          blank(at + width, more);
        }
        advance(ox, oy, n, across, down);
        continue;
      }
      for (isize ky = 0; ky < down.kernel; ++ky) {
        const isize y = top + ky * down.dilation;
        if (y < 0 || y >= down.in)
          at = blank(at, across.kernel * depth);
        else
          at = line(at, image + y * across.in * shape.c, left, across);
        at = blank(at, more);
      }
      advance(ox, oy, n, across, down);
    }
  }

  /** The same of windows over any number of axes. */
  void windows(isize first, isize count, char* to, isize stride) const {
    using namespace window_detail;
    if (shape.rank <= 2) return rows(first, count, to, stride);
    const isize all = outputs(shape), pixels = inputs(shape), each = taps(shape), k = each * depth;
    for (isize row = first; row < first + count; ++row, to += stride) {
      Left* line = (Left*)to;
      const Place p = place(shape, row % all);
      const T* image = x + row / all * pixels * shape.c;
      const isize begin = p.inside < each ? 0 : k;
      blank(line + begin, lanes_of<Layout>(k) * Layout::GROUP - begin);
      each_tap(shape, p, [&](isize tap, isize pixel, isize) {
        left_row<Layout>(line + tap * depth, image + pixel * shape.c, depth, zero);
      });
    }
  }

  /** Whether a window that starts there lies inside along one axis, its taps side by side where those are copied. */
  INFUSE_INLINE bool is_inside(isize start, const WindowAxis& a) const {
    const bool whole = &a != &shape.axis[shape.rank - 1] || (a.dilation == 1 && depth == shape.c);
    return whole && start >= 0 && start + (a.kernel - 1) * a.dilation < a.in;
  }

  static INFUSE_INLINE void advance(isize& ox, isize& oy, isize& n, const WindowAxis& across, const WindowAxis& down) {
    if (++ox < across.out) return;
    ox = 0;
    if (++oy == down.out) oy = 0, ++n;
  }
};

}  // namespace integer_detail

}  // namespace infuse
