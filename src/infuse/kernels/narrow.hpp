// Narrow integers and booleans in memory, int32 and masks in registers.
#pragma once

#include "simd.hpp"

namespace infuse {

namespace detail {
template <class T>
INFUSE_INLINE vi widen(const T* p) {
  typedef T narrow __attribute__((vector_size(LANES * sizeof(T))));
  narrow x;
  memcpy(&x, p, sizeof x);
  return __builtin_convertvector(x, vi);
}
// gcc 12 converts narrow vectors one lane at a time.
#if !defined(__clang__) && INFUSE_LANES >= 8 && defined(__AVX2__)
typedef char v16c __attribute__((vector_size(16)));
typedef short v_short __attribute__((vector_size(LANES * 2)));
typedef long long v2q __attribute__((vector_size(16)));
template <class V>
INFUSE_INLINE V raw(const void* p) {
  V x;
  if (LANES * sizeof(x[0]) == sizeof x) {
    memcpy(&x, p, sizeof x);
    return x;
  }
  long long half;
  memcpy(&half, p, sizeof half);
  v2q pair = {half, 0};
  memcpy(&x, &pair, sizeof half * 2);
  return x;
}
#if INFUSE_LANES == 16
#define INFUSE_WIDEN(T, V, op)                                        \
  template <>                                                         \
  INFUSE_INLINE vi widen(const T* p) {                                \
    return __builtin_ia32_##op##512_mask(raw<V>(p), vi{}, (short)-1); \
  }
INFUSE_WIDEN(int16_t, v_short, pmovsxwd)
INFUSE_WIDEN(uint16_t, v_short, pmovzxwd)
#else
#define INFUSE_WIDEN(T, V, op)                  \
  template <>                                   \
  INFUSE_INLINE vi widen(const T* p) {          \
    return __builtin_ia32_##op##256(raw<V>(p)); \
  }
INFUSE_WIDEN(int16_t, v_short, pmovsxwd)
INFUSE_WIDEN(uint16_t, v_short, pmovzxwd)
#endif
INFUSE_WIDEN(int8_t, v16c, pmovsxbd)
INFUSE_WIDEN(uint8_t, v16c, pmovzxbd)
#undef INFUSE_WIDEN
#endif
#if !defined(__clang__) && INFUSE_LANES >= 8
typedef char bytes __attribute__((vector_size(LANES)));
typedef char all_bytes __attribute__((vector_size(LANES * 4)));
INFUSE_INLINE bytes low_bytes(vi x) {
#if INFUSE_LANES == 16
  return __builtin_ia32_pmovdb512_mask(x, bytes{}, (unsigned short)-1);
#else
  all_bytes b = (all_bytes)x;
  return __builtin_shufflevector(b, b, 0, 4, 8, 12, 16, 20, 24, 28);
#endif
}
#endif
}  // namespace detail

// Loads int8, uint8, int16 or uint16 as int32.
template <class T>
INFUSE_INLINE vi load_wide(const T* p, Full) {
  return detail::widen(p);
}
template <class T>
INFUSE_INLINE vi load_wide(const T* p, Tail t) {
#if INFUSE_LANES == 16 && defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (sizeof(T) == 1) {
    typedef char part __attribute__((vector_size(16)));
    detail::reads(p, t.n);
#if defined(__clang__)
    const part x = __builtin_ia32_loaddquqi128_mask((const part*)p, part{}, detail::bits(t.n));
#else
    const part x = __builtin_ia32_loaddquqi128_mask((const char*)p, part{}, detail::bits(t.n));
#endif
    return detail::widen((const T*)&x);
  }
#endif
  T x[LANES] = {};
  for (int i = 0; i < t.n; ++i) x[i] = p[i];
  return load_wide(x, Full{});
}
template <class T>
INFUSE_INLINE int32_t load_wide(const T* p, One) {
  return int32_t(*p);
}

// Stores the low bits of each lane.
template <class T>
INFUSE_INLINE void store_narrow(T* p, vi x, Full) {
  typedef T narrow __attribute__((vector_size(LANES * sizeof(T))));
#if !defined(__clang__) && INFUSE_LANES >= 8
  if constexpr (sizeof(T) == 1) {
    detail::bytes b = detail::low_bytes(x);
    memcpy(p, &b, sizeof b);
    return;
  }
#endif
  narrow r = __builtin_convertvector(x, narrow);
  memcpy(p, &r, sizeof r);
}
template <class T>
INFUSE_INLINE void store_narrow(T* p, vi x, Tail t) {
#if INFUSE_LANES == 16
  if constexpr (sizeof(T) == 1) {
    typedef char part __attribute__((vector_size(16)));
    detail::writes(p, t.n);
    return __builtin_ia32_pmovdb512mem_mask((part*)p, x, detail::bits(t.n));
  }
#endif
  T r[LANES];
  store_narrow(r, x, Full{});
  for (int i = 0; i < t.n; ++i) p[i] = r[i];
}
template <class T>
INFUSE_INLINE void store_narrow(T* p, int32_t x, One) {
  *p = T(x);
}

// Booleans are bytes of 0 and 1 in memory, masks in registers.
template <class L>
INFUSE_INLINE vi load_mask(const bool* p, L lanes) {
  return load_wide((const uint8_t*)p, lanes) != vi{};
}
INFUSE_INLINE bool load_mask(const bool* p, One) { return *p; }
template <class L>
INFUSE_INLINE void store_mask(bool* p, vi x, L lanes) {
  store_narrow((uint8_t*)p, x & 1, lanes);
}
INFUSE_INLINE void store_mask(bool* p, bool x, One) { *p = x; }

}  // namespace infuse
