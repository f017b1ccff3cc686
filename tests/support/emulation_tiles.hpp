// The tile registers of AMX and their instructions, one set for each thread, with the meaning that
// Intel's manual gives them; what a processor answers with an exception, traps here.
#pragma once

// Not by its header, whose functions have the names of some that drivers call.
extern "C" char* getenv(const char*) noexcept;

namespace infuse {
namespace emulated {

struct Tile {
  int rows, bytes;
  alignas(64) uint8_t data[16][64];
};
struct Tiles {
  bool configured;
  Tile tile[8];
};
inline thread_local Tiles tiles;

INFUSE_EMULATED void require(bool holds) {
  if (!holds) __builtin_trap();
}
// A register that the configuration gives rows and columns.
inline Tile& tile(int number) {
  require(tiles.configured && number >= 0 && number < 8);
  Tile& one = tiles.tile[number];
  require(one.rows > 0 && one.bytes > 0);
  return one;
}

inline void tiles_release() { memset(&tiles, 0, sizeof tiles); }
// 64 bytes: palette, first row, 14 zeros, 16 times the bytes of a row, 16 times the rows.
inline void tiles_configure(const void* from) {
  uint8_t how[64];
  memcpy(how, from, sizeof how);
  tiles_release();
  require(how[0] <= 1 && how[1] == 0);
  for (int i = 2; i < 16; ++i) require(how[i] == 0);
  if (how[0] == 0) return;
  for (int i = 0; i < 16; ++i) {
    uint16_t bytes;
    memcpy(&bytes, how + 16 + 2 * i, sizeof bytes);
    const int rows = how[48 + i];
    require(bytes <= (i < 8 ? 64 : 0) && rows <= (i < 8 ? 16 : 0) && (bytes == 0) == (rows == 0));
    if (i < 8) tiles.tile[i].rows = rows, tiles.tile[i].bytes = bytes;
  }
  tiles.configured = true;
}

inline void tile_zero(int to) { memset(tile(to).data, 0, sizeof tile(to).data); }
// Rows and bytes that are not configured become zeros.
inline void tile_load(int to, const void* from, long stride) {
  Tile& one = tile(to);
  tile_zero(to);
  for (int i = 0; i < one.rows; ++i)
    memcpy(one.data[i], (const char*)from + i * stride, size_t(one.bytes));
}
inline void tile_store(int from, void* to, long stride) {
  const Tile& one = tile(from);
  for (int i = 0; i < one.rows; ++i) memcpy((char*)to + i * stride, one.data[i], size_t(one.bytes));
}

// Three registers whose sizes fit: sum[rows][columns] += a[rows][words] · b[words][columns].
struct Factors {
  Tile &sum, &a, &b;
  int rows, words, columns;
};
inline Factors factors(int sum, int a, int b) {
  Factors all = {tile(sum), tile(a), tile(b), 0, 0, 0};
  require(sum != a && sum != b && a != b);
  require(all.sum.rows == all.a.rows && all.sum.bytes == all.b.bytes);
  require(all.a.bytes % 4 == 0 && all.a.bytes / 4 == all.b.rows && all.b.bytes % 4 == 0);
  all.rows = all.sum.rows, all.words = all.a.bytes / 4, all.columns = all.b.bytes / 4;
  return all;
}

// A row of a register as a vector, zeros behind its columns; they stay zeros.
template <class V>
INFUSE_EMULATED V row_of(const Tile& from, int row) {
  V x;
  memcpy(&x, from.data[row], sizeof x);
  return x;
}
template <class V>
INFUSE_EMULATED void set_row(Tile& to, int row, V x) {
  memset(to.data[row], 0, sizeof to.data[row]);
  memcpy(to.data[row], &x, size_t(to.bytes));
}

// The products of both halves of the pairs are summed up apart, each rounded, and added at the end.
inline void tile_tdpbf16ps(int sum, int a, int b) {
  const Factors f = factors(sum, a, b);
  for (int m = 0; m < f.rows; ++m) {
    const auto left = row_of<i32x16>(f.a, m);
    f32x8 even[2] = {}, odd[2] = {};
    for (int k = 0; k < f.words; ++k) {
      const auto right = halves<u32x8>(row_of<i32x16>(f.b, k));
      const u32x8 x = u32x8{} + uint32_t(left[k]);
      const u32x8 columns[2] = {right.low, right.high};
      for (int i = 0; i < 2; ++i) {
        even[i] = add_product(even[i], x << 16, columns[i] << 16);
        odd[i] = add_product(odd[i], x & 0xffff0000, columns[i] & 0xffff0000);
      }
    }
    const auto plus = [](f32x8 x, f32x8 y) {
      return bits<f32x8>(without_denormals(bits<u32x8>(x + y)));
    };
    const auto before = halves<u32x8>(row_of<i32x16>(f.sum, m));
    const auto low = bits<f32x8>(without_denormals(before.low));
    const auto high = bits<f32x8>(without_denormals(before.high));
    const f32x8 first = plus(low, plus(even[0], odd[0])), last = plus(high, plus(even[1], odd[1]));
    set_row(f.sum, m, Halves<f32x8>{first, last});
  }
}
inline void tile_tdpbusd(int sum, int a, int b) {
  const Factors f = factors(sum, a, b);
  for (int m = 0; m < f.rows; ++m) {
    const auto left = row_of<i32x16>(f.a, m);
    auto total = row_of<i32x16>(f.sum, m);
    for (int k = 0; k < f.words; ++k)
      total = vpdpbusd(total, i32x16{} + left[k], row_of<i32x16>(f.b, k));
    set_row(f.sum, m, total);
  }
}

// Tests have the system refuse.
inline bool tiles_are_granted() { return getenv("INFUSE_EMULATED_TILES_REFUSED") == nullptr; }

}  // namespace emulated
}  // namespace infuse

#define INFUSE_TILES_GRANTED() ::infuse::emulated::tiles_are_granted()
#define INFUSE_TILES_CONFIGURE(from) ::infuse::emulated::tiles_configure(from)
#define INFUSE_TILES_RELEASE() ::infuse::emulated::tiles_release()
#define INFUSE_TILE_ZERO(to) ::infuse::emulated::tile_zero(to)
#define INFUSE_TILE_LOAD(to, from, stride) ::infuse::emulated::tile_load(to, from, stride)
#define INFUSE_TILE_STORE(from, to, stride) ::infuse::emulated::tile_store(from, to, stride)
#define INFUSE_TILE_ADDING(name, sum, a, b) ::infuse::emulated::tile_##name(sum, a, b)
