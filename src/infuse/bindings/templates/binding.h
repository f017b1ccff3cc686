/*
 * What bindings of a compiled model share: sizes of its inputs and outputs, weights, contexts. C and C++.
 *
 * A frame is an array of @WORDS@ numbers of 64 bits. A caller describes the inputs in it: elements (-1: absent),
 * axes (-1: the shape follows from the number of elements), sizes. @P@_binding_sizes checks them and finds the values
 * of symbols, at @SYMBOLS_AT@, and the sizes of the results, at @SIZES_AT@ (-1 where only a run finds one). The
 * addresses of inputs and results are at @INPUTS_AT@ and @RESULTS_AT@. Texts of errors are UTF-8.
 */
#ifndef @GUARD@
#define @GUARD@

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if !defined(_WIN32)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "model.h"

#ifndef INFUSE_BINDING
#define INFUSE_BINDING static inline
#endif
#ifdef __cplusplus
extern "C" {
#endif

#define @P@_BINDING_ID INT64_C(@ID@)
enum { @P@_BINDING_WORDS = @WORDS@, @P@_BINDING_TEXT = 512 };
#define @P@_BINDING_MOST 1125899906842624.0 /* 2^50: sizes beyond are none */

typedef struct @P@_loaded {
  const void* data; /* what infuse_create takes; NULL: a part of the library, or nothing */
  void* memory;
  size_t mapped;
} @P@_loaded;

static inline int @P@_binding_fail(char* text, const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(text, @P@_BINDING_TEXT, format, values);
  va_end(values);
  return 1;
}

/* -- sizes -------------------------------------------------------------------------------------- */

static inline int64_t @P@_size_div(int64_t a, int64_t b) {
  return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t @P@_size_mod(int64_t a, int64_t b) { return a - @P@_size_div(a, b) * b; }
static inline int64_t @P@_size_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t @P@_size_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t @P@_size_broadcast(int64_t a, int64_t b) { return a == 1 ? b : a; }
static inline double @P@_about_div(double a, double b) { return b == 0 ? 0 : a / b; }
static inline double @P@_about_mod(double a, double b) { return b < 0 ? -b : a < 0 ? -a : a; }
static inline double @P@_about_max(double a, double b) { return a > b ? a : b; }
static inline double @P@_about_min(double a, double b) { return a < b ? a : b; }
static inline double @P@_about_broadcast(double a, double b) { return a > b ? a : b; }

/* Puts sizes into words: [2, 3]. */
static inline const char* @P@_shape_text(const int64_t* sizes, int64_t rank, char* text) {
  size_t used = 1;
  text[0] = '[';
  text[1] = 0;
  for (int64_t i = 0; i < rank && used < 90; i++)
    used += (size_t)snprintf(text + used, 120 - used, i ? ", %lld" : "%lld", (long long)sizes[i]);
  snprintf(text + used, 120 - used, "]");
  return text;
}

/* Checks what is said of one input but for its symbols, and completes it; `fixed` has -1 for these. */
static inline int @P@_described(int64_t* input, const char* name, const int64_t* fixed, int64_t rank, int optional,
                                char* text) {
  int64_t* sizes = input + 2;
  double product = 1;
  char shape[128];
  if (input[0] < 0) {
    if (!optional) return @P@_binding_fail(text, "the input %s is missing", name);
    memcpy(sizes, fixed, (size_t)rank * sizeof *sizes);
    return 0;
  }
  if (input[1] < 0) {
    int is_fixed = 1;
    for (int64_t i = 0; i < rank; i++) is_fixed &= fixed[i] >= 0;
    if (!is_fixed && rank != 1) return @P@_binding_fail(text, "the shape of the input %s is missing", name);
    for (int64_t i = 0; i < rank; i++) sizes[i] = is_fixed ? fixed[i] : input[0];
  } else if (input[1] != rank) {
    return @P@_binding_fail(text, "the input %s has %lld axes instead of %lld", name, (long long)input[1],
                            (long long)rank);
  }
  for (int64_t i = 0; i < rank; i++) {
    if (sizes[i] < 0 || (double)sizes[i] > @P@_BINDING_MOST)
      return @P@_binding_fail(text, "the input %s has size %lld at axis %lld, which is none", name,
                              (long long)sizes[i], (long long)i);
    if (fixed[i] >= 0 && sizes[i] != fixed[i])
      return @P@_binding_fail(text, "the input %s has size %lld instead of %lld at axis %lld", name,
                              (long long)sizes[i], (long long)fixed[i], (long long)i);
  }
  for (int64_t i = 0; i < rank; i++) product *= (double)sizes[i];
  if (product != (double)input[0])
    return @P@_binding_fail(text, "the input %s has %lld elements, and its shape %s has %.0f", name,
                            (long long)input[0], @P@_shape_text(sizes, rank, shape), product);
  return 0;
}
@FORMULAS@
/* Checks inputs, finds symbols and the sizes of results. 0, or 1 with a text. */
INFUSE_BINDING int @P@_binding_sizes(int64_t* frame, char* text) {
  int64_t* const s = frame + @SYMBOLS_AT@;
  (void)s;
@SIZES@
  if (infuse_shapes(s, frame + @SIZES_AT@) != INFUSE_OK)
    return @P@_binding_fail(text, "the model gives no sizes of outputs for the sizes of these inputs");
  return 0;
}

/* The sizes of all inputs for values of symbols, where a frame has them. 0, or 1 with a text. */
INFUSE_BINDING int @P@_binding_shapes(int64_t* frame, char* text) {
  const int64_t* const s = frame + @SYMBOLS_AT@;
  int64_t value = 0;
  (void)s, (void)value, (void)text;
@SHAPES@
  return 0;
}

/* -- weights and contexts ------------------------------------------------------------------------ */

static inline uint64_t @P@_binding_sum(const void* data, int64_t bytes) {
  const unsigned char* at = (const unsigned char*)data;
  uint64_t sum = 0, word;
  for (int64_t i = 0; i < bytes / 8; i++) {
    memcpy(&word, at + 8 * i, 8);
    sum += word * (2 * (uint64_t)i + 1);
  }
  return sum;
}

INFUSE_BINDING void @P@_binding_unload(void* loaded) {
  @P@_loaded* const weights = (@P@_loaded*)loaded;
  if (!weights) return;
#if !defined(_WIN32)
  if (weights->mapped) munmap(weights->memory, weights->mapped);
#endif
  if (!weights->mapped) free(weights->memory);
  free(weights);
}

static inline void* @P@_binding_whole(@P@_loaded* weights, int64_t bytes, char* text) {
  const int64_t expected = @WEIGHTS_BYTES@;
  if (bytes != expected)
    @P@_binding_fail(text, "these are not the weights of this model: %lld bytes instead of %lld", (long long)bytes,
                     (long long)expected);
  else if (@P@_binding_sum(weights->data, bytes) != UINT64_C(@WEIGHTS_SUM@))
    @P@_binding_fail(text, "these are not the weights of this model: their content differs");
  else
    return weights;
  @P@_binding_unload(weights);
  return NULL;
}

/* Weights in memory, which is copied. NULL with a text. */
INFUSE_BINDING void* @P@_binding_copied(const void* data, int64_t bytes, char* text) {
  @P@_loaded* const weights = (@P@_loaded*)calloc(1, sizeof *weights);
  char* const memory = weights ? (char*)malloc((size_t)bytes + 64) : NULL;
  if (!memory) {
    free(weights);
    @P@_binding_fail(text, "there is no memory for %lld bytes of weights", (long long)bytes);
    return NULL;
  }
  weights->memory = memory;
  weights->data = memory + (64 - (uintptr_t)memory % 64);
  memcpy((void*)weights->data, data, (size_t)bytes);
  return @P@_binding_whole(weights, bytes, text);
}

#if defined(_WIN32)
/* A file by its path in UTF-8. */
static inline FILE* @P@_binding_file(const char* path) {
  wchar_t wide[4096];
  size_t used = 0;
  for (const unsigned char* at = (const unsigned char*)path; *at && used < 4093;) {
    uint32_t letter = *at++;
    int more = letter >= 0xf0 ? 3 : letter >= 0xe0 ? 2 : letter >= 0xc0 ? 1 : 0;
    letter &= more ? 0x3fu >> more : 0x7fu;
    for (; more && (*at & 0xc0) == 0x80; more--) letter = letter << 6 | (*at++ & 0x3fu);
    if (letter >= 0x10000) {
      wide[used++] = (wchar_t)(0xd800 + ((letter - 0x10000) >> 10));
      letter = 0xdc00 + (letter & 0x3ff);
    }
    wide[used++] = (wchar_t)letter;
  }
  wide[used] = 0;
  return _wfopen(wide, L"rb");
}
#endif

/* The weights of a file; any path for a model that has none. NULL with a text. */
INFUSE_BINDING void* @P@_binding_load(const char* path, char* text) {
  const int64_t expected = @WEIGHTS_BYTES@;
  @P@_loaded* const weights = (@P@_loaded*)calloc(1, sizeof *weights);
  int64_t bytes = -1;
  if (!weights) {
    @P@_binding_fail(text, "there is no memory");
    return NULL;
  }
  if (!expected) return weights;
#if defined(_WIN32)
  FILE* const file = @P@_binding_file(path);
  if (file && _fseeki64(file, 0, SEEK_END) == 0) bytes = _ftelli64(file);
  if (bytes == expected && _fseeki64(file, 0, SEEK_SET) == 0 && (weights->memory = malloc((size_t)bytes + 64))) {
    weights->data = (char*)weights->memory + (64 - (uintptr_t)weights->memory % 64);
    if (fread((void*)weights->data, 1, (size_t)bytes, file) != (size_t)bytes) weights->data = NULL;
  }
#else
  struct stat status;
#if defined(O_CLOEXEC)
  const int file = open(path, O_RDONLY | O_CLOEXEC);
#else
  const int file = open(path, O_RDONLY);
#endif
  if (file >= 0 && fstat(file, &status) == 0) bytes = S_ISREG(status.st_mode) ? (int64_t)status.st_size : -1;
  if (bytes == expected) {
    void* const memory = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (memory != MAP_FAILED) weights->data = weights->memory = memory, weights->mapped = (size_t)bytes;
  }
#endif
  if (bytes < 0 || (bytes == expected && !weights->data)) {
    const char* const why = bytes < 0 && errno ? strerror(errno) : "it cannot be read";
    @P@_binding_fail(text, "the weights cannot be read: %.300s: %s", path, why);
    @P@_binding_unload(weights);
    bytes = -1;
  }
#if defined(_WIN32)
  if (file) fclose(file);
#else
  if (file >= 0) close(file);
#endif
  return bytes < 0 ? NULL : @P@_binding_whole(weights, bytes, text);
}

/*
 * A context for loaded weights, which outlive it; `id` is that of the caller's model. A code, with a text: -1 where
 * functions of another model with the same prefix are linked.
 */
INFUSE_BINDING int @P@_binding_open(const void* loaded, int threads, int64_t id, void** context, char* text) {
  const char* const metadata = infuse_metadata();
  static const char* const parts[] = {
@IDENTITY@};
  infuse_options options;
  int code = id != @P@_BINDING_ID;
  *context = NULL;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) code |= !strstr(metadata, parts[i]);
  if (code) {
    @P@_binding_fail(text, "another model is linked: give each a prefix of its own (infuse compile --prefix)");
    return -1;
  }
  memset(&options, 0, sizeof options);
  options.abi = INFUSE_ABI;
  options.threads = threads > 0 ? threads : 0;
  options.weights = ((const @P@_loaded*)loaded)->data;
  options.weights_bytes = @WEIGHTS_BYTES@;
  code = infuse_create(&options, context);
  if (code) @P@_binding_fail(text, "%s", @REFUSAL@);
  return code;
}

/* While `cancel` is not 0, runs end with INFUSE_CANCELLED. Any thread may call it. */
INFUSE_BINDING void @P@_binding_cancel(void* context, int cancel) { infuse_cancel(context, cancel); }

/* Runs what a frame describes that @P@_binding_sizes has checked. */
INFUSE_BINDING int @P@_binding_run(void* context, const int64_t* frame) {
  const void* inputs[@INPUT_ROOM@];
  void* outputs[@RESULT_ROOM@];
  for (int i = 0; i < @INPUTS@; i++) inputs[i] = (const void*)(intptr_t)frame[@INPUTS_AT@ + i];
  for (int i = 0; i < @RESULTS@; i++) outputs[i] = (void*)(intptr_t)frame[@RESULTS_AT@ + i];
  return infuse_run(context, frame + @SYMBOLS_AT@, inputs, outputs);
}

/* The text of the last run that failed. */
INFUSE_BINDING const char* @P@_binding_error(void* context) { return infuse_error(context); }

/* The same, copied. */
INFUSE_BINDING void @P@_binding_error_text(void* context, char* text) {
  @P@_binding_fail(text, "%s", infuse_error(context));
}

INFUSE_BINDING void @P@_binding_close(void* context) { infuse_close(context); }

/* How many sizes a result has, after a run. */
INFUSE_BINDING int64_t @P@_binding_rank(void* context, int number) {
  int64_t sizes[@MOST_RANK@] = {0};
  (void)context, (void)sizes;
  switch (number) {
@RANKS@
  }
  return -1;
}

/* Where a result lies whose sizes only the run finds out, and these. */
INFUSE_BINDING const void* @P@_binding_result(void* context, int number, int64_t* sizes) {
  int64_t ignored[@MOST_RANK@] = {0};
  const int64_t rank = @P@_binding_rank(context, number);
  const void* list = NULL;
  (void)ignored, (void)rank;
  switch (number) {
@LISTS@
  }
  if (!list) return infuse_output(context, number, sizes);
  memcpy(sizes, list, (size_t)rank * sizeof *sizes);
  return infuse_output(context, number, ignored);
}

#ifdef __cplusplus
}
#endif

#endif
