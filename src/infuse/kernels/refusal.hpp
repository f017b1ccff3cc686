// Why a process may not open a context.
#pragma once
#include "permission.hpp"
#include "processor.hpp"

namespace infuse {

/**
 * What the processor lacks, or that the system refuses tile registers, or that vectors have another
 * length, in words; null where nothing of that is so.
 */
INFUSE_ANYWHERE static const char* refusal() {
  const char* text = lacking();
  return text ? text : machine_granted() ? nullptr : REFUSAL;
}

}  // namespace infuse
