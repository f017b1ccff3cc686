// Runs a compiled model once: foreign_driver MODEL.SO WEIGHTS REQUEST ANSWER, for tests/native/foreign.py;
// with PROGRAM behind it, a library of prebuilt kernels that program.
//
// The request holds 8-byte integers: the number of threads, of symbols and their values, of inputs and for each its
// bytes and those, of outputs and for each its rank and the bytes of an element. The answer: the status, then for each
// output its sizes and its elements, or the text of the failure.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static FILE* request;

static int64_t number(void) {
  int64_t found;
  if (fread(&found, sizeof found, 1, request) != 1) exit(3);
  return found;
}

static long bytes_read;

static void* content(const char* path) {
  FILE* file = fopen(path, "rb");
  if (!file) exit(4);
  fseek(file, 0, SEEK_END);
  const long size = ftell(file);
  rewind(file);
  void* memory = aligned_alloc(64, ((size_t)size + 127) / 64 * 64);
  if (!memory || fread(memory, 1, (size_t)size, file) != (size_t)size) exit(5);
  fclose(file);
  bytes_read = size;
  return memory;
}

int main(int count, char** arguments) {
  if (count != 5 && count != 6) return 2;
  void* library = dlopen(arguments[1], RTLD_NOW);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 6;
  void* (*open)(const void*, int) = dlsym(library, "infuse_open");
  int (*shapes)(const int64_t*, int64_t*) = dlsym(library, "infuse_shapes");
  void* (*load)(const void*, int64_t, const void*, int64_t, const void*, char*, int64_t) =
      dlsym(library, "infuse_program_load");
  void* (*start)(void*, int) = dlsym(library, "infuse_program_open");
  int (*sized)(void*, const int64_t*, int64_t*) = dlsym(library, "infuse_program_shapes");
  int (*run)(void*, const int64_t*, const void* const*, void* const*) = dlsym(library, "infuse_run");
  const void* (*late)(void*, int, int64_t*) = dlsym(library, "infuse_output");
  const char* (*error)(void*) = dlsym(library, "infuse_error");
  void (*close)(void*) = dlsym(library, "infuse_close");

  request = fopen(arguments[3], "rb");
  FILE* answer = fopen(arguments[4], "wb");
  if (!request || !answer) return 7;
  const int threads = (int)number();
  const int64_t symbols = number();
  int64_t* values = calloc((size_t)symbols + 1, sizeof *values);
  for (int64_t i = 0; i < symbols; ++i) values[i] = number();
  const int64_t inputs = number();
  const void** given = calloc((size_t)inputs + 1, sizeof *given);
  for (int64_t i = 0; i < inputs; ++i) {
    const int64_t bytes = number();
    void* memory = malloc((size_t)bytes + 1);
    if (fread(memory, 1, (size_t)bytes, request) != (size_t)bytes) return 8;
    given[i] = memory;
  }
  const int64_t outputs = number();
  int64_t *ranks = calloc((size_t)outputs + 1, 8), *sizes = calloc((size_t)outputs + 1, 8), total = 0;
  for (int64_t i = 0; i < outputs; ++i) ranks[i] = number(), sizes[i] = number(), total += ranks[i];

  const void* weights = content(arguments[2]);
  void* program = NULL;
  if (count == 6) {
    char why[512];
    const int64_t weight_bytes = bytes_read;
    const void* code = content(arguments[5]);
    program = load(code, bytes_read, weights, weight_bytes, NULL, why, sizeof why);
    if (!program) return fprintf(stderr, "%s\n", why), 10;
  }
  void* context = program ? start(program, threads) : open(weights, threads);
  int64_t* dims = calloc((size_t)total + 1, 8);
  int64_t status = context ? 0 : 5;  // INFUSE_REFUSED
  if (!status && (program ? sized(program, values, dims) : shapes(values, dims))) status = 100;
  void** made = calloc((size_t)outputs + 1, sizeof *made);
  const int64_t* at = dims;
  for (int64_t i = 0; !status && i < outputs; at += ranks[i], ++i) {
    int64_t bytes = sizes[i];
    for (int64_t j = 0; j < ranks[i]; ++j) bytes *= at[j] < 0 ? 0 : at[j];
    made[i] = malloc((size_t)bytes + 64);
  }
  if (!status) status = run(context, values, given, made);
  fwrite(&status, sizeof status, 1, answer);
  if (status) {
    fputs(status == 100 ? "the sizes are invalid" : error(context), answer);
  } else {
    int64_t* found = dims;
    for (int64_t i = 0; i < outputs; found += ranks[i], ++i) {
      const void* own = late(context, (int)i, found);
      int64_t bytes = sizes[i];
      for (int64_t j = 0; j < ranks[i]; ++j) bytes *= found[j];
      fwrite(found, sizeof *found, (size_t)ranks[i], answer);
      fwrite(own ? own : made[i], 1, (size_t)bytes, answer);
    }
  }
  if (context) close(context);
  return fclose(answer) ? 9 : 0;
}
