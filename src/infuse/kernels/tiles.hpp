// Products of tile registers (Intel's AMX): a register of 16 rows of 64 bytes, 16 words of 32 bits.
//
// Two by two registers hold the sums of 32 rows and 32 columns, two more rows of the left operand
// and two the right one. That is packed as [panel of 32 columns][block of 16 words along k][half of
// the panel][word][column]: 1 KiB for each register, one after another in the order of use. A word
// is a pair of bfloat16 or four bytes; k is filled up with zeros to whole blocks. The few rows for
// which registers do not pay take vectors, from the same panels (PanelSteps).
#pragma once
#include "ahead.hpp"
#include "permission.hpp"
#include "platform.hpp"
#include "simd.hpp"

namespace infuse {

constexpr isize TILE_SIDE = 16;                      // rows of a register, and words of a row
constexpr isize TILE_WORDS = TILE_SIDE * TILE_SIDE;  // words of a register
constexpr isize TILED_ROWS = 2 * TILE_SIDE;          // rows and columns of a block of sums

// Rows up to which vectors multiply bytes and pairs of bfloat16: a register with so few rows is
// mostly empty, and what takes the time is to read the right operand. Measured on a Granite Rapids
// core, whose vectors multiply bfloat16 at half of the speed of float32: 4 rows of 768 × 768 take
// 20 us by registers and 44 by vectors, those of bytes 9 and 11, of 768 × 3072 71 and 65.
constexpr isize FEW_ROWS = 4, FEW_PAIR_ROWS = 1;

#if defined(INFUSE_BF16_TILES)
static_assert(INFUSE_LANES == TILE_SIDE, "what tiles leave over is for vectors of 16 words");
constexpr bool BF16_TILES = true;
#else
constexpr bool BF16_TILES = false;
#endif
#if defined(INFUSE_U8S8_TILES)
static_assert(INFUSE_LANES == TILE_SIDE, "what tiles leave over is for vectors of 16 words");
constexpr bool U8S8_TILES = true;
#else
constexpr bool U8S8_TILES = false;
#endif

/** Words along k of a packed panel: whole blocks where it is `tiled`. */
constexpr isize panel_words(isize words, bool tiled) {
  return tiled ? (words + TILE_SIDE - 1) / TILE_SIDE * TILE_SIDE : words;
}

/** The words of one step along k after another in a packed panel, for vectors. */
template <bool Tiled>
struct PanelSteps {
  const int32_t* at;

  INFUSE_INLINE explicit PanelSteps(const int32_t* panel) : at(panel) {}
  INFUSE_INLINE vi half(int number) const { return load(at + number * LANES, Full{}); }
  INFUSE_INLINE void next() { at += 2 * LANES; }
};

template <>
struct PanelSteps<true> {
  const int32_t* panel;
  isize step = 0;

  INFUSE_INLINE explicit PanelSteps(const int32_t* from) : panel(from) {}
  INFUSE_INLINE vi half(int number) const {
    return load(panel + (step + (step & -TILE_SIDE)) * TILE_SIDE + number * TILE_WORDS, Full{});
  }
  INFUSE_INLINE void next() { ++step; }
};

/**
 * While it lives, all eight tile registers of the thread are in use, whole. No call of the pool may
 * be made meanwhile.
 */
class TileRegisters {
 public:
  TileRegisters() {
    alignas(64) struct {
      uint8_t palette = 1, start = 0, reserved[14] = {};
      uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } how;
    static_assert(sizeof how == 64, "as LDTILECFG reads it");
    INFUSE_TILES_CONFIGURE(&how);
  }
  ~TileRegisters() { INFUSE_TILES_RELEASE(); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
};

/** Of what is multiplied by vectors. */
struct NoRegisters {
  NoRegisters() {}
};

/** Adds products of pairs of bfloat16, in registers of these numbers. */
struct TiledPairs {
  static constexpr isize BLOCKS = 1;  // that are added in one step

  template <int SUM, int A, int B>
  static INFUSE_INLINE void add() {
    INFUSE_TILE_ADDING(tdpbf16ps, SUM, A, B);
  }
};

/**
 * The same of numbers that are two bfloat16 each, high + low: rows have a block of low ones before
 * each block of high ones, panels behind each. Low times low is left out.
 */
struct SplitPairs : TiledPairs {
  static constexpr isize BLOCKS = 2;
};

/** Adds products of four bytes and four signed bytes. */
struct TiledQuads {
  static constexpr isize BLOCKS = 1;

