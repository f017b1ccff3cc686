// Whether the processor has the instructions that compilers were told to use, asked by functions that
// use none of them. Where a system has no way to tell (macOS, iOS, Windows on ARM, WebAssembly,
// which refuses the module itself) nothing is missing.
#pragma once
#include <stdint.h>

#if defined(INFUSE_EMULATED)
#define INFUSE_ANYWHERE
#elif defined(__x86_64__)
#include <cpuid.h>
/** Of functions that run on every processor of the family. */
#define INFUSE_ANYWHERE \
  __attribute__((noinline, \
                 target("no-avx,no-bmi,no-bmi2,no-movbe,no-lzcnt,no-popcnt,no-sse3")))
#elif defined(__linux__)
#include <sys/auxv.h>
#define INFUSE_ANYWHERE __attribute__((noinline))
#else
#define INFUSE_ANYWHERE
#endif

namespace infuse {

#define INFUSE_LACKS(name) \
  "this processor has no " name ", which the code is compiled for: compile it for another target"

#if defined(__x86_64__) && !defined(INFUSE_EMULATED)

/** A bit of what CPUID tells. `state`: bits of registers that the system has to save. */
struct Need {
  uint32_t leaf, part;
  int word, bit;
  uint32_t state;
  const char* text;
};
enum { EAX, EBX, ECX, EDX };
constexpr uint32_t XMM_YMM = 0x06, ZMM = 0xe6, TILES = 0x60000;

static const Need NEEDS[] = {
#if defined(__SSE3__)
    {1, 0, ECX, 0, 0, INFUSE_LACKS("sse3")},
#endif
#if defined(__SSSE3__)
    {1, 0, ECX, 9, 0, INFUSE_LACKS("ssse3")},
#endif
#if defined(__SSE4_1__)
    {1, 0, ECX, 19, 0, INFUSE_LACKS("sse4_1")},
#endif
#if defined(__SSE4_2__)
    {1, 0, ECX, 20, 0, INFUSE_LACKS("sse4_2")},
#endif
#if defined(__POPCNT__)
    {1, 0, ECX, 23, 0, INFUSE_LACKS("popcnt")},
#endif
#if defined(__AVX__)
    {1, 0, ECX, 28, XMM_YMM, INFUSE_LACKS("avx")},
#endif
#if defined(__F16C__)
    {1, 0, ECX, 29, XMM_YMM, INFUSE_LACKS("f16c")},
#endif
#if defined(__FMA__)
    {1, 0, ECX, 12, XMM_YMM, INFUSE_LACKS("fma")},
#endif
#if defined(__MOVBE__)
    {1, 0, ECX, 22, 0, INFUSE_LACKS("movbe")},
#endif
#if defined(__LZCNT__)
    {0x80000001, 0, ECX, 5, 0, INFUSE_LACKS("abm")},
#endif
#if defined(__AVX2__)
    {7, 0, EBX, 5, XMM_YMM, INFUSE_LACKS("avx2")},
#endif
#if defined(__BMI__)
    {7, 0, EBX, 3, 0, INFUSE_LACKS("bmi1")},
#endif
#if defined(__BMI2__)
    {7, 0, EBX, 8, 0, INFUSE_LACKS("bmi2")},
#endif
#if defined(__GFNI__)
    {7, 0, ECX, 8, 0, INFUSE_LACKS("gfni")},
#endif
#if defined(__AVX512F__)
    {7, 0, EBX, 16, ZMM, INFUSE_LACKS("avx512f")},
#endif
#if defined(__AVX512DQ__)
    {7, 0, EBX, 17, ZMM, INFUSE_LACKS("avx512dq")},
#endif
#if defined(__AVX512CD__)
    {7, 0, EBX, 28, ZMM, INFUSE_LACKS("avx512cd")},
#endif
#if defined(__AVX512BW__)
    {7, 0, EBX, 30, ZMM, INFUSE_LACKS("avx512bw")},
#endif
#if defined(__AVX512VL__)
    {7, 0, EBX, 31, ZMM, INFUSE_LACKS("avx512vl")},
#endif
#if defined(__AVX512IFMA__)
    {7, 0, EBX, 21, ZMM, INFUSE_LACKS("avx512ifma")},
#endif
#if defined(__AVX512VBMI__)
    {7, 0, ECX, 1, ZMM, INFUSE_LACKS("avx512vbmi")},
#endif
#if defined(__AVX512VBMI2__)
    {7, 0, ECX, 6, ZMM, INFUSE_LACKS("avx512_vbmi2")},
#endif
#if defined(__AVX512VNNI__)
    {7, 0, ECX, 11, ZMM, INFUSE_LACKS("avx512_vnni")},
#endif
#if defined(__AVX512BITALG__)
    {7, 0, ECX, 12, ZMM, INFUSE_LACKS("avx512_bitalg")},
#endif
#if defined(__AVX512VPOPCNTDQ__)
    {7, 0, ECX, 14, ZMM, INFUSE_LACKS("avx512_vpopcntdq")},
#endif
#if defined(__AVX512FP16__)
    {7, 0, EDX, 23, ZMM, INFUSE_LACKS("avx512_fp16")},
#endif
#if defined(__AVX512BF16__)
    {7, 1, EAX, 5, ZMM, INFUSE_LACKS("avx512_bf16")},
#endif
#if defined(__AVXVNNI__)
    {7, 1, EAX, 4, XMM_YMM, INFUSE_LACKS("avx_vnni")},
#endif
#if defined(__AMX_TILE__)
    {7, 0, EDX, 24, TILES, INFUSE_LACKS("amx_tile")},
#endif
#if defined(__AMX_INT8__)
    {7, 0, EDX, 25, TILES, INFUSE_LACKS("amx_int8")},
#endif
#if defined(__AMX_BF16__)
    {7, 0, EDX, 22, TILES, INFUSE_LACKS("amx_bf16")},
#endif
    {0, 0, 0, 0, 0, nullptr},
};

/** Bits of the states of registers that the system saves. */
INFUSE_ANYWHERE static uint32_t saved_states() {
  uint32_t words[4], low, high;
  __cpuid(1, words[0], words[1], words[2], words[3]);
  if (!(words[ECX] >> 27 & 1)) return 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

/** Whether CPUID tells of an instruction set, and the system saves its registers. */
INFUSE_ANYWHERE static bool has_need(const Need* need, uint32_t states) {
  uint32_t words[4];
  if ((states & need->state) != need->state) return false;
  __cpuid(need->leaf & 0x80000000, words[0], words[1], words[2], words[3]);
  if (words[EAX] < need->leaf) return false;
  __cpuid_count(need->leaf, 0, words[0], words[1], words[2], words[3]);
  if (need->part) {
    if (words[EAX] < need->part) return false;
    __cpuid_count(need->leaf, need->part, words[0], words[1], words[2], words[3]);
  }
  return words[need->word] >> need->bit & 1;
}

/** What instructions the processor lacks, in words; null where it has all. */
INFUSE_ANYWHERE static const char* lacking() {
  const uint32_t states = saved_states();
  for (const Need* each = NEEDS; each->text; ++each)
    if (!has_need(each, states)) return each->text;
  return nullptr;
}

#elif defined(__linux__) && !defined(INFUSE_EMULATED)

/** A bit of what the kernel tells of the processor. */
struct Need {
  unsigned long key;
  int bit;
  const char* text;
};

static const Need NEEDS[] = {
#if defined(__aarch64__)
#if defined(__ARM_FEATURE_DOTPROD)
    {AT_HWCAP, 20, INFUSE_LACKS("asimddp")},
#endif
#if defined(__ARM_FEATURE_ATOMICS)
    {AT_HWCAP, 8, INFUSE_LACKS("atomics")},
#endif
#if defined(__ARM_FEATURE_QRDMX)
    {AT_HWCAP, 12, INFUSE_LACKS("asimdrdm")},
#endif
#if defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
    {AT_HWCAP, 10, INFUSE_LACKS("asimdhp")},
#endif
#if defined(__ARM_FEATURE_SVE)
    {AT_HWCAP, 22, INFUSE_LACKS("sve")},
#endif
#if defined(__ARM_FEATURE_SVE2)
    {AT_HWCAP2, 1, INFUSE_LACKS("sve2")},
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8)
    {AT_HWCAP2, 13, INFUSE_LACKS("i8mm")},
#endif
#if defined(__ARM_FEATURE_BF16)
    {AT_HWCAP2, 14, INFUSE_LACKS("bf16")},
#endif
#elif defined(__arm__)
#if defined(__ARM_NEON)
    {AT_HWCAP, 12, INFUSE_LACKS("neon")},
#endif
#if defined(__ARM_FEATURE_FMA)
    {AT_HWCAP, 16, INFUSE_LACKS("vfpv4")},
#endif
#elif defined(__riscv_v)
    {AT_HWCAP, 21, INFUSE_LACKS("v")},
#endif
    {0, 0, nullptr},
};

INFUSE_ANYWHERE static const char* lacking() {
  for (const Need* each = NEEDS; each->text; ++each)
    if (!(getauxval(each->key) >> each->bit & 1)) return each->text;
  return nullptr;
}

#else

static inline const char* lacking() { return nullptr; }

#endif

#undef INFUSE_LACKS

}  // namespace infuse
