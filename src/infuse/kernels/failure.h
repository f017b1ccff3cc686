// What a kernel returns that found something wrong; 0 says that all is well.
#pragma once

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
  }
  return "it failed";
}

#ifdef __cplusplus
}  // namespace infuse
#endif