  template <int SUM, int A, int B>
  static INFUSE_INLINE void add() {
    INFUSE_TILE_ADDING(tdpbusd, SUM, A, B);
  }
};

/**
 * Rows of a left operand as registers take them: bytes from one row to the next within 16, from a
 * block of 16 words to the next, and from 16 rows to the next 16. There are whole registers of
 * rows, of which the last may be anything.
 */
struct TiledRows {
  const char* start;
  isize row, block, group;

  INFUSE_INLINE TiledRows from(isize first) const {
    return {start + first / TILE_SIDE * group, row, block, group};
  }
  INFUSE_INLINE TiledRows behind(isize blocks) const {
    return {start + blocks * block, row, block, group};
  }
  INFUSE_INLINE const char* at() const { return start; }
  INFUSE_INLINE void next() { start += block; }
};

/** The same of blocks that lie anywhere: each has its offset. */
struct OffsetRows {
  const char* start;
  isize row;
  const isize* offset;
  isize group;

  INFUSE_INLINE OffsetRows from(isize first) const {
    return {start + first / TILE_SIDE * group, row, offset, group};
  }
  INFUSE_INLINE OffsetRows behind(isize blocks) const {
    return {start, row, offset + blocks, group};
  }
  INFUSE_INLINE const char* at() const { return start + *offset; }
  INFUSE_INLINE void next() { ++offset; }
};

/** Rows that lie `stride` bytes apart. */
INFUSE_INLINE TiledRows strided_rows(const void* start, isize stride) {
  return {(const char*)start, stride, TILE_SIDE * 4, TILE_SIDE * stride};
}

/**
 * Zeros behind the words of a row, up to a whole block: what is no number must not meet the zeros
 * of a panel.
 */
INFUSE_INLINE void fill_up(int32_t* row, isize words) {
  memset(row + words, 0, size_t(panel_words(words, true) - words) * sizeof(int32_t));
}

constexpr isize SUMS_PITCH = TILED_ROWS * 4;  // bytes from one row of stored sums to the next

/** Where a register of sums lies among those of a block. */
template <int SUM>
INFUSE_INLINE char* sums_at(void* block) {
  return (char*)block + SUM / 2 * TILE_SIDE * SUMS_PITCH + SUM % 2 * TILE_SIDE * 4;
}

/** A block of sums of up to 32 rows and columns: where they go, and how many there are. */
struct TileBlock {
  void* sums;
  isize rows, width;

  INFUSE_INLINE bool has(int sum) const {
    return sums && (sum < 2 || rows > TILE_SIDE) && (sum % 2 == 0 || width > TILE_SIDE);
  }
};

/** Stores a register of the block before, and begins with zeros or with sums at `from`. */
template <int SUM>
INFUSE_INLINE void begin_sum(const TileBlock& before, void* from) {
  if (before.has(SUM)) INFUSE_TILE_STORE(SUM, sums_at<SUM>(before.sums), SUMS_PITCH);
  if (from)
    INFUSE_TILE_LOAD(SUM, sums_at<SUM>(from), SUMS_PITCH);
  else
    INFUSE_TILE_ZERO(SUM);
}

template <int SUM>
INFUSE_INLINE void end_sum(const TileBlock& before) {
  if (before.has(SUM)) INFUSE_TILE_STORE(SUM, sums_at<SUM>(before.sums), SUMS_PITCH);
}

/** What a block that goes on does before it adds to a register: nothing. */
struct SumsGoOn {
  template <int SUM>
  INFUSE_INLINE void begin() const {}
};

/** What the first products of a block do before. */
struct SumsBegin {
  const TileBlock& before;
  void* from;

