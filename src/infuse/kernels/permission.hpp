// Leave to use tile registers: Linux grants their state to a process that asks for it, with all its
// threads and the processes that it forks.
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

namespace infuse {

/**
 * Whether this process may use the tile registers that the code is made for, if it is made for any.
 * Refused where the processor, the system or a virtual machine has none, and while some thread has
 * an alternate stack for signals that is too small to save them.
 */
inline bool tiles_granted() {
#if defined(INFUSE_TILES)
  return INFUSE_TILES_GRANTED();
#else
  return true;
#endif
}

constexpr const char* TILES_REFUSED =
    "the system does not let this process use the tile registers (AMX) that the model is compiled "
    "for: open it before a thread gets a small alternate stack for signals, or compile it for "
    "another target";

}  // namespace infuse
