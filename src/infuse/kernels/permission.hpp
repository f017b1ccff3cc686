// Leave to use what code is made for and a system or processor may not have: tile registers, whose
// state Linux grants to a process that asks for it, with all its threads and the processes that it
// forks, and vectors of a stated length (SVE, RVV).
#pragma once

#if defined(INFUSE_BF16_TILES) || defined(INFUSE_U8S8_TILES)
#define INFUSE_TILES 1
#endif

#if defined(INFUSE_TILES) && !defined(INFUSE_TILES_GRANTED)
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
// ARCH_REQ_XCOMP_PERM of XFEATURE_XTILE_DATA.
#define INFUSE_TILES_GRANTED() (syscall(SYS_arch_prctl, 0x1023L, 18L) == 0)
#else
#define INFUSE_TILES_GRANTED() true
#endif
#endif

#if defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS > 0
#define INFUSE_VECTORS "SVE vectors of " INFUSE_TEXT(__ARM_FEATURE_SVE_BITS) " bits"
#elif defined(__riscv_v_min_vlen) && __riscv_v_min_vlen > 128
#define INFUSE_VECTORS "RVV vectors of " INFUSE_TEXT(__riscv_v_min_vlen) " bits or more"
#endif
#if defined(INFUSE_VECTORS)
#include <sys/auxv.h>
#define INFUSE_TEXT_OF(x) #x
#define INFUSE_TEXT(x) INFUSE_TEXT_OF(x)
#endif

namespace infuse {

/**
 * Whether this process may use the tile registers that the code is made for, if it is made for any,
 * and has vectors of the stated length. Tile registers are refused where the processor, the system
 * or a virtual machine has none, and while some thread has an alternate stack for signals that is
 * too small to save them.
 */
inline bool machine_granted() {
#if defined(INFUSE_TILES)
  return INFUSE_TILES_GRANTED();
#elif defined(INFUSE_VECTORS) && defined(__aarch64__)
  if ((getauxval(AT_HWCAP) >> 22 & 1) == 0) return false;  // HWCAP_SVE
  unsigned long bytes;
  __asm__ __volatile__("rdvl %0, #1" : "=r"(bytes));
  return bytes * 8 == __ARM_FEATURE_SVE_BITS;
#elif defined(INFUSE_VECTORS)
  if ((getauxval(AT_HWCAP) >> ('V' - 'A') & 1) == 0) return false;
  unsigned long bytes;
  __asm__ __volatile__("csrr %0, vlenb" : "=r"(bytes));
  return bytes * 8 >= __riscv_v_min_vlen;
#else
  return true;
#endif
}

#if defined(INFUSE_VECTORS)
constexpr const char* REFUSAL =
    "the model is compiled for " INFUSE_VECTORS
    ", and those of this process have another length: compile it for another target";
#else
constexpr const char* REFUSAL =
    "the system does not let this process use the tile registers (AMX) that the model is compiled "
    "for: open it before a thread gets a small alternate stack for signals, or compile it for "
    "another target";
#endif

}  // namespace infuse
