// Products of 8-bit integers, summed up in 32 bits: sinks receive sums without zero points.
//
// The right operand is packed in panels of columns, [panel, group of rows, column, row of the group];
// a group fills a lane of 32 bits; in tiles where the processor multiplies those (tiles.hpp). `sums`
// has the sum of every column of it for U8S8x4, else nothing.
#pragma once
#include "conv_tiles.hpp"
#include "integer_products.hpp"

namespace infuse {

namespace integer_detail {

constexpr int BLOCK = 4 * ROWS;  // rows that are gathered at once

inline isize panels(isize n) { return (n + PANEL - 1) / PANEL; }
/** Words of a packed panel. */
template <class Layout>
inline isize panel_size(isize k) {
  return panel_words(lanes_of<Layout>(k), Layout::TILED) * PANEL;
}

/** out[R][PANEL] = such products. */
template <class Layout, int R, int V>
INFUSE_NOINLINE void tile(isize count, LaneRows a, const int32_t* b, int32_t* out) {
  vi sum[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sum[r][v] = vi{};
  multiply<Layout>(count, a, b, sum);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) store(out + r * PANEL + v * LANES, sum[r][v], Full{});
}

/** A whole tile whose sums, beginning at start[PANEL], go to the sink without leaving the registers. */
template <class Layout, class Sink>
INFUSE_NOINLINE void whole_tile(isize count, LaneRows a, const int32_t* b, const int32_t* start, isize row, isize col,
                                const Sink& given) {
  const Sink sink = given;
  vi sum[ROWS][2];
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r) sum[r][0] = load(start, Full{}), sum[r][1] = load(start + LANES, Full{});
  multiply<Layout>(count, a, b, sum);
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v)
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) sink(sum[r][v], row + r, col + v * LANES, Full{});
}

typedef void (*Run)(isize, LaneRows, const int32_t*, int32_t*);

template <class Layout, int V>
INFUSE_INLINE Run tile_of(isize rows) {
  if constexpr (ROWS == 12) {
    if (rows == 12) return tile<Layout, 12, V>;
    if (rows == 8) return tile<Layout, 8, V>;
  }
  if constexpr (ROWS == 8)
    if (rows == 8) return tile<Layout, 8, V>;
  if constexpr (ROWS >= 6)
    if (rows == 6) return tile<Layout, 6, V>;
  if (rows == 4) return tile<Layout, 4, V>;
  return rows == 3 ? tile<Layout, 3, V> : rows == 2 ? tile<Layout, 2, V> : tile<Layout, 1, V>;
}

/** LaneRows of the next tile when `left` remain, so that no thin slice is left where that can be. */
INFUSE_INLINE isize rows_of_tile(isize left) {
  if (ROWS == 12 && left >= 8) return left < 12 || (left > 12 && left < 16) ? 8 : 12;
  if (ROWS == 8 && left >= 8 && left != 9) return 8;
  if (ROWS < 6) return left == ROWS + 1 ? ROWS - 1 : left < ROWS ? left : ROWS;
  return left >= 6 && left != 7 ? 6 : left >= 4 ? 4 : left;
}

/** What sums of a whole panel begin at. */
template <class Layout>
INFUSE_INLINE void begin_sums(int32_t* start, const int32_t* sums, int excess) {
  for (int v = 0; v < PANEL; v += LANES)
    store(start + v, Layout::GROUP == 4 ? load(sums + v, Full{}) * splat(-excess) : vi{}, Full{});
}

/** Zero points: that of row r is at [r · step]; null for none. */
template <class T>
struct Zeros {
  const T* at;
  isize step;
  INFUSE_INLINE int of(isize row) const { return at ? at[row * step] : 0; }
};

/**
 * Copies rows from number `first` on of m rows of k elements, which are `row` apart, as they are
 * multiplied, `stride` bytes apart.
 */
template <class Layout, class T>
INFUSE_INLINE void left_lines(char* to, isize stride, const T* a, isize row, isize first, isize rows,
                              isize m, isize k, Zeros<T> zeros) {
  typedef typename Layout::Left Left;
  const isize whole = lanes_of<Layout>(k) * Layout::GROUP;
  for (isize r = first; r < first + rows; ++r, to += stride) {
    Left* line = (Left*)to;
    for (isize i = k; i < whole; ++i) line[i] = 0;
    left_line<Layout>(line, a + r * row, k, zeros.of(r), a + (m - 1) * row + k);
  }
}

