#!/usr/bin/env bash
# Clang 22.1.8 (the package ziglang 0.17.0): a comparison of two vectors of float, of the kind that
# GCC and Clang share (vector_size), has lanes of int on 64-bit Linux and macOS, and lanes of LONG on
# WebAssembly, 32-bit ARM, 32-bit x86 and 64-bit Windows. Both have 32 bits, and Clang converts one
# into the other without a word where a function takes a vector of int; but a template, `auto`,
# decltype and an overload see another type. So the same source takes another overload there: one
# for vectors of int is passed over in favour of a template for anything.
#
# Guesses that miss: int32_t is int on all of these, and a vector of int32_t is no better; GCC gives
# lanes of int everywhere; on 64-bit Windows, nothing about the code is of 32 bits.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ziglang==0.17.0
cat > "$folder/lanes.cpp" <<'CPP'
typedef float floats __attribute__((vector_size(16)));
typedef int ints __attribute__((vector_size(16)));
typedef long longs __attribute__((vector_size(4 * sizeof(long))));
template <class T> char (&taken(T))[1];
char (&taken(ints))[2];
inline floats a, b;
static_assert(sizeof(int) == 4, "");
#if LONG_LANES
static_assert(__is_same(decltype(a < b), longs), "");
static_assert(sizeof(long) == 4, "");
static_assert(sizeof(taken(a < b)) == 1, "the template");
#else
static_assert(__is_same(decltype(a < b), ints), "");
static_assert(sizeof(taken(a < b)) == 2, "the overload");
#endif
CPP
clang() { "$folder/venv/bin/python" -m ziglang c++ -std=c++17 -c "$@" "$folder/lanes.cpp" -o "$folder/lanes.o"; }
"$folder/venv/bin/python" -m ziglang clang --version | head -1
for target in x86_64-linux-gnu aarch64-linux-gnu aarch64-macos riscv64-linux-gnu; do
  clang -target "$target" -DLONG_LANES=0
  echo "$target: lanes of int"
done
for target in wasm32-wasi arm-linux-gnueabihf x86-linux-gnu x86_64-windows-gnu; do
  clang -target "$target" -DLONG_LANES=1
  echo "$target: lanes of long"
done
