// Runs a compiled model that it is linked with: platform_driver WEIGHTS REQUEST ANSWER (tests/native/platforms.py);
// - stands for weights inside of it.
//
// The request holds 8-byte integers: the number of threads, of symbols and their values, of inputs and for each its
// bytes and those, of outputs and for each its rank and the bytes of an element. The answer: the status, then for each
// output its sizes and its elements, or the text of the failure.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

static FILE* request;

static int64_t number(void) {
  int64_t value;
  if (fread(&value, sizeof value, 1, request) != 1) exit(3);
  return value;
}

/** `bytes` bytes at an address that is a multiple of 64. */
static char* aligned(size_t bytes) {
  char* memory = malloc(bytes + 128);
  if (!memory) exit(5);
  return memory + (64 - (uintptr_t)memory % 64);
}

static void* content(const char* path) {
  FILE* file = fopen(path, "rb");
  if (!file) exit(4);
  fseek(file, 0, SEEK_END);
  const long size = ftell(file);
  rewind(file);
  void* memory = aligned((size_t)size);
  if (fread(memory, 1, (size_t)size, file) != (size_t)size) exit(5);
  fclose(file);
  return memory;
}

int main(int count, char** arguments) {
  if (count != 4) return 2;
  request = fopen(arguments[2], "rb");
  FILE* answer = fopen(arguments[3], "wb");
  if (!request || !answer) return 7;
  const int threads = (int)number();
  const int64_t symbols = number();
  int64_t* values = calloc((size_t)symbols + 1, sizeof *values);
  for (int64_t i = 0; i < symbols; ++i) values[i] = number();
  const int64_t inputs = number();
  const void** feeds = calloc((size_t)inputs + 1, sizeof *feeds);
  for (int64_t i = 0; i < inputs; ++i) {
    const int64_t bytes = number();
    void* memory = malloc((size_t)bytes + 1);
    if (fread(memory, 1, (size_t)bytes, request) != (size_t)bytes) return 8;
    feeds[i] = memory;
  }
  const int64_t outputs = number();
  int64_t *ranks = calloc((size_t)outputs + 1, 8), *sizes = calloc((size_t)outputs + 1, 8), total = 0;
  for (int64_t i = 0; i < outputs; ++i) ranks[i] = number(), sizes[i] = number(), total += ranks[i];

  void* context = infuse_open(arguments[1][0] == '-' ? NULL : content(arguments[1]), threads);
  if (!context) return fputs(infuse_error(NULL), stderr), 10;  // only code that may refuse
  int64_t* dims = calloc((size_t)total + 1, 8);
  int64_t status = infuse_shapes(values, dims) ? 100 : 0;
  void** results = calloc((size_t)outputs + 1, sizeof *results);
  const int64_t* at = dims;
  for (int64_t i = 0; !status && i < outputs; at += ranks[i], ++i) {
    int64_t bytes = sizes[i];
    for (int64_t j = 0; j < ranks[i]; ++j) bytes *= at[j] < 0 ? 0 : at[j];
    results[i] = malloc((size_t)bytes + 64);
  }
  if (!status) status = infuse_run(context, values, feeds, results);
  fwrite(&status, sizeof status, 1, answer);
  if (status) {
    fputs(status == 100 ? "the sizes are invalid" : infuse_error(context), answer);
  } else {
    int64_t* actual = dims;
    for (int64_t i = 0; i < outputs; actual += ranks[i], ++i) {
      const void* own = infuse_output(context, (int)i, actual);
      int64_t bytes = sizes[i];
      for (int64_t j = 0; j < ranks[i]; ++j) bytes *= actual[j];
      fwrite(actual, sizeof *actual, (size_t)ranks[i], answer);
      fwrite(own ? own : results[i], 1, (size_t)bytes, answer);
    }
  }
  infuse_close(context);
  return fclose(answer) ? 9 : 0;
}
