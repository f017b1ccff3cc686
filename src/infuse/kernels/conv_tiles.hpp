// Convolutions whose windows tile registers read in place (tiles.hpp).
//
// Lines of an image are copied once as they are multiplied, with their padding. Behind what one
// window reads lies what the next one reads: a register of 16 windows is one of 16 pixels, from an
// offset on that the tap gives. Between two lines of the result lie windows that nobody asks for, as
// many as windows reach past a line.
//
//   apart   a pixel is whole blocks: those of a tap follow its offset. Where windows step by S
//           pixels, pixels lie in S phases, each with those of every S-th column
//   tight   pixels lie side by side: a line of the window is one run, which ends with a part of a
//           block whose weights are zeros
//
// Lines lie in phases both ways, as windows step down.
#pragma once
#include "gemm_tiles.hpp"

namespace infuse {

namespace detail {

// `out` windows of `kernel` taps over `in` pixels along one axis.
struct TapAxis {
  isize in, out, kernel, stride, dilation, before;

  constexpr isize phases() const { return min(stride, kernel); }
  constexpr isize phase(isize tap) const { return tap * dilation % stride; }
  constexpr isize shift(isize tap) const { return tap * dilation / stride; }
  // Pixels of a phase behind the first one that a window reads.
  constexpr isize reach() const { return shift(kernel - 1); }
  constexpr bool is_simple() const { return dilation == 1 || stride == 1; }
};

// An image as registers read it: pixels of so many bytes, tight or apart.
struct PhasedImage {
  TapAxis down, across;
  isize bytes;
  bool tight;

  // Whether registers can read it, and there are few windows that nobody asks for.
  constexpr bool worth() const {
    const bool point = down.kernel * across.kernel * down.stride * across.stride == 1;
    const bool whole =
        tight ? across.dilation == 1 && across.before >= 0 : bytes % TILE_BLOCK == 0;
    return down.is_simple() && across.is_simple() && whole && !point && bytes > 0 &&
           across.out > 0 && across.out * 4 >= line() * 3;
  }
  constexpr isize columns() const { return tight ? 1 : across.phases(); }
  // Windows of a line, with those that nobody asks for.
  constexpr isize line() const {
    return across.out + (tight ? ceil_div(across.kernel, across.stride) - 1 : across.reach());
  }
  // Bytes from one window to the next: lines of the cache that many pixels share would push each
  // other out.
  constexpr isize step() const {
    return tight ? across.stride * bytes : bytes % 512 == 0 ? bytes + CACHE_LINE : bytes;
  }
  // Blocks of a line of the window.
  constexpr isize run() const { return ceil_div(across.kernel * bytes, TILE_BLOCK); }
  constexpr isize blocks() const { return down.kernel * run(); }
  // Bytes of one phase for so many lines of the result. The last register and the last block may go
  // past its lines.
  constexpr isize phase(isize lines) const {
    const isize past = TILED_ROWS * step() + run() * TILE_BLOCK;
    return round_up((lines + down.reach()) * line() * step() + past, CACHE_LINE);
  }
  constexpr isize table() const { return round_up(blocks() * isize(sizeof(isize)), CACHE_LINE); }
  // Lines of the result whose pixels are held at a time: a part of the second level cache.
  constexpr isize lines() const {
    const isize each = down.phases() * columns() * line() * step();
    return max(min(INFUSE_BLOCK_BYTES / 4 / each - down.reach(), down.out), isize(1));
  }
  constexpr isize scratch() const {
    return table() + down.phases() * columns() * phase(lines());
  }

  // Where all blocks begin.
  void offsets(isize* to) const {
    const isize each = phase(lines());
    for (isize ky = 0; ky < down.kernel; ++ky) {
      const isize line_at = down.shift(ky) * line() * step();
      for (isize block = 0; block < run(); ++block) {
        const isize kx = tight ? 0 : block * TILE_BLOCK / bytes;
        const isize phases = down.phase(ky) * columns() + (tight ? 0 : across.phase(kx));
        const isize shift = tight ? 0 : across.shift(kx) * step() - kx * bytes;
        *to++ = phases * each + line_at + shift + block * TILE_BLOCK;
      }
    }
  }

