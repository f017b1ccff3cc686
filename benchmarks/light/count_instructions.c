// A plugin of QEMU that counts the instructions of a program and writes the count at its end, as
// one line of standard error.
//
// QEMU's header is not in its packages everywhere, so the five functions are declared here; API is
// the version of the interface, which `instructions.py` looks for. These calls are the same in all.
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
void qemu_plugin_register_vcpu_tb_trans_cb(
    plugin_id id, void (*call)(plugin_id, struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_tb_exec_cb(
    struct qemu_plugin_tb* block, void (*call)(unsigned, void*), int registers, void* data);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*call)(plugin_id, void*), void* data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);

#define EXPORTED __attribute__((visibility("default")))
EXPORTED int qemu_plugin_version = API;

static uint64_t total;

static void executed(unsigned processor, void* data) {
  (void)processor;
  __atomic_fetch_add(&total, (uintptr_t)data, __ATOMIC_RELAXED);
}

static void translated(plugin_id id, struct qemu_plugin_tb* block) {
  (void)id;
  void* instructions = (void*)(uintptr_t)qemu_plugin_tb_n_insns(block);
  qemu_plugin_register_vcpu_tb_exec_cb(block, executed, 0, instructions);
}

static void finished(plugin_id id, void* data) {
  (void)id, (void)data;
  fprintf(stderr, "instructions %" PRIu64 "\n", total);
}

EXPORTED int qemu_plugin_install(plugin_id id, const void* info, int count, char** arguments) {
  (void)info, (void)count, (void)arguments;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, finished, NULL);
  return 0;
}
