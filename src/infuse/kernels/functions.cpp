// What a library of closed functions tells of itself.
#define INFUSE_POOL_APART
#include "program.hpp"

using namespace infuse;

/** The target of this library, the features that it needs, and the stamp of its kernels: lines. */
INFUSE_API const char* infuse_library(void) { return LIBRARY_FACTS; }

/** Its functions, for programs of other libraries with the same facts (`infuse_program_load`). */
INFUSE_API const void* infuse_function_table(void) { return &LIBRARY_TABLE; }

INFUSE_API isize infuse_functions(const char** names, isize room) {
  const FunctionTable& t = LIBRARY_TABLE;
  const isize count = t.function_count + t.element_count;
  for (isize i = 0; i < count && i < room; ++i)
    names[i] = i < t.function_count ? t.functions[i].name : t.elements[i - t.function_count].name;
  return count;
}
