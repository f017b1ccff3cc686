// Instructions that compilers share no name for, and a hold on registers.
//
// A macro each, so that a test may put functions in their place (testing/emulation.hpp).
#pragma once

#if !defined(INFUSE_HOLD)

// Keeps a vector in a register, so that it is not loaded again for every use.
#if defined(__AVX512F__)
#define INFUSE_HOLD(x) __asm__("" : "+v"(x))
#elif defined(__x86_64__)
#define INFUSE_HOLD(x) __asm__("" : "+x"(x))
#else
#define INFUSE_HOLD(x) (void)(x)
#endif

// to = name(x), to = name(a, b), and an instruction that adds to `sum`.
#define INFUSE_UNARY(name, to, x) __asm__(#name " %1, %0" : "=v"(to) : "v"(x))
#define INFUSE_BINARY(name, to, a, b) __asm__(#name " %2, %1, %0" : "=v"(to) : "v"(a), "v"(b))
#define INFUSE_ADDING(name, sum, a, b) __asm__(#name " %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b))

// The same on 64-bit ARM, of operands that are split into `parts`.
#define INFUSE_DOT(name, parts, sum, a, b) \
  __asm__(#name " %0.4s, %1." parts ", %2." parts : "+w"(sum) : "w"(a), "w"(b))

#endif
