// Calls every instruction of AVX-512, VNNI and BF16 that kernels name, for test_emulation.py and
// test_emulation_bf16.py.
#include "driver.hpp"

#include "half.hpp"

typedef short v16s __attribute__((vector_size(32)));
typedef short v32s __attribute__((vector_size(64)));
typedef char v16c __attribute__((vector_size(16)));
typedef int32_t v8i __attribute__((vector_size(32)));

// Whole vectors in plain memory.
template <class V>
static V get(const void* p) {
  V x;
  memcpy(&x, p, sizeof x);
  return x;
}
template <class V>
static void put(void* p, V x) {
  memcpy(p, &x, sizeof x);
}

// Of the numbers in vectors of 16: to = name(a, other, mask) and the like.
#define UNARY(name, To, From, expression)                                                           \
  EXPORT void name(long n, const char* a, const char* other, int bits, char* to) {                   \
    for (long i = 0; i < n; ++i) {                                                                   \
      const auto x = get<From>(a + i * sizeof(From));                                                \
      const auto rest = get<To>(other + i * sizeof(To));                                             \
      const auto mask = (unsigned short)bits;                                                        \
      put(to + i * sizeof(To), expression);                                                          \
    }                                                                                                \
  }
#define BINARY(name, To, From, expression)                                                          \
  EXPORT void name(long n, const char* a, const char* b, const char* other, int bits, char* to) {    \
    for (long i = 0; i < n; ++i) {                                                                   \
      const auto x = get<From>(a + i * sizeof(From)), y = get<From>(b + i * sizeof(From));           \
      const auto rest = get<To>(other + i * sizeof(To));                                             \
      [[maybe_unused]] const auto mask = (unsigned short)bits;                                       \
      put(to + i * sizeof(To), expression);                                                          \
    }                                                                                                \
  }

UNARY(square_root, vf, vf, __builtin_ia32_sqrtps512_mask(x, rest, mask, 4))
UNARY(nearest, vf, vf, __builtin_ia32_rndscaleps_mask(x, 8, rest, mask, 4))
UNARY(down, vf, vf, __builtin_ia32_rndscaleps_mask(x, 9, rest, mask, 4))
UNARY(up, vf, vf, __builtin_ia32_rndscaleps_mask(x, 10, rest, mask, 4))
UNARY(to_zero, vf, vf, __builtin_ia32_rndscaleps_mask(x, 11, rest, mask, 4))
UNARY(from_half, vf, v16s, __builtin_ia32_vcvtph2ps512_mask(x, rest, mask, 4))
UNARY(to_half, v16s, vf, __builtin_ia32_vcvtps2ph512_mask(x, 0, rest, mask))
UNARY(low_bytes, v16c, vi, __builtin_ia32_pmovdb512_mask(x, rest, mask))
UNARY(wide_shorts, vi, v16s, __builtin_ia32_pmovsxwd512_mask(x, rest, mask))
UNARY(wide_words, vi, v16s, __builtin_ia32_pmovzxwd512_mask(x, rest, mask))
UNARY(wide_signed, vi, v16c, __builtin_ia32_pmovsxbd512_mask(x, rest, mask))
UNARY(wide_bytes, vi, v16c, __builtin_ia32_pmovzxbd512_mask(x, rest, mask))

// The third operand is `rest`, and where the mask is not set the first one stays.
BINARY(fused, vf, vf, __builtin_ia32_vfmaddps512_mask(x, y, rest, mask, 4))
BINARY(largest, vf, vf, __builtin_ia32_maxps512_mask(x, y, rest, mask, 4))
BINARY(smallest, vf, vf, __builtin_ia32_minps512_mask(x, y, rest, mask, 4))
BINARY(scaled, vf, vf, __builtin_ia32_scalefps512_mask(x, y, rest, mask, 4))
BINARY(pairs, vi, v32s, __builtin_ia32_pmaddwd512_mask(x, y, rest, mask))
BINARY(add_pairs, vi, vi, __builtin_ia32_vpdpwssd_v16si(rest, x, y))
BINARY(add_quads, vi, vi, __builtin_ia32_vpdpbusd_v16si(rest, x, y))

template <class V>
static vf add_halves(vf sum, V x, V y) {
  INFUSE_ADDING(vdpbf16ps, sum, x, y);
  return sum;
}
static vi add_bytes(vi sum, vi x, vi y) {
  INFUSE_ADDING(vpdpbusd, sum, x, y);
  return sum;
}
static v8i round_one(vf x) {
  v8i to;
  INFUSE_UNARY(vcvtneps2bf16, to, x);
  return to;
}
static vi round_two(vf x, vf y) {
  vi to;
  INFUSE_BINARY(vcvtne2ps2bf16, to, x, y);
  return to;
}
BINARY(add_bfloats, vf, vi, add_halves(rest, x, y))
BINARY(add_bfloats_of_floats, vf, vf, add_halves(rest, x, y))
BINARY(add_quads_by_name, vi, vi, add_bytes(rest, x, y))
BINARY(to_bfloats, vi, vf, ((void)rest, round_two(x, y)))
UNARY(to_bfloat, v8i, vf, ((void)rest, (void)mask, round_one(x)))

