// Why a process may not open a context.
#pragma once
#include "permission.hpp"
#include "processor.hpp"

namespace infuse {

/** What the processor lacks, or that the system refuses tile registers, in words; null where neither
 * is so. */
INFUSE_ANYWHERE static const char* refusal() {
  const char* text = lacking();
  return text ? text : tiles_granted() ? nullptr : TILES_REFUSED;
}

}  // namespace infuse
