// Transposes of blocks, in registers where they fit.
#pragma once
#include "simd.hpp"

namespace infuse {
namespace copying {

constexpr int tile_side(int bytes) {
  return bytes == 16 ? 8 : (bytes >= 4 ? LANES * 4 : 16) / bytes;
}

/** The square of elements that is turned in registers. */
template <class T>
struct Tile {
  static constexpr int SIDE = tile_side(sizeof(T));
  static constexpr int BYTES = SIDE * sizeof(T);
  typedef T vector __attribute__((vector_size(BYTES), aligned(BYTES)));
};

template <int... I>
struct Indices {};
template <int N, int... I>
struct CountTo : CountTo<N - 1, N - 1, I...> {};
template <int... I>
struct CountTo<0, I...> {
  typedef Indices<I...> type;
};

/** Exchanges the off-diagonal blocks of side Step in two rows. */
template <int Step, class V, int... I>
INFUSE_INLINE void exchange(V& a, V& b, Indices<I...>) {
  constexpr int N = sizeof...(I);
  V low = __builtin_shufflevector(a, b, (I & Step ? I - Step + N : I)...);
  V high = __builtin_shufflevector(a, b, (I & Step ? I + N : I + Step)...);
  a = low;
  b = high;
}

template <int Side, int Step, class V>
INFUSE_INLINE void turn(V* rows) {
  if constexpr (Step > 0) {
#pragma GCC unroll 16
    for (int i = 0; i < Side; ++i)
      if (!(i & Step)) exchange<Step>(rows[i], rows[i + Step], typename CountTo<Side>::type());
    turn<Side, Step / 2>(rows);
  }
}

/** to[j][l] = from[l][j] for one full tile. */
template <class T>
INFUSE_INLINE void turn_tile(T* to, isize to_stride, const T* from, isize from_stride) {
  constexpr int SIDE = Tile<T>::SIDE;
  typename Tile<T>::vector rows[SIDE];
#pragma GCC unroll 16
  for (int i = 0; i < SIDE; ++i) memcpy(&rows[i], from + i * from_stride, sizeof rows[i]);
  turn<SIDE, SIDE / 2>(rows);
#pragma GCC unroll 16
  for (int i = 0; i < SIDE; ++i) memcpy(to + i * to_stride, &rows[i], sizeof rows[i]);
}

/** to[j][l] = from[l][j] for j < width, l < height, less than a tile in one of them. */
template <class T>
inline void turn_edge(T* to, isize to_stride, const T* from, isize from_stride, isize width,
                      isize height) {
  if constexpr (sizeof(T) == 4) {
    vf rows[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; ++i) {
      const float* row = reinterpret_cast<const float*>(from + i * from_stride);
      rows[i] = i < height ? load(row, Tail{int(width)}) : vf{};
    }
    turn<LANES, LANES / 2>(rows);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; ++i) {
      float* row = reinterpret_cast<float*>(to + i * to_stride);
      if (i < width) store(row, rows[i], Tail{int(height)});
    }
  } else {
    for (isize l = 0; l < height; ++l)
      for (isize j = 0; j < width; ++j) to[j * to_stride + l] = from[l * from_stride + j];
  }
}

/**
 * Calls f(i, count) for the tiles of n elements. Where there is a whole one, the last lies over the
 * one before it, so that all are whole.
 */
template <isize SIDE, class F>
INFUSE_INLINE void each_tile(isize n, const F& f) {
  const isize last = n - SIDE;
  for (isize i = 0; i < n; i += SIDE) f(last > 0 && i > last ? last : i, n < SIDE ? n : SIDE);
}

/** to[j][l] = from[l][j] for j < width, l < height. */
template <class T>
INFUSE_NOINLINE void turn_block(T* to, isize to_stride, const T* from, isize from_stride, isize width,
                                isize height) {
  constexpr isize SIDE = tile_side(sizeof(T)), AHEAD = 128 / sizeof(T);
  each_tile<SIDE>(height, [&](isize l, isize high) __attribute__((always_inline)) {
    each_tile<SIDE>(width, [&](isize j, isize wide) __attribute__((always_inline)) {
      T* target = to + j * to_stride + l;
      const T* source = from + l * from_stride + j;
#pragma GCC unroll 16
      for (isize i = 0; i < SIDE; ++i) prefetch_to_write(target + i * to_stride + AHEAD);
      if constexpr (sizeof(T) < 16) {
        if (high == SIDE && wide == SIDE)
          return turn_tile<T>(target, to_stride, source, from_stride);
      }
      turn_edge<T>(target, to_stride, source, from_stride, wide, high);
    });
  });
}

/** As turn_block, of numbers of 4 bytes. */
inline void turn_words(void* to, isize to_stride, const void* from, isize from_stride, isize width,
                       isize height) {
  turn_block(static_cast<uint32_t*>(to), to_stride, static_cast<const uint32_t*>(from), from_stride,
             width, height);
}

/** A few rows become interleaved: to[i * N + l] = from[l * stride + i]. */
template <int N, class T>
inline void interleave(T* __restrict to, const T* __restrict from, isize stride, isize count) {
  for (isize i = 0; i < count; ++i)
    for (int l = 0; l < N; ++l) to[i * N + l] = from[l * stride + i];
}

/** Interleaved values become rows: to[l * stride + i] = from[i * N + l]. */
template <int N, class T>
inline void separate(T* __restrict to, isize stride, const T* __restrict from, isize count) {
  for (isize i = 0; i < count; ++i)
    for (int l = 0; l < N; ++l) to[l * stride + i] = from[i * N + l];
}

/** Elements First, First + 2, … of two vectors side by side. */
template <int First, int... I>
INFUSE_INLINE vf every_second(vf a, vf b, Indices<I...>) {
  return __builtin_shufflevector(a, b, (2 * I + First)...);
}

/** As separate, of pairs of 4 bytes. */
inline void separate_pairs(float* to, isize stride, const float* from, isize count) {
  const typename CountTo<LANES>::type all{};
  sweep(0, count, [&](isize i, auto lanes) __attribute__((always_inline)) {
    const float* pairs = from + 2 * i;
    const int n = 2 * infuse::count(lanes), first = n < LANES ? n : LANES;
    const vf a = load(pairs, Tail{first}), b = load(pairs + LANES, Tail{n - first});
    store(to + i, every_second<0>(a, b, all), lanes);
    store(to + stride + i, every_second<1>(a, b, all), lanes);
  });
}

template <class T>
inline void interleave_any(T* to, const T* from, isize stride, isize count, isize rows) {
  if (rows == 2) interleave<2>(to, from, stride, count);
  if (rows == 3) interleave<3>(to, from, stride, count);
  if (rows == 4) interleave<4>(to, from, stride, count);
}

template <class T>
inline void separate_any(T* to, isize stride, const T* from, isize count, isize rows) {
  if (rows == 2) {
    if constexpr (sizeof(T) == 4)
      separate_pairs(reinterpret_cast<float*>(to), stride, reinterpret_cast<const float*>(from),
                     count);
    else
      separate<2>(to, stride, from, count);
  }
  if (rows == 3) separate<3>(to, stride, from, count);
  if (rows == 4) separate<4>(to, stride, from, count);
}

}  // namespace copying
}  // namespace infuse