/** Hands rows of a finished tile to the sink, less what zero points add: column `col` of n is the panel's first. */
template <class Layout, class T, class Sink>
INFUSE_NOINLINE void drain(const int32_t* out, isize rows, isize row, isize col, isize n, Zeros<T> zeros,
                           const int32_t* sums, isize shift, const Sink& given) {
  const Sink sink = given;  // what it points to is known not to change when a byte is stored
  sweep(col, n < col + PANEL ? n : col + PANEL, [&](isize at, auto lanes) __attribute__((always_inline)) {
    vi off = {};
    if (Layout::GROUP == 4) off = load(sums + at, lanes) * splat(Layout::template excess<T>(zeros.of(row)));
    const int32_t* from = out + (at - col);
    for (isize r = row; r < row + rows; ++r, from += PANEL) {
      if (Layout::GROUP == 4 && zeros.step)
        off = load(sums + at, lanes) * splat(Layout::template excess<T>(zeros.of(r)));
      sink(load(from, Full{}) - off, r, shift + at, lanes);
    }
  });
}

/**
 * m rows of k elements times b, n columns: source(first, rows, scratch) says where rows lie as lanes.
 * `shift` is the sink's number of the first column.
 */
template <class Layout, class T, class Source, class Sink>
inline void product(Context& c, isize m, isize n, isize k, const Source& source, Zeros<T> zeros,
                    const typename Layout::Right* b, const int32_t* sums, isize shift, const Sink& sink) {
  const isize count = lanes_of<Layout>(k);
  detail::gemm_parallel(c, m, panels(n), count, [&](isize m0, isize m1, isize p0, isize p1, int worker) {
    alignas(64) int32_t out[ROWS * PANEL], start[PANEL];
    for (isize first = m0, last; first < m1; first = last) {
      last = m1 - first < BLOCK + ROWS ? m1 : first + BLOCK;
      const LaneRows block = source(first, last - first, c.scratch(worker));
      for (isize p = p0; p < p1; ++p) {
        const int32_t* panel = (const int32_t*)b + p * panel_size<Layout>(k);
        const bool whole = n - p * PANEL >= PANEL && zeros.step == 0;
        if (whole) begin_sums<Layout>(start, sums + p * PANEL, Layout::template excess<T>(zeros.of(0)));
        for (isize row = first, rows; row < last; row += rows) {
          rows = rows_of_tile(last - row);
          const LaneRows left = {block.start + (row - first) * block.stride, block.stride};
          if (whole && rows == ROWS) {
            whole_tile<Layout>(count, left, panel, start, row, shift + p * PANEL, sink);
            continue;
          }
          const Run run = n - p * PANEL > LANES ? tile_of<Layout, 2>(rows) : tile_of<Layout, 1>(rows);
          run(count, left, panel, out);
          drain<Layout>(out, rows, row, p * PANEL, n, zeros, sums, shift, sink);
        }
      }
    }
  });
}

/** Rows that tile registers take at once, while the right operand passes by once. */
template <class Layout>
inline isize tiled_rows(isize k) {
  return max(INFUSE_BLOCK_BYTES / 4 / pitch<Layout>(k) / TILED_ROWS * TILED_ROWS, TILED_ROWS);
}

/** The same by tile registers; source(first, rows, scratch) gives rows as those take them. */
template <class Layout, class T, class Source, class Sink>
inline void tiled_product(Context& c, isize m, isize n, isize k, const Source& source, Zeros<T> zeros,
                          const typename Layout::Right* b, const int32_t* sums, isize shift,
                          const Sink& sink) {
  const isize count = lanes_of<Layout>(k), blocks = detail::tiled_blocks(count);
  const auto part = [&](isize m0, isize m1, isize p0, isize p1, int worker) {
    const auto rows = [&](isize first, isize last) {
      return source(first, last - first, c.scratch(worker));
    };
    const auto drained = [&](const int32_t* out, isize some, isize row, isize p) {
      drain<Layout>(out, some, row, p * PANEL, n, zeros, sums, shift, sink);
    };
    detail::tiled_part<TiledQuads>(blocks, rows, (const int32_t*)b, m0, m1, p0, p1, n - p0 * PANEL,
                                   {tiled_rows<Layout>(k)}, drained);
  };
  detail::tiled_parallel(c, m, panels(n), count, TILED_ROWS, part);
}

