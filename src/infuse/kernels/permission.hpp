// Leave to use what code is made for and a system or processor may not have: tile registers, whose
// state Linux grants to a process that asks for it, with all its threads and the processes that it
// forks, and vectors of a stated length (SVE).
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
#include <sys/auxv.h>
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
#elif defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS > 0
  if ((getauxval(AT_HWCAP) >> 22 & 1) == 0) return false;  // HWCAP_SVE
  unsigned long bytes;
  __asm__ __volatile__("rdvl %0, #1" : "=r"(bytes));
  return bytes * 8 == __ARM_FEATURE_SVE_BITS;
#else
  return true;
#endif
}

#if defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS > 0
#define INFUSE_TEXT_OF(x) #x
#define INFUSE_TEXT(x) INFUSE_TEXT_OF(x)
constexpr const char* REFUSAL =
    "the model is compiled for SVE vectors of " INFUSE_TEXT(__ARM_FEATURE_SVE_BITS)
    " bits, and those of this process have another length: compile it for another target";
#else
constexpr const char* REFUSAL =
    "the system does not let this process use the tile registers (AMX) that the model is compiled "
    "for: open it before a thread gets a small alternate stack for signals, or compile it for "
    "another target";
#endif

}  // namespace infuse
