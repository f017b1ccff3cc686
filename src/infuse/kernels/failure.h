// What a kernel returns that found something wrong; 0 says that all is well.
#pragma once
#include "interface.h"

#ifdef __cplusplus
namespace infuse {
#endif

enum Failure {
  NO_MEMORY = 1,
  BAD_INDEX = 2,
  DIFFERENT_SIZES = 3,
  DIVIDES_BY_ZERO = 4,
  BAD_SIZES = 5,
  ENDLESS = 6,
  ASSERTION = 7,
  CANCELLED = 8,
  LOST = 9,
};

/** The reason in words. */
static inline const char* failure_text(int failure) {
  switch (failure) {
    case NO_MEMORY: return "out of memory";
    case BAD_INDEX: return "an index lies outside of the tensor it selects from";
    case DIFFERENT_SIZES: return "sizes that must be equal differ";
    case DIVIDES_BY_ZERO: return "a division of integers by zero";
    case BAD_SIZES: return "the sizes that are asked for are impossible";
    case ENDLESS: return "the loop does not end";
    case ASSERTION: return "an asserted condition does not hold";
    case CANCELLED: return "the run was cancelled";
    case LOST: return "a thread of the model ended with an error: open it anew";
  }
  return "it failed";
}

/** What the interface returns for it. */
static inline int failure_status(int failure) {
  switch (failure) {
    case 0: return INFUSE_OK;
    case NO_MEMORY: return INFUSE_OUT_OF_MEMORY;
    case CANCELLED: return INFUSE_CANCELLED;
  }
  return INFUSE_BAD_DATA;
}

/** A code of the interface in words. */
static inline const char* status_text(int status) {
  switch (status) {
    case INFUSE_OK: return "all is well";
    case INFUSE_OUT_OF_MEMORY: return "out of memory";
    case INFUSE_BAD_DATA: return "the inputs or their sizes are invalid";
    case INFUSE_CANCELLED: return "the run was cancelled";
    case INFUSE_BAD_OPTIONS:
      return "the options are invalid: another version of the header, weights of another length, "
             "or addresses that are not multiples of 64";
    case INFUSE_BUSY: return "the context runs another call";
    case INFUSE_REFUSED:
      return "the processor lacks instructions that the code is compiled for, or the system does not "
             "let this process use its tile registers (AMX), or its vectors have another length";
  }
  return "an unknown code";
}

#ifdef __cplusplus
}  // namespace infuse
#endif