/** An image of `depth` channels a group as registers read it in place; else without bytes. */
template <class Layout>
constexpr detail::PhasedImage phased_bytes(isize depth, isize groups, detail::TapAxis down,
                                           detail::TapAxis across) {
  return {down, across, Layout::TILED ? depth : 0, depth % detail::TILE_BLOCK != 0 && groups == 1};
}

/** The same of windows over images, or lines. */
template <class Layout>
inline detail::PhasedImage phased_bytes(const Windows& shape, isize depth) {
  const auto axis = [&](const WindowAxis& a) {
    return detail::TapAxis{a.in, a.out, a.kernel, a.stride, a.dilation, a.before};
  };
  const detail::TapAxis none = {1, 1, 1, 1, 1, 0}, last = axis(shape.axis[shape.rank - 1]);
  return phased_bytes<Layout>(shape.rank > 2 ? 0 : depth, shape.c / depth,
                              shape.rank == 2 ? axis(shape.axis[0]) : none, last);
}

/** Windows that tile registers read in place times one group's filters. */
template <class Layout, class T, class Sink>
inline void phased_product(Context& c, const detail::PhasedImage& image,
                           const Gather<Layout, T>& from, isize n, Zeros<T> zeros, const typename Layout::Right* b,
                           const int32_t* sums, isize shift, const Sink& sink) {
  typedef typename Layout::Left Left;
  const isize width = image.across.out, area = image.down.out * width;
  const isize channels = from.shape.c, pixels = image.down.in * image.across.in;
  const auto part = [&](isize m0, isize m1, isize p0, isize p1, int worker) {
    detail::each_image(image, m0, m1, [&](isize number, isize first, isize last) {
      const T* plane = from.x + number * pixels * channels;
      detail::phased_part<TiledQuads>(
          image, c.scratch(worker), (const int32_t*)b, first, last, p0, p1, n - p0 * PANEL,
          [&](char* to, isize y, isize x, isize count) {
            left_line<Layout>((Left*)to, plane + (y * image.across.in + x) * channels,
                              count * from.depth, from.zero, from.end);
          },
          [&](char* to, isize count) { from.blank((Left*)to, count * from.depth); },
          [&](const int32_t* out, isize count, isize row, isize p) {
            drain<Layout>(out, count, number * area + row, p * PANEL, n, zeros, sums, shift, sink);
          });
    });
  };
  const isize words = image.blocks() * TILE_SIDE;
  detail::tiled_parallel(c, from.shape.n * area, panels(n), words, width, part);
}

}  // namespace integer_detail

/** Bytes of scratch of a product of rows of k integers. */
template <class Layout>
inline isize integer_scratch(isize k) {
  using namespace integer_detail;
  const isize rows = Layout::TILED ? max(tiled_rows<Layout>(k), isize(BLOCK + ROWS)) : BLOCK + ROWS;
  return rows * pitch<Layout>(k) + SLACK;
}

/** Bytes of scratch of integer_conv over images, or lines, of `depth` channels in each group. */
template <class Layout>
inline isize integer_conv_scratch(isize k, isize depth, isize groups, detail::TapAxis down,
                                 detail::TapAxis across) {
  const detail::PhasedImage image =
      integer_detail::phased_bytes<Layout>(depth, groups, down, across);
  const isize held = integer_scratch<Layout>(max(k, image.blocks() * detail::TILE_BLOCK));
  return image.worth() ? max(held, image.scratch()) : held;
}

/** How many integers a packed matrix of k rows and n columns has. */
template <class Layout>
inline isize integer_packed(isize k, isize n) {
  return integer_detail::panels(n) * integer_detail::panel_size<Layout>(k) * Layout::GROUP;
}

/**
 * Packs matrices b, element (i, j) at i · row + j · column, as I16x2 without their zero points
 * (column j of matrix g has zero[(g · shift + j) · step]), one after another.
 */
template <class T>
inline void integer_pack(Context& c, isize matrices, isize k, isize n, isize matrix, isize row, isize column,
                         const T* b, const T* zero, isize step, isize shift, int16_t* to) {
  using namespace integer_detail;
  const isize count = lanes_of<I16x2>(k), each = panels(n);
  c.parallel(matrices * each, [&](isize begin, isize end, int) {
    for (isize unit = begin; unit < end; ++unit) {
      const T* from = b + unit / each * matrix;
      int16_t* out = to + unit * count * 2 * PANEL;
      const isize first = unit % each * PANEL;
      for (isize i = 0; i < 2 * count; ++i)
        for (isize j = 0; j < PANEL; ++j) {
          const bool inside = i < k && first + j < n;
          const int off = inside && zero ? zero[(unit / each * shift + first + j) * step] : 0;
          out[(i / 2 * PANEL + j) * 2 + i % 2] =
              inside ? int16_t(from[i * row + (first + j) * column] - off) : int16_t(0);
        }
    }
  });
}

