/*
 * The C interface of a model compiled by Infuse. @NEEDS@
 *
 * example.c beside this file is a whole program that runs the model. In short:
 *
 *     void* context = @OPENED@
 *     int64_t symbols[] = {@VALUES@};@PAD@// @SYMBOLS@
 *     const void* inputs[] = {@INPUTS@};
 *     void* outputs[] = {@OUTPUTS@};
 *     if (infuse_run(context, symbols, inputs, outputs) != INFUSE_OK)
 *         fprintf(stderr, "%s\n", infuse_error(context));
 *     infuse_close(context);
 *
 * Inputs and outputs are dense row-major arrays (one whose rank only a run finds out is a list, and another lists its sizes):
@TENSORS@
 *
 * Compile: @COMMAND@
 */
#ifndef @GUARD@
#define @GUARD@

#include <stddef.h>
#include <stdint.h>
@NUMBERS@
@TYPES@
#ifndef INFUSE_API
#if defined(_WIN32)
#define INFUSE_API __declspec(dllexport)
#elif defined(__GNUC__)
#define INFUSE_API __attribute__((visibility("default")))
#else
#define INFUSE_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** A code, such as INFUSE_BAD_OPTIONS, in words. */
INFUSE_API const char* infuse_status(int code);

/** A JSON object: abi, name, inputs, outputs (name, dtype, shape, late, optional), symbols, target, weights_bytes. */
INFUSE_API const char* infuse_metadata(void);

/**
 * A context: working memory and `threads` threads. NULL when out of memory@OR_REFUSED@.
 * `weights` is the content of weights.bin, at an address that is a multiple of 64, and must outlive the context;
 * any number of contexts may share it. NULL for a model without weights.@EMBEDDED@
 */
INFUSE_API void* infuse_open(const void* weights, int threads);

/** The same as the options say. Returns a code, and stores NULL unless it is INFUSE_OK. */
INFUSE_API int infuse_create(const infuse_options* options, void** context);

/**
 * Writes all sizes of all outputs, one after another, for these symbol values. Nonzero when they are invalid.
 * A size that depends on the elements of the inputs is -1: infuse_output tells it after the run.
 */
INFUSE_API int infuse_shapes(const int64_t* symbols, int64_t* dims);

/** Bytes of the arena that a run takes for these symbol values; -1 when they are invalid. */
INFUSE_API int64_t infuse_needed_bytes(const int64_t* symbols);

/**
 * Computes the outputs. NULL in place of an optional input stands for its default. A context runs one call at a time; several contexts may run at once.
 * Inputs and outputs may have any alignment that suits their element type, and must not overlap.
 */
INFUSE_API int infuse_run(void* context, const int64_t* symbols, const void* const* inputs, void* const* outputs);

/**
 * While `cancel` is not 0, runs of the context end with INFUSE_CANCELLED before their next step, also the one
 * that is under way. Any thread may call it, and a handler of signals, until infuse_close begins.
 */
INFUSE_API void infuse_cancel(void* context, int cancel);

/**
 * After a run: where an output lies whose sizes only the run finds out, and its sizes. Valid until the next run or
 * infuse_close. NULL for the other outputs; for those found out, infuse_run ignores what `outputs` holds.
 */
INFUSE_API const void* infuse_output(void* context, int number, int64_t* dims);

/** The text of the last infuse_run that did not return INFUSE_OK; valid until the next call.@WHY_REFUSED@ */
INFUSE_API const char* infuse_error(void* context);

/** Bytes of working memory that the context holds now. */
INFUSE_API int64_t infuse_arena_bytes(void* context);

/** The largest sum of bytes of intermediate tensors that were live at once in the last run: the arena's lower bound. */
INFUSE_API int64_t infuse_live_bytes(void* context);

/** Ends the threads and frees the memory of a context. NULL is allowed. */
INFUSE_API void infuse_close(void* context);

#ifdef __cplusplus
}
#endif

#endif
