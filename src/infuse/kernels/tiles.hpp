// Products of tile registers (Intel's AMX): a register of 16 rows of 64 bytes, 16 words of 32 bits.
//
// Two by two registers hold the sums of 32 rows and 32 columns, two more rows of the left operand
// and two the right one. That is packed as [panel of 32 columns][block of 16 words along k][half of
// the panel][word][column]: 1 KiB for each register, one after another in the order of use. A word
// is a pair of bfloat16 or four bytes; k is filled up with zeros to whole blocks. The few rows for
// which registers do not pay take vectors, from the same panels (PanelSteps).
#pragma once
#include "permission.hpp"
#include "simd.hpp"

namespace infuse {

constexpr long TILE_SIDE = 16;                      // rows of a register, and words of a row
constexpr long TILE_WORDS = TILE_SIDE * TILE_SIDE;  // words of a register
constexpr long TILED_ROWS = 2 * TILE_SIDE;          // rows and columns of a block of sums

// Rows up to which vectors multiply: a register with so few rows is mostly empty, and what takes
// the time is to read the right operand. PyTorch and ktransformers measured that tiles win from
// five rows on; it was not measured here.
constexpr long FEW_ROWS = 4;

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
constexpr long panel_words(long words, bool tiled) {
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
  long step = 0;

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
  template <int SUM, int A, int B>
  static INFUSE_INLINE void add() {
    INFUSE_TILE_ADDING(tdpbf16ps, SUM, A, B);
  }
};

/** Adds products of four bytes and four signed bytes. */
struct TiledQuads {
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
  long row, block, group;

  INFUSE_INLINE TiledRows from(long first) const {
    return {start + first / TILE_SIDE * group, row, block, group};
  }
};

/** Rows that lie `stride` bytes apart. */
INFUSE_INLINE TiledRows strided_rows(const void* start, long stride) {
  return {(const char*)start, stride, TILE_SIDE * 4, TILE_SIDE * stride};
}

/**
 * Zeros behind the words of a row, up to a whole block: what is no number must not meet the zeros
 * of a panel.
 */
INFUSE_INLINE void fill_up(int32_t* row, long words) {
  memset(row + words, 0, size_t(panel_words(words, true) - words) * sizeof(int32_t));
}

/** out[16 · R][32] = rows times the first V halves of a panel, `blocks` of 16 words each. */
template <class Unit, int R, int V>
INFUSE_NOINLINE void tile_product(TiledRows a, const int32_t* b, long blocks, void* out) {
  constexpr long PITCH = 2 * TILE_SIDE * 4;
  INFUSE_TILE_ZERO(0);
  if constexpr (V == 2) INFUSE_TILE_ZERO(1);
  if constexpr (R == 2) INFUSE_TILE_ZERO(2);
  if constexpr (R == 2 && V == 2) INFUSE_TILE_ZERO(3);
#pragma GCC unroll 1
  for (; blocks > 0; --blocks, a.start += a.block, b += 2 * TILE_WORDS) {
    INFUSE_TILE_LOAD(6, b, TILE_SIDE * 4);
    INFUSE_TILE_LOAD(4, a.start, a.row);
    Unit::template add<0, 4, 6>();
    if constexpr (V == 2) {
      INFUSE_TILE_LOAD(7, b + TILE_WORDS, TILE_SIDE * 4);
      Unit::template add<1, 4, 7>();
    }
    if constexpr (R == 2) {
      INFUSE_TILE_LOAD(5, a.start + a.group, a.row);
      Unit::template add<2, 5, 6>();
    }
    if constexpr (R == 2 && V == 2) Unit::template add<3, 5, 7>();
  }
  char* to = (char*)out;
  INFUSE_TILE_STORE(0, to, PITCH);
  if constexpr (V == 2) INFUSE_TILE_STORE(1, to + PITCH / 2, PITCH);
  if constexpr (R == 2) INFUSE_TILE_STORE(2, to + TILE_SIDE * PITCH, PITCH);
  if constexpr (R == 2 && V == 2) INFUSE_TILE_STORE(3, to + TILE_SIDE * PITCH + PITCH / 2, PITCH);
}

/** The same for `rows` <= 32, of which all registers are there, and `width` wanted columns. */
template <class Unit>
INFUSE_INLINE void tile_product(TiledRows a, const int32_t* b, long blocks, long rows, long width,
                                void* out) {
  if (rows > TILE_SIDE)
    (width > TILE_SIDE ? tile_product<Unit, 2, 2> : tile_product<Unit, 2, 1>)(a, b, blocks, out);
  else
    (width > TILE_SIDE ? tile_product<Unit, 1, 2> : tile_product<Unit, 1, 1>)(a, b, blocks, out);
}

}  // namespace infuse
