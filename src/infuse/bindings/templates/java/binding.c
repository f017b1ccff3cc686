/* Native methods of @NAME@.Native. Of JNI only one function is called, whose place in the table is a part of the standard. */
#define INFUSE_BINDING INFUSE_API
#include "binding.h"

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

typedef struct {
  void* others[230];
  void* (*GetDirectBufferAddress)(void* env, void* buffer);
} Functions;

#define METHOD(type, name) EXPORTED type Java_@MANGLED@_Native_##name
#define AT(type, address) ((type)(intptr_t)(address))
#define NUMBER(pointer) ((int64_t)(intptr_t)(pointer))

#ifdef __cplusplus
extern "C" {
#endif

METHOD(int64_t, address)(void* env, void* self, void* buffer) {
  (void)self;
  return NUMBER((*AT(const Functions**, env))->GetDirectBufferAddress(env, buffer));
}

METHOD(int64_t, load)(void* env, void* self, int64_t path, int64_t text) {
  (void)env, (void)self;
  return NUMBER(@P@_binding_load(AT(const char*, path), AT(char*, text)));
}

METHOD(int64_t, copied)(void* env, void* self, int64_t data, int64_t bytes, int64_t text) {
  (void)env, (void)self;
  return NUMBER(@P@_binding_copied(AT(const void*, data), bytes, AT(char*, text)));
}

METHOD(void, unload)(void* env, void* self, int64_t loaded) {
  (void)env, (void)self;
  @P@_binding_unload(AT(void*, loaded));
}

METHOD(int32_t, open)(void* env, void* self, int64_t loaded, int32_t threads, int64_t id, int64_t place, int64_t text) {
  (void)env, (void)self;
  return @P@_binding_open(AT(const void*, loaded), threads, id, AT(void**, place), AT(char*, text));
}

METHOD(void, cancel)(void* env, void* self, int64_t context, int32_t cancelled) {
  (void)env, (void)self;
  @P@_binding_cancel(AT(void*, context), cancelled);
}

METHOD(void, close)(void* env, void* self, int64_t context) {
  (void)env, (void)self;
  @P@_binding_close(AT(void*, context));
}

METHOD(int32_t, sizes)(void* env, void* self, int64_t frame, int64_t text) {
  (void)env, (void)self;
  return @P@_binding_sizes(AT(int64_t*, frame), AT(char*, text));
}

METHOD(int32_t, shapes)(void* env, void* self, int64_t frame, int64_t text) {
  (void)env, (void)self;
  return @P@_binding_shapes(AT(int64_t*, frame), AT(char*, text));
}

METHOD(int32_t, run)(void* env, void* self, int64_t context, int64_t frame) {
  (void)env, (void)self;
  return @P@_binding_run(AT(void*, context), AT(const int64_t*, frame));
}

METHOD(void, error)(void* env, void* self, int64_t context, int64_t text) {
  (void)env, (void)self;
  @P@_binding_error_text(AT(void*, context), AT(char*, text));
}

METHOD(int64_t, rank)(void* env, void* self, int64_t context, int32_t number) {
  (void)env, (void)self;
  return @P@_binding_rank(AT(void*, context), number);
}

METHOD(int64_t, result)(void* env, void* self, int64_t context, int32_t number, int64_t sizes) {
  (void)env, (void)self;
  return NUMBER(@P@_binding_result(AT(void*, context), number, AT(int64_t*, sizes)));
}

METHOD(void, copy)(void* env, void* self, int64_t from, int64_t to, int64_t bytes) {
  (void)env, (void)self;
  memcpy(AT(void*, to), AT(const void*, from), (size_t)bytes);
}

#ifdef __cplusplus
}
#endif