  template <int SUM>
  INFUSE_INLINE void begin() const {
    begin_sum<SUM>(before, from);
  }
};

/** Adds one block of rows times the first V halves of one of a panel to [16 · R][16 · V] sums. */
template <class Unit, int R, int V, class Rows, class Start>
INFUSE_INLINE void add_block(const Rows& a, const int32_t* b, const Start& start) {
  start.template begin<0>();
  INFUSE_TILE_LOAD(6, b, TILE_SIDE * 4);
  INFUSE_TILE_LOAD(4, a.at(), a.row);
  Unit::template add<0, 4, 6>();
  if constexpr (V == 2) {
    start.template begin<1>();
    INFUSE_TILE_LOAD(7, b + TILE_WORDS, TILE_SIDE * 4);
    Unit::template add<1, 4, 7>();
  }
  if constexpr (R == 2) {
    start.template begin<2>();
    INFUSE_TILE_LOAD(5, a.at() + a.group, a.row);
    Unit::template add<2, 5, 6>();
  }
  if constexpr (R == 2 && V == 2) {
    start.template begin<3>();
    Unit::template add<3, 5, 7>();
  }
}

/** Adds a block of other rows, times what registers hold of the panel. */
template <class Unit, int R, int V, class Rows>
INFUSE_INLINE void add_rows(const Rows& a) {
  INFUSE_TILE_LOAD(4, a.at(), a.row);
  Unit::template add<0, 4, 6>();
  if constexpr (V == 2) Unit::template add<1, 4, 7>();
  if constexpr (R == 2) {
    INFUSE_TILE_LOAD(5, a.at() + a.group, a.row);
    Unit::template add<2, 5, 6>();
    if constexpr (V == 2) Unit::template add<3, 5, 7>();
  }
}

/** Adds what registers hold of the rows, times another block of the panel. */
template <class Unit, int R, int V>
INFUSE_INLINE void add_panel(const int32_t* b) {
  INFUSE_TILE_LOAD(6, b, TILE_SIDE * 4);
  Unit::template add<0, 4, 6>();
  if constexpr (R == 2) Unit::template add<2, 5, 6>();
  if constexpr (V == 2) {
    INFUSE_TILE_LOAD(7, b + TILE_WORDS, TILE_SIDE * 4);
    Unit::template add<1, 4, 7>();
    if constexpr (R == 2) Unit::template add<3, 5, 7>();
  }
}

/** Adds the next Unit::BLOCKS blocks, and goes behind them. */
template <class Unit, int R, int V, class Rows, class Start>
INFUSE_INLINE void tile_step(Rows& a, const int32_t*& b, const Start& start) {
  add_block<Unit, R, V>(a, b, start);
  a.next(), b += 2 * TILE_WORDS;
  if constexpr (Unit::BLOCKS == 2) {
    add_rows<Unit, R, V>(a);
    add_panel<Unit, R, V>(b);
    a.next(), b += 2 * TILE_WORDS;
  }
}

/**
 * Sums [16 · R][16 · V] in registers: those at `from`, or zeros, and rows times the first V halves
 * of a panel, `blocks` > 0 of 16 words each, a multiple of Unit::BLOCKS.
 *
 * What registers hold of the block before is stored one by one as they begin anew: the first
 * products run while the others are stored. Stored at the end of a block, they cost 20 ns of its
 * 180 (8 blocks, Granite Rapids).
 */
template <class Unit, int R, int V, class Rows>
INFUSE_NOINLINE void tile_block(Rows a, const int32_t* b, isize blocks, void* from,
                                const TileBlock& before, LinesAhead ahead) {
  tile_step<Unit, R, V>(a, b, SumsBegin{before, from});
  if constexpr (V == 1) end_sum<1>(before);
  if constexpr (R == 1) end_sum<2>(before);
  if constexpr (R == 1 || V == 1) end_sum<3>(before);
  ahead.ask();
#pragma GCC unroll 1
  while ((blocks -= Unit::BLOCKS) > 0) {
    tile_step<Unit, R, V>(a, b, SumsGoOn{});
    ahead.ask();
  }
}

/** One block of sums after another in the registers of a thread. */
template <class Unit>
class TileSums {
  TileBlock current = {nullptr, 0, 0};

 public:
  LinesAhead ahead;

  /**
   * Begins a block of up to 32 rows, of which all registers are there, and `width` wanted columns,
   * from zeros or the sums at `from`; what the block before was is stored.
   */
  template <class Rows>
  INFUSE_INLINE void block(const Rows& a, const int32_t* b, isize blocks, isize rows, isize width,
                           void* from, void* to) {
    const bool tall = rows > TILE_SIDE, wide = width > TILE_SIDE;
    const auto run = tall ? wide ? tile_block<Unit, 2, 2, Rows> : tile_block<Unit, 2, 1, Rows>
                     : wide ? tile_block<Unit, 1, 2, Rows>
                            : tile_block<Unit, 1, 1, Rows>;
    run(a, b, blocks, from, current, ahead);
    ahead.at += blocks * ahead.lines * CACHE_LINE;
    current = {to, rows, width};
  }

  /** Stores the last block. */
  INFUSE_INLINE void finish() {
    end_sum<0>(current), end_sum<1>(current), end_sum<2>(current), end_sum<3>(current);
    current.sums = nullptr;
  }
};

/** out[32][32] = rows times a panel, of which `width` columns are wanted, at once. */
template <class Unit>
INFUSE_INLINE void tile_product(TiledRows a, const int32_t* b, isize blocks, isize rows, isize width,
                                void* out) {
  TileSums<Unit> sums;
  sums.block(a, b, blocks, rows, width, nullptr, out);
  sums.finish();
}

}  // namespace infuse