/** (a − zero[row · step]) · b to the sink [m, n]: rows of k integers of a are `row` apart; b is packed. */
template <class Layout, class T, class Sink>
inline void integer_matmul(Context& c, isize m, isize n, isize k, isize row, const T* a, const T* zero, isize step,
                           const typename Layout::Right* b, const int32_t* sums, const Sink& sink) {
  using namespace integer_detail;
  typedef typename Layout::Left Left;
  const Zeros<T> zeros = {zero, step};
  if constexpr (Layout::TILED)
    if (m > FEW_ROWS && k > 0) {
      const isize blocks = detail::tiled_blocks(lanes_of<Layout>(k));
      const auto compact = [&](isize first, isize rows, char* scratch) {
        const detail::CompactRows held = {(int32_t*)scratch, blocks};
        const T* end = a + (m - 1) * row + k;
        for (isize r = 0; r < rows; ++r)
          left_line<Layout>((Left*)held.row(r), a + (first + r) * row, k, 0, end, TILE_WORDS * 4);
        return held.all();
      };
      return tiled_product<Layout>(c, m, n, k, compact, zeros, b, sums, 0, sink);
    }
  const bool in_place = Layout::GROUP == 4 && FLIP<T> == 0 && k % 4 == 0 && row % 2048 != 0;
  const isize stride = pitch<Layout>(k);
  product<Layout>(
      c, m, n, k,
      [&](isize first, isize rows, char* scratch) {
        if (in_place) return LaneRows{(const char*)(a + first * row), row};
        left_lines<Layout>(scratch, stride, a, row, first, rows, m, k, zeros);
        return LaneRows{scratch, stride};
      },
      zeros, b, sums, 0, sink);
}

/**
 * Convolution of x − zero [n, in .., c] to the sink [n, out .., filters]; the filters are packed
 * matrices [taps · c / groups, filters / groups], one for each group. Padding counts as the zero point.
 */
template <class Layout, class T, class Sink>
inline void integer_conv(Context& c, const Windows& shape, isize filters, isize groups, const T* x, const T* zero,
                         const typename Layout::Right* w, const int32_t* sums, const Sink& sink) {
  using namespace integer_detail;
  using namespace window_detail;
  const isize all = outputs(shape), pixels = inputs(shape);
  const isize depth = shape.c / groups, wide = filters / groups;
  const isize line = filled_line<Layout>(shape, depth);
  const isize k = taps(shape) / max(shape.axis[shape.rank - 1].kernel, isize(1)) * line;
  const Zeros<T> zeros = {zero, 0};
  const int off = zeros.of(0);
  const isize stride = pitch<Layout>(k);
  for (isize g = 0; g < groups; ++g) {
    const T* end = x + shape.n * pixels * shape.c;
    const Gather<Layout, T> plane = {shape, x + g * depth, end, depth, off, line};
    const auto gather = [&](isize first, isize rows, char* scratch) {
      plane.windows(first, rows, scratch, stride);
      return LaneRows{scratch, stride};
    };
    const typename Layout::Right* own = w + g * integer_packed<Layout>(k, wide);
    if constexpr (Layout::TILED)
      if (shape.n * all > FEW_ROWS && k > 0) {
        const detail::PhasedImage image = phased_bytes<Layout>(shape, depth);
        if (image.worth()) {
          phased_product<Layout>(c, image, plane, wide, zeros, own, sums + g * wide, g * wide,
                                 sink);
          continue;
        }
        const auto strided = [&](isize first, isize rows, char* scratch) {
          const LaneRows held = gather(first, rows, scratch);
          return strided_rows(held.start, held.stride);
        };
        tiled_product<Layout>(c, shape.n * all, wide, k, strided, zeros, own, sums + g * wide,
                              g * wide, sink);
        continue;
      }
    product<Layout>(c, shape.n * all, wide, k, gather, zeros, own, sums + g * wide, g * wide, sink);
  }
}

}  // namespace infuse
