// Runs a compiled model of one input and one output some times in one thread:
// run_model MODEL.SO WEIGHTS INPUT_BYTES OUTPUT_BYTES RUNS. The input is zeros.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void* content(const char* path) {
  FILE* file = fopen(path, "rb");
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  const size_t size = (size_t)ftell(file);
  rewind(file);
  void* memory = aligned_alloc(64, (size + 127) / 64 * 64);
  const int whole = memory && fread(memory, 1, size, file) == size;
  fclose(file);
  return whole ? memory : NULL;
}

int main(int count, char** arguments) {
  if (count != 6) return 2;
  void* library = dlopen(arguments[1], RTLD_NOW);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 3;
  void* (*open)(const void*, int) = dlsym(library, "infuse_open");
  int (*run)(void*, const int64_t*, const void* const*, void* const*) =
      dlsym(library, "infuse_run");
  const char* (*error)(void*) = dlsym(library, "infuse_error");
  void (*close)(void*) = dlsym(library, "infuse_close");
  const void* weights = content(arguments[2]);
  if (!weights) return fprintf(stderr, "%s cannot be read\n", arguments[2]), 4;
  const void* input = calloc(1, strtoul(arguments[3], NULL, 10) + 64);
  void* output = malloc(strtoul(arguments[4], NULL, 10) + 64);
  void* context = open(weights, 1);
  if (!context || !input || !output) return fprintf(stderr, "no memory\n"), 5;
  for (int runs = atoi(arguments[5]); runs > 0; --runs)
    if (run(context, NULL, &input, &output)) return fprintf(stderr, "%s\n", error(context)), 6;
  close(context);
  return 0;
}