EXPORT void compare(const char* a, const char* b, int bits, int* to) {
  const vi x = get<vi>(a), y = get<vi>(b);
  const auto mask = (unsigned short)bits;
  to[0] = (unsigned short)__builtin_ia32_cmpd512_mask(x, y, 0, mask);
  to[1] = (unsigned short)__builtin_ia32_cmpd512_mask(x, y, 1, mask);
  to[2] = (unsigned short)__builtin_ia32_cmpd512_mask(x, y, 2, mask);
  to[3] = (unsigned short)__builtin_ia32_cmpd512_mask(x, y, 3, mask);
  to[4] = (unsigned short)__builtin_ia32_cmpd512_mask(x, y, 4, mask);
  to[5] = (unsigned short)__builtin_ia32_cmpd512_mask(x, y, 5, mask);
  to[6] = (unsigned short)__builtin_ia32_cmpd512_mask(x, y, 6, mask);
  to[7] = (unsigned short)__builtin_ia32_cmpd512_mask(x, y, 7, mask);
}

typedef double v8d __attribute__((vector_size(64)));

EXPORT void compare_numbers(const char* a, const char* b, int bits, int* to) {
  to[0] = (unsigned short)__builtin_ia32_cmpps512_mask(get<vf>(a), get<vf>(b), 1,
                                                       (unsigned short)bits, 4);
  to[1] = (unsigned char)__builtin_ia32_cmppd512_mask(get<v8d>(a), get<v8d>(b), 1,
                                                      (unsigned char)bits, 4);
}
EXPORT void fused_doubles(const char* a, const char* b, const char* c, int bits, char* to) {
  put(to, __builtin_ia32_vfmaddpd512_mask(get<v8d>(a), get<v8d>(b), get<v8d>(c),
                                          (unsigned char)bits, 4));
}

// Memory that may end behind the elements of the mask.
EXPORT void load_floats(const float* from, const char* other, int bits, char* to) {
  put(to, __builtin_ia32_loadups512_mask(from, get<vf>(other), (unsigned short)bits));
}
EXPORT void store_floats(float* to, const char* from, int bits) {
  __builtin_ia32_storeups512_mask(to, get<vf>(from), (unsigned short)bits);
}
EXPORT void load_bytes(const char* from, const char* other, int bits, char* to) {
  put(to, __builtin_ia32_loaddquqi128_mask(from, get<v16c>(other), (unsigned short)bits));
}
EXPORT void store_bytes(char* to, const char* from, int bits) {
  __builtin_ia32_pmovdb512mem_mask((v16c*)to, get<vi>(from), (unsigned short)bits);
}
EXPORT int kernels_use_them() { return LANES; }

// Three tile registers, sum += a · b, as `how` configures them; rows are 64 bytes apart.
#define TILED(name, instruction) \
  EXPORT void name(const char* how, const char* sum, const char* a, const char* b, char* to) { \
    INFUSE_TILES_CONFIGURE(how); \
    INFUSE_TILE_LOAD(0, sum, 64); \
    INFUSE_TILE_LOAD(1, a, 64); \
    INFUSE_TILE_LOAD(2, b, 64); \
    INFUSE_TILE_ADDING(instruction, 0, 1, 2); \
    INFUSE_TILE_STORE(0, to, 64); \
    INFUSE_TILES_RELEASE(); \
  }
TILED(tiled_pairs, tdpbf16ps)
TILED(tiled_quads, tdpbusd)

// The last of eight registers, through memory whose rows are that far apart, and as zeros.
EXPORT void move_tile(const char* how, const char* from, long stride, char* to, long step,
                      int zero) {
  INFUSE_TILES_CONFIGURE(how);
  INFUSE_TILE_LOAD(7, from, stride);
  if (zero) INFUSE_TILE_ZERO(7);
  INFUSE_TILE_STORE(7, to, step);
  INFUSE_TILES_RELEASE();
}
// All of a register behind a load of another configuration's fewer rows and bytes.
EXPORT void grow_tile(const char* narrow, const char* wide, const char* from, char* to) {
  INFUSE_TILES_CONFIGURE(wide);
  INFUSE_TILE_LOAD(3, from, 64);
  INFUSE_TILES_CONFIGURE(narrow);
  INFUSE_TILE_LOAD(3, from, 64);
  INFUSE_TILES_CONFIGURE(wide);
  INFUSE_TILE_STORE(3, to, 64);
  INFUSE_TILES_RELEASE();
}
EXPORT void zero_tile() { INFUSE_TILE_ZERO(0); }
EXPORT void zero_tile_of(const char* how) {
  INFUSE_TILES_CONFIGURE(how);
  INFUSE_TILE_ZERO(0);
}
EXPORT void zero_tile_after_release(const char* how) {
  INFUSE_TILES_CONFIGURE(how);
  INFUSE_TILES_RELEASE();
  INFUSE_TILE_ZERO(0);
}
