typedef struct Model {
  Context context;
  char* arena;
  const char* weights;
  const char* error;
  char text[120];
} Model;

typedef char context_fits[sizeof(Model) <= @CONTEXT@ ? 1 : -1];

// Says what failed where.
static int fail(Model* m, int failure, const char* where) {
  const char* const parts[] = {where, ": ", failure_text(failure)};
  size_t used = 0;
  for (int i = 0; i < 3; ++i)
    for (const char* c = parts[i]; *c && used + 1 < sizeof m->text; ++c) m->text[used++] = *c;
  m->text[used] = 0;
  m->error = m->text;
  return failure;
}

static int run_0(Model* m, const void* const* in, void* const* out) {
  Context* const c = &m->context;
  const Sizes* const d = NULL;
  int failed = 0;
  (void)in, (void)out, (void)c, (void)d, (void)failed;
@CALLS@
  return 0;
}

static Model* own_model;  // the context that lies in memory of the library

static Model* opened(void* memory, const void* weights) {
  Model* m = (Model*)memory;
  memset(m, 0, sizeof *m);
  m->arena = (char*)memory + @CONTEXT@;
  m->weights = weights ? (const char*)weights : infuse_embedded_weights;
  m->error = "";
  return m;
}

INFUSE_API const char* infuse_status(int code) { return status_text(code); }

INFUSE_API const char* infuse_metadata(void) {
  return @METADATA@;
}

INFUSE_API int infuse_create(const infuse_options* options, void** context) {
  const uintptr_t places = (uintptr_t)options->arena | (uintptr_t)options->weights;
  *context = NULL;
  if (options->abi != INFUSE_ABI || !options->arena || places % 64) return INFUSE_BAD_OPTIONS;
  if (options->weights_bytes && options->weights_bytes != @WEIGHTS@) return INFUSE_BAD_OPTIONS;
  if (options->allocate || options->release || options->parallel) return INFUSE_BAD_OPTIONS;
  if (options->arena_bytes < @TOTAL@) return INFUSE_OUT_OF_MEMORY;
  *context = opened(options->arena, options->weights);
  return INFUSE_OK;
}

INFUSE_API void* infuse_open(const void* weights, int threads) {
  static union {
    char bytes[@TOTAL@];
    uint64_t aligned;
  } memory __attribute__((aligned(64)));
  (void)threads;
  if (own_model) return NULL;
  own_model = opened(memory.bytes, weights);
  return own_model;
}

INFUSE_API void infuse_cancel(void* context, int cancel) {
  ((Model*)context)->context.cancelled = cancel;
}

INFUSE_API int infuse_shapes(const int64_t* symbols, int64_t* dims) {
  (void)symbols, (void)dims;
  @SIZES@
  return INFUSE_OK;
}

INFUSE_API int64_t infuse_needed_bytes(const int64_t* symbols) {
  (void)symbols;
  return @TOTAL@;
}

INFUSE_API int infuse_run(void* context, const int64_t* symbols, const void* const* inputs,
                          void* const* outputs) {
  Model* m = (Model*)context;
  const void* in[@INPUTS@];
  (void)symbols, (void)in;
  if (!context_begin(&m->context)) return INFUSE_BUSY;
  m->error = "";
  m->context.index_limit = -1;
@DEFAULTS@
  const int failed = run_0(m, in, outputs);
  if (failed == CANCELLED) m->error = failure_text(failed);
  return failure_status(context_end(&m->context, failed));
}

INFUSE_API const void* infuse_output(void* context, int number, int64_t* dims) {
  (void)context, (void)number, (void)dims;
  return NULL;
}

INFUSE_API const char* infuse_error(void* context) {
  return context ? ((Model*)context)->error : "";
}

INFUSE_API int64_t infuse_arena_bytes(void* context) {
  (void)context;
  return @TOTAL@;
}

INFUSE_API int64_t infuse_live_bytes(void* context) {
  (void)context;
  return @LIVE@;
}

INFUSE_API void infuse_close(void* context) {
  if (context && context == own_model) own_model = NULL;
}
