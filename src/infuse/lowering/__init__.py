"""Code generation: kernel groups, memory plan, C++ text, toolchain and cache."""