  // Copies what windows of the lines [first, last) of the result read: pixels(to, y, x, count) those
  // of the image, blank(to, count) what stands for some outside. Both may write a block more.
  template <class Pixels, class Blank>
  void copy(char* to, isize first, isize last, const Pixels& pixels, const Blank& blank) const {
    for (isize py = 0; py < down.phases(); ++py)
      for (isize px = 0; px < columns(); ++px, to += phase(lines())) {
        char* at = to;
        for (isize i = first; i < last + down.reach(); ++i, at += line() * step()) {
          const isize y = i * down.stride + py - down.before;
          const bool inside = y >= 0 && y < down.in;
          if (tight)
            copy_run(at, y, inside, pixels, blank);
          else
            copy_apart(at, y, px - across.before, inside, pixels, blank);
        }
        // No number that lay here before may be multiplied, not even by zero.
        if (tight) memset(at, 0, size_t(run() * TILE_BLOCK));
      }
  }

 private:
  template <class Pixels, class Blank>
  INFUSE_INLINE void copy_apart(char* at, isize y, isize x, bool inside, const Pixels& pixels,
                                const Blank& blank) const {
    for (isize i = 0; i < line(); ++i, x += across.stride, at += step())
      if (inside && x >= 0 && x < across.in)
        pixels(at, y, x, 1);
      else
        blank(at, 1);
  }

  template <class Pixels, class Blank>
  INFUSE_INLINE void copy_run(char* at, isize y, bool inside, const Pixels& pixels,
                              const Blank& blank) const {
    const isize all = line() * across.stride, before = min(across.before, all);
    const isize count = inside ? min(across.in, all - before) : 0;
    blank(at, inside ? before : all);
    if (!inside) return;
    pixels(at + before * bytes, y, 0, count);
    blank(at + (before + count) * bytes, all - before - count);
  }
};

// Calls body(number of the image, first, last) for the lines of the result in windows [m0, m1) of
// all images.
template <class Body>
INFUSE_INLINE void each_image(const PhasedImage& image, isize m0, isize m1, const Body& body) {
  const isize lines = image.down.out;
  for (isize l = m0 / image.across.out, last = m1 / image.across.out, stop; l < last; l = stop) {
    const isize number = l / lines, first = number * lines;
    stop = min(last, first + lines);
    body(number, l - first, stop - first);
  }
}

// Windows of the lines [first, last) of the result of one image times panels [p0, p1). Sums of windows
// side by side go to drained(sums, rows, row, panel), where rows count the results of the image.
template <class Unit, class Pixels, class Blank, class Drain>
INFUSE_INLINE void phased_part(const PhasedImage& image, char* scratch, const int32_t* b,
                               isize first, isize last, isize p0, isize p1, isize n,
                               const Pixels& pixels, const Blank& blank, const Drain& drained) {
  const isize line = image.line(), out = image.across.out, lines = image.lines();
  isize* offsets = (isize*)scratch;
  char* held = scratch + image.table();
  image.offsets(offsets);
  const auto rows = [&](isize row, isize end) {
    image.copy(held, row / line, ceil_div(end, line), pixels, blank);
    return OffsetRows{held, image.step(), offsets, TILE_SIDE * image.step()};
  };
  const auto results = [&](const int32_t* sums, isize count, isize row, isize p) {
    for (isize i = 0, run; i < count; i += run) {
      const isize y = (row + i) / line, x = (row + i) % line;
      run = min(count - i, x < out ? out - x : line - x);
      if (x < out) drained(sums + i * TILED_ROWS, run, y * out + x, p);
    }
  };
  tiled_part<Unit>(image.blocks(), rows, b, first * line, last * line, p0, p1, n, {lines * line},
                   results);
}

}  // namespace detail
}  // namespace infuse
