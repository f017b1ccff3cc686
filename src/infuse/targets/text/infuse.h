/*
 * The C interface of a library that runs models which are programs for it: one library, many models.
 *
 * example.c in the folder of a model is a whole program that runs it. In short:
 *
 *     void* program = infuse_program_read(content, bytes, why, sizeof why);
 *     void* context = infuse_program_open(program, 4);
 *     if (infuse_run(context, symbols, inputs, outputs) != INFUSE_OK)
 *         fprintf(stderr, "%s\n", infuse_error(context));
 *     infuse_close(context);
 *     infuse_program_close(program);
 *
 * infuse_program_metadata has the names, types and sizes of inputs and outputs, and the order of symbols.
 */
#ifndef INFUSE_H
#define INFUSE_H

#include <stddef.h>
#include <stdint.h>

@TYPES@
#ifndef INFUSE_API
#define INFUSE_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The program of a model: the content of its file, at an address that is a multiple of 64, which must outlive the
 * program (a mapping of it is shared by all processes). Any number of threads and contexts may share a program.
 * NULL where the file is broken or made for another library, or the processor lacks instructions of this one: `why`, of
 * `room` bytes, tells.
 */
INFUSE_API void* infuse_program_read(const void* content, int64_t bytes, char* why, int64_t room);

/**
 * A JSON object: abi, name, inputs, outputs (name, dtype, shape, late, optional), symbols, weights_bytes; valid as long
 * as the file is.
 */
INFUSE_API const char* infuse_program_metadata(void* program);

/** Frees a program whose contexts are closed. NULL is allowed. */
INFUSE_API void infuse_program_close(void* program);

/**
 * How many symbols, inputs and outputs it has, and the rank of each output: as many of these numbers as `room` says.
 * Returns how many there are.
 */
INFUSE_API int64_t infuse_program_counts(void* program, int64_t* counts, int64_t room);

/** A context of `threads` threads (0: one a processor). NULL when out of memory, or where infuse_error(NULL) says why. */
INFUSE_API void* infuse_program_open(void* program, int threads);

/**
 * The same as the options say, which name no weights. Returns a code, and stores NULL unless it is INFUSE_OK.
 */
INFUSE_API int infuse_program_create(void* program, const infuse_options* options, void** context);

/**
 * Writes all sizes of all outputs, one after another, for these symbol values. Nonzero when they are invalid.
 * A size that depends on the elements of the inputs is -1: infuse_output tells it after the run.
 */
INFUSE_API int infuse_program_shapes(void* program, const int64_t* symbols, int64_t* dims);

/** Bytes of the arena that a run takes for these symbol values; -1 when they are invalid. */
INFUSE_API int64_t infuse_program_needed_bytes(void* program, const int64_t* symbols);

/**
 * Computes the outputs. NULL in place of an optional input stands for its default. A context runs one call at a time;
 * several contexts may run at once. Inputs and outputs are dense row-major arrays that do not overlap.
 */
INFUSE_API int infuse_run(void* context, const int64_t* symbols, const void* const* inputs, void* const* outputs);

/**
 * While `cancel` is not 0, runs of the context end with INFUSE_CANCELLED before their next step, also the one
 * that is under way. Any thread may call it, and a handler of signals, until infuse_close begins.
 */
INFUSE_API void infuse_cancel(void* context, int cancel);

/** After a run: where an output lies whose sizes only the run finds out, and its sizes. NULL for the other outputs. */
INFUSE_API const void* infuse_output(void* context, int number, int64_t* dims);

/** The text of the last infuse_run that did not return INFUSE_OK; valid until the next call. */
INFUSE_API const char* infuse_error(void* context);

/** A code, such as INFUSE_BAD_OPTIONS, in words. */
INFUSE_API const char* infuse_status(int code);

/** Bytes of working memory that the context holds now. */
INFUSE_API int64_t infuse_arena_bytes(void* context);

/** The largest sum of bytes of intermediate tensors that were live at once in the last run. */
INFUSE_API int64_t infuse_live_bytes(void* context);

/** Ends the threads and frees the memory of a context. NULL is allowed. */
INFUSE_API void infuse_close(void* context);

#ifdef __cplusplus
}
#endif

#endif
