// Resizing of images whose channels are planes: every line goes through the columns of the result,
// which are the same for all lines.
#pragma once
#include "resample.hpp"

namespace infuse {

namespace resize_detail {

/** Whether permute() is cheaper than loading the elements of a vector one by one. */
#if defined(__AVX2__) || defined(__AVX512F__) || \
    (!defined(__clang__) && (defined(__SSSE3__) || defined(__aarch64__)))
constexpr bool PERMUTES = true;
#else
constexpr bool PERMUTES = false;
#endif

/** Lane i is lane at[i] modulo LANES of x. */
INFUSE_INLINE vf permute(vf x, vi at) {
#if !defined(__clang__)
  return __builtin_shuffle(x, at);
#elif defined(__AVX512F__)
  return __builtin_ia32_permvarsf512(x, at);
#elif defined(__AVX2__)
  return __builtin_ia32_permvarsf256(x, at);
#else
  vf y = {};
  for (int i = 0; i < LANES; ++i) y[i] = x[at[i] & (LANES - 1)];
  return y;
#endif
}

INFUSE_INLINE vf elements(const float* x, const int32_t* at) {
#if INFUSE_LANES == 16
  return vf{x[at[0]], x[at[1]], x[at[2]],  x[at[3]],  x[at[4]],  x[at[5]],  x[at[6]],  x[at[7]],
            x[at[8]], x[at[9]], x[at[10]], x[at[11]], x[at[12]], x[at[13]], x[at[14]], x[at[15]]};
#elif INFUSE_LANES == 8
  return vf{x[at[0]], x[at[1]], x[at[2]], x[at[3]], x[at[4]], x[at[5]], x[at[6]], x[at[7]]};
#else
  return vf{x[at[0]], x[at[1]], x[at[2]], x[at[3]]};
#endif
}

/**
 * The taps of all columns in vectors of LANES columns, the last one filled up: tap k of block b has
 * the inputs base + index, which lie within `windows` vectors from base on (0: anywhere).
 */
struct Columns {
  isize most, blocks;
  int windows;
  bool any_outside;
  isize first, last;  // inputs before `first` and from `last` on are not read, but for windows
  int32_t *base, *index, *outside;
  float* weight;
};

/** Finds base and windows; `room` elements of a line may be read. */
inline void place_windows(Columns* columns, isize room) {
  const isize groups = columns->most * columns->blocks;
  int32_t widest = 0;
  for (isize g = 0; g < groups; ++g) {
    const vi at = load(columns->index + g * LANES, Full{});
    const int32_t low = hmin(at), span = hmax(at) - low + 1;
    columns->base[g] = low;
    widest = span > widest ? span : widest;
  }
  const int windows = widest <= LANES ? 1 : 2;
  const bool fits = PERMUTES && widest <= 2 * LANES && windows * LANES <= room;
  columns->windows = fits ? windows : 0;
  for (isize g = 0; g < groups; ++g) {
    const int32_t most = fits ? int32_t(room - windows * LANES) : 0;
    if (columns->base[g] > most) columns->base[g] = most;
    for (isize i = g * LANES; i < (g + 1) * LANES; ++i) columns->index[i] -= columns->base[g];
  }
}

/** The bytes of columns; makes them from a table, where there is memory. */
inline isize make_columns(const Table<float>& table, isize out, isize room, char* memory,
                         Columns* columns) {
  const isize blocks = (out + LANES - 1) / LANES, groups = table.most * blocks;
  columns->most = table.most, columns->blocks = blocks, columns->any_outside = false;
  columns->weight = reinterpret_cast<float*>(memory);
  columns->index = reinterpret_cast<int32_t*>(columns->weight + groups * LANES);
  columns->outside = columns->index + groups * LANES;
  columns->base = columns->outside + blocks * LANES;
  columns->first = PTRDIFF_MAX, columns->last = 0;
  for (isize i = 0; memory && i < blocks * LANES; ++i) {
    const isize from = i < out ? i : out - 1;
    columns->outside[i] = -int32_t(table.count[from] == 0);
    columns->any_outside = columns->any_outside || table.count[from] == 0;
    for (isize k = 0; k < table.most; ++k) {
      const isize at = table.at[from * table.most + k];
      columns->index[k * blocks * LANES + i] = int32_t(at);
      columns->weight[k * blocks * LANES + i] = table.weight[from * table.most + k];
      if (at < columns->first) columns->first = at;
      if (at >= columns->last) columns->last = at + 1;
    }
  }
  if (memory) place_windows(columns, room);
  return round_up((2 * groups + blocks) * LANES * 4 + groups * 4, CACHE_LINE);
}

/** The inputs of group g of columns. */
template <int Windows>
INFUSE_INLINE vf gathered(const Columns& columns, const float* x, isize g) {
  const int32_t* index = columns.index + g * LANES;
  if (Windows == 0) return elements(x, index);
  const float* from = x + columns.base[g];
  const vi at = load(index, Full{});
  const vf low = permute(load(from, Full{}), at);
  if (Windows == 1) return low;
  return select(at < LANES, low, permute(load(from + LANES, Full{}), at));
}

/** Makes all columns of a line; Most taps for each, 1: copies, 0: any number. */
template <int Windows, int Most>
INFUSE_NOINLINE void made_line(const Columns& columns, const float* x, float* y) {
  const isize blocks = columns.blocks, most = Most ? Most : columns.most;
  for (isize b = 0; b < blocks; ++b) {
    vf sum = gathered<Windows>(columns, x, b);
    if (Most != 1) {
      sum *= load(columns.weight + b * LANES, Full{});
#pragma GCC unroll 4
      for (isize k = 1; k < most; ++k) {
        const isize g = k * blocks + b;
        sum = fma(gathered<Windows>(columns, x, g), load(columns.weight + g * LANES, Full{}), sum);
      }
    }
    store(y + b * LANES, sum, Full{});
  }
}

template <int Windows>
inline auto line_maker(const Columns& columns, bool picks) {
  if (picks) return made_line<Windows, 1>;
  return columns.most == 2 ? made_line<Windows, 2> : made_line<Windows, 0>;
}

/** Elements of a line that are there to be read, where lines are combined first. */
inline isize room(const ResizeShape& shape) {
  return shape.w.size < 2 * LANES ? 2 * LANES : shape.w.size;
}

}  // namespace resize_detail

/** Bytes of scratch per worker. */
inline isize resize_planes_scratch(const ResizeShape& shape) {
  using namespace resize_detail;
  Table<float> table;
  Columns columns;
  isize bytes = make_table<float>(shape, shape.h, nullptr, &table);
  bytes += make_table<float>(shape, shape.w, nullptr, &table);
  bytes += make_columns(table, shape.w.out, 0, nullptr, &columns);
  return bytes + round_up(room(shape) * 4, CACHE_LINE) +
         round_up(columns.blocks * LANES * 4, CACHE_LINE);
}

/** Resizes x [n, c, h, w]; row = (plane, oy), col = ox. Needs resize_planes_scratch(shape). */
template <class Sink>
inline void resize_planes(Context& context, const ResizeShape& shape, const float* x,
                          const Sink& sink) {
  using namespace resize_detail;
  Table<float> down, side;
  Columns columns;
  const isize height = shape.h.out, wide = shape.w.out, plane = shape.h.size * shape.w.size;
  if (shape.n * shape.c * height * wide == 0) return;
  const bool picks = shape.mode == RESIZE_NEAREST;
  char* memory = context.scratch(0);
  isize used = make_table(shape, shape.h, memory, &down);
  used += make_table(shape, shape.w, memory + used, &side);
  used += make_columns(side, wide, picks ? shape.w.size : room(shape), memory + used, &columns);
  const auto make = columns.windows == 1   ? line_maker<1>(columns, picks)
                    : columns.windows == 2 ? line_maker<2>(columns, picks)
                                           : line_maker<0>(columns, picks);
  context.parallel(
      shape.n * shape.c * height,
      [&](isize begin, isize end, int worker) {
        float* row = reinterpret_cast<float*>(context.scratch(worker) + used);
        float* made = row + round_up(room(shape) * 4, CACHE_LINE) / 4;
        const float* last = nullptr;
        const float* image = x + begin / height * plane;
        isize oy = begin % height;
        for (isize unit = begin; unit < end; ++unit) {
          const Taps<float> y = down[oy];
          const float* line = image + y.at[0] * shape.w.size;
          if (y.count == 0) {
            for (isize i = 0; i < wide; ++i) made[i] = shape.outside;
            last = nullptr;
          } else if (!picks || line != last) {
            if (!picks) combine(y, image, shape.w.size, columns.first, columns.last, row);
            make(columns, picks ? line : row, made);
            for (isize i = 0; columns.any_outside && i < columns.blocks * LANES; ++i)
              if (columns.outside[i]) made[i] = shape.outside;
            last = line;
          }
          sweep(0, wide, [&](isize col, auto lanes) __attribute__((always_inline)) {
            sink(load(made + col, lanes), unit, col, lanes);
          });
          if (++oy == height) oy = 0, image += plane;
        }
      },
      1 + 16384 / (wide * (1 + down.most + columns.most)));
}

}  // namespace infuse
