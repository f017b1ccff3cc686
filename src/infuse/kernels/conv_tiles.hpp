// Convolutions whose windows tile registers read in place (tiles.hpp).
//
// Lines of an image are copied once as words, with their padding, one pixel behind another. Behind
// the pixel of one window lies that of the next one, for every tap: a register of 16 windows is one
// of 16 pixels, from an offset on that the tap gives. Between two lines of the result lie windows
// that nobody asks for, as many as windows reach past a line. Where windows step by S pixels, the
// pixels of S phases lie apart, each with those of every S-th line and column.
#pragma once
#include "gemm_tiles.hpp"

namespace infuse {

namespace detail {

// `out` windows of `kernel` taps over `in` pixels along one axis.
struct TapAxis {
  long in, out, kernel, stride, dilation, before;

  constexpr long phases() const { return min(stride, kernel); }
  constexpr long phase(long tap) const { return tap * dilation % stride; }
  constexpr long shift(long tap) const { return tap * dilation / stride; }
  // Pixels of a phase behind the first one that a window reads.
  constexpr long reach() const { return shift(kernel - 1); }
};

// An image as registers read it: pixels of `words` words, which are whole blocks.
struct PhasedImage {
  TapAxis down, across;
  long words;

  // Whether there are few windows that nobody asks for, and taps that share pixels or steps between.
  constexpr bool worth() const {
    const bool simple = (down.dilation == 1 || down.stride == 1) &&
                        (across.dilation == 1 || across.stride == 1);
    const bool point = down.kernel * across.kernel * down.stride * across.stride == 1;
    return simple && !point && words % TILE_SIDE == 0 && words > 0 && across.out * 4 >= line() * 3;
  }
  // Pixels of a line.
  constexpr long line() const { return across.out + across.reach(); }
  // Bytes of a pixel: lines of the cache that many pixels share would push each other out.
  constexpr long pixel() const { return words * 4 + (words * 4 % 512 == 0 ? CACHE_LINE : 0); }
  // Bytes of one phase for so many lines of the result. The last register may go past them.
  constexpr long phase(long lines) const {
    return ((lines + down.reach()) * line() + TILED_ROWS) * pixel();
  }
  constexpr long blocks() const { return down.kernel * across.kernel * words / TILE_SIDE; }
  constexpr long table() const { return round_up(blocks() * long(sizeof(long)), CACHE_LINE); }
  // Lines of the result whose pixels are held at a time: a part of the second level cache.
  constexpr long lines() const {
    const long each = down.phases() * across.phases() * line() * pixel();
    return max(min(INFUSE_BLOCK_BYTES / 4 / each - down.reach(), down.out), 1L);
  }
  constexpr long bytes() const {
    return table() + down.phases() * across.phases() * phase(lines());
  }

  // Where the blocks of all taps begin.
  void offsets(long* to) const {
    for (long ky = 0; ky < down.kernel; ++ky)
      for (long kx = 0; kx < across.kernel; ++kx) {
        const long phases = down.phase(ky) * across.phases() + across.phase(kx);
        const long shift = down.shift(ky) * line() + across.shift(kx);
        for (long word = 0; word < words; word += TILE_SIDE)
          *to++ = phases * phase(lines()) + shift * pixel() + word * 4;
      }
  }

  // Copies what windows of the lines [first, last) of the result read: pixel(to, y, x) copies one of
  // the image, blank(to) what stands for one outside.
  template <class Pixel, class Blank>
  void copy(char* to, long first, long last, const Pixel& pixel_at, const Blank& blank) const {
    for (long py = 0; py < down.phases(); ++py)
      for (long px = 0; px < across.phases(); ++px, to += phase(lines())) {
        char* at = to;
        for (long line_y = first; line_y < last + down.reach(); ++line_y) {
          const long y = line_y * down.stride + py - down.before;
          const bool inside = y >= 0 && y < down.in;
          long x = px - across.before;
          for (long i = 0; i < line(); ++i, x += across.stride, at += pixel())
            if (inside && x >= 0 && x < across.in)
              pixel_at(at, y, x);
            else
              blank(at);
        }
      }
  }
};

// Windows of all lines of one image times panels [p0, p1): lines [first, last) of the result. Sums of
// windows side by side go to drained(sums, rows, row, panel), where rows count the results of the
// image.
template <class Unit, class Pixel, class Blank, class Drain>
INFUSE_INLINE void phased_part(const PhasedImage& image, char* scratch, const int32_t* b,
                               long first, long last, long p0, long p1, long n,
                               const Pixel& pixel, const Blank& blank, const Drain& drained) {
  const long line = image.line(), out = image.across.out, step = image.lines();
  long* offsets = (long*)scratch;
  char* held = scratch + image.table();
  image.offsets(offsets);
  const auto rows = [&](long row, long end) {
    image.copy(held, row / line, ceil_div(end, line), pixel, blank);
    return OffsetRows{held, image.pixel(), offsets, TILE_SIDE * image.pixel()};
  };
  const auto wanted = [&](const int32_t* sums, long count, long row, long p) {
    for (long i = 0, run; i < count; i += run) {
      const long y = (row + i) / line, x = (row + i) % line;
      run = min(count - i, x < out ? out - x : line - x);
      if (x < out) drained(sums + i * TILED_ROWS, run, y * out + x, p);
    }
  };
  tiled_part<Unit>(image.blocks(), rows, b, first * line, last * line, p0, p1, n, step * line, wanted);
}

}  // namespace detail
}  // namespace infuse
