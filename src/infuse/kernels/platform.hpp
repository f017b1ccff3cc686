// What the kernels need from the operating system: threads, waiting, time, memory.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "memory.h"

#if defined(_WIN32)
#define INFUSE_WINDOWS 1
#include <malloc.h>
extern "C" {
typedef unsigned long(__stdcall* infuse_thread_entry)(void*);
__declspec(dllimport) void* __stdcall CreateThread(void*, size_t, infuse_thread_entry, void*,
                                                   unsigned long, unsigned long*);
__declspec(dllimport) unsigned long __stdcall WaitForSingleObject(void*, unsigned long);
__declspec(dllimport) int __stdcall CloseHandle(void*);
__declspec(dllimport) unsigned long __stdcall GetCurrentThreadId(void);
__declspec(dllimport) unsigned long __stdcall GetActiveProcessorCount(unsigned short);
__declspec(dllimport) int __stdcall QueryPerformanceCounter(union _LARGE_INTEGER*);
__declspec(dllimport) int __stdcall QueryPerformanceFrequency(union _LARGE_INTEGER*);
}
// The lock and condition functions take opaque structs of one pointer.
extern "C" {
__declspec(dllimport) void __stdcall AcquireSRWLockExclusive(struct _RTL_SRWLOCK*);
__declspec(dllimport) void __stdcall ReleaseSRWLockExclusive(struct _RTL_SRWLOCK*);
__declspec(dllimport) void __stdcall WakeAllConditionVariable(struct _RTL_CONDITION_VARIABLE*);
__declspec(dllimport) int __stdcall SleepConditionVariableSRW(struct _RTL_CONDITION_VARIABLE*,
                                                              struct _RTL_SRWLOCK*, unsigned long,
                                                              unsigned long);
}
#elif defined(__wasm__) && defined(__wasm_atomics__)
#define INFUSE_WORKERS 1
#include <stdlib.h>
// What the page or program gives (threads.mjs): a thread is a worker that shares the memory.
#define INFUSE_IMPORT(name) __attribute__((import_module("infuse"), import_name(#name)))
extern "C" {
INFUSE_IMPORT(start) int infuse_worker_start(void* thread, void* stack, void* local);
INFUSE_IMPORT(may_wait) int infuse_worker_may_wait(void);
INFUSE_IMPORT(processors) int infuse_worker_processors(void);
INFUSE_IMPORT(now) double infuse_worker_now(void);
}
#elif defined(__wasm__)
#define INFUSE_SINGLE_THREAD 1
#include <stdlib.h>
#else
#define INFUSE_POSIX 1
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif
#endif

namespace infuse {

constexpr isize round_up(isize value, isize step) { return (value + step - 1) / step * step; }

// ---------------------------------------------------------------- time

inline void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ __volatile__("yield");
#endif
}

/** Nanoseconds on a clock that never runs backwards. */
inline long long now_ns() {
#if defined(INFUSE_POSIX)
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
#elif defined(INFUSE_WINDOWS)
  long long ticks = 0, rate = 1;
  QueryPerformanceCounter(reinterpret_cast<union _LARGE_INTEGER*>(&ticks));
  QueryPerformanceFrequency(reinterpret_cast<union _LARGE_INTEGER*>(&rate));
  return ticks / rate * 1000000000LL + ticks % rate * 1000000000LL / rate;
#elif defined(INFUSE_WORKERS)
  return (long long)(infuse_worker_now() * 1e6);
#else
  return 0;
#endif
}

// ---------------------------------------------------------------- subnormal numbers

/**
 * While it lives, results of this thread below the smallest normal number are zeros of their sign:
 * x86 processors take over a hundred cycles for each that is not. Operands are read as they are.
 * Nothing on other processors, whose units have no such cost.
 */
class FlushSubnormals {
 public:
#if defined(__x86_64__)
  FlushSubnormals() : before_(__builtin_ia32_stmxcsr()) {
    __builtin_ia32_ldmxcsr(before_ | FLUSH_TO_ZERO);
  }
  ~FlushSubnormals() { __builtin_ia32_ldmxcsr(before_); }

 private:
  static constexpr unsigned FLUSH_TO_ZERO = 1u << 15;
  unsigned before_;

 public:
#else
  FlushSubnormals() {}
  ~FlushSubnormals() {}
#endif
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;
};

// ---------------------------------------------------------------- processors

/** Processors that this process may run on. */
inline int processors() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
#if defined(INFUSE_POSIX)
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? static_cast<int>(count) : 1;
#elif defined(INFUSE_WINDOWS)
  return static_cast<int>(GetActiveProcessorCount(0xffff));
#elif defined(INFUSE_WORKERS)
  return infuse_worker_processors();
#else
  return 1;
#endif
}

// ---------------------------------------------------------------- waiting

/** A word that threads can sleep on until another thread changes it. */
struct Gate {
  int word;
#if defined(INFUSE_WINDOWS)
  void* lock;
  void* changed;
#elif defined(INFUSE_POSIX) && !defined(__linux__)
  pthread_mutex_t lock;
  pthread_cond_t changed;
#endif
};

inline void gate_open(Gate* gate, int value) {
  memset(gate, 0, sizeof *gate);
  gate->word = value;
#if defined(INFUSE_POSIX) && !defined(__linux__)
  pthread_mutex_init(&gate->lock, nullptr);
  pthread_cond_init(&gate->changed, nullptr);
#endif
}

inline void gate_close(Gate* gate) {
#if defined(INFUSE_POSIX) && !defined(__linux__)
  pthread_cond_destroy(&gate->changed);
  pthread_mutex_destroy(&gate->lock);
#else
  (void)gate;
#endif
}

inline int gate_load(const Gate* gate) { return __atomic_load_n(&gate->word, __ATOMIC_SEQ_CST); }

/** Sleeps while the word equals `value`; may also return early. */
inline void gate_wait(Gate* gate, int value) {
#if defined(__linux__)
  syscall(SYS_futex, &gate->word, 128 /* FUTEX_WAIT | FUTEX_PRIVATE_FLAG */, value, nullptr,
          nullptr, 0);
#elif defined(INFUSE_POSIX)
  pthread_mutex_lock(&gate->lock);
  if (gate_load(gate) == value) pthread_cond_wait(&gate->changed, &gate->lock);
  pthread_mutex_unlock(&gate->lock);
#elif defined(INFUSE_WINDOWS)
  auto lock = reinterpret_cast<struct _RTL_SRWLOCK*>(&gate->lock);
  auto changed = reinterpret_cast<struct _RTL_CONDITION_VARIABLE*>(&gate->changed);
  AcquireSRWLockExclusive(lock);
  if (gate_load(gate) == value) SleepConditionVariableSRW(changed, lock, 0xffffffffUL, 0);
  ReleaseSRWLockExclusive(lock);
#elif defined(INFUSE_WORKERS)
  // The main thread of a page may not sleep: it asks again and again.
  if (infuse_worker_may_wait()) __builtin_wasm_memory_atomic_wait32(&gate->word, value, -1);
#else
  (void)gate, (void)value;
#endif
}

/** Wakes every sleeper; call it after the word has changed. */
inline void gate_wake(Gate* gate) {
#if defined(__linux__)
  syscall(SYS_futex, &gate->word, 129 /* FUTEX_WAKE | FUTEX_PRIVATE_FLAG */, INT32_MAX, nullptr,
          nullptr, 0);
#elif defined(INFUSE_POSIX)
  pthread_mutex_lock(&gate->lock);
  pthread_cond_broadcast(&gate->changed);
  pthread_mutex_unlock(&gate->lock);
#elif defined(INFUSE_WINDOWS)
  AcquireSRWLockExclusive(reinterpret_cast<struct _RTL_SRWLOCK*>(&gate->lock));
  WakeAllConditionVariable(reinterpret_cast<struct _RTL_CONDITION_VARIABLE*>(&gate->changed));
  ReleaseSRWLockExclusive(reinterpret_cast<struct _RTL_SRWLOCK*>(&gate->lock));
#elif defined(INFUSE_WORKERS)
  __builtin_wasm_memory_atomic_notify(&gate->word, 0xffffffffu);
#else
  (void)gate;
#endif
}

// ---------------------------------------------------------------- threads

/** One running thread; `entry` never throws and its result is ignored. */
struct Thread {
#if defined(INFUSE_POSIX)
  pthread_t id;
#elif defined(INFUSE_WINDOWS)
  void* handle;
  unsigned long id;
#elif defined(INFUSE_WORKERS)
  void* (*entry)(void*);
  void* argument;
  char* stack;
  Gate ended;
#endif
};

#if defined(INFUSE_WINDOWS)
typedef unsigned long ThreadResult;
#define INFUSE_THREAD_CALL __stdcall
#else
typedef void* ThreadResult;
#define INFUSE_THREAD_CALL
#endif

#if defined(INFUSE_WORKERS)
constexpr size_t THREAD_STACK = (4 << 20) - 4096;  // allocators have blocks of 4 MiB

/** What a worker calls that was started. */
extern "C" __attribute__((weak, used, export_name("infuse_thread"))) void infuse_thread(Thread* thread) {
  thread->entry(thread->argument);
  __atomic_store_n(&thread->ended.word, 1, __ATOMIC_SEQ_CST);
  gate_wake(&thread->ended);
}
#endif

/** Starts a thread that takes no signals; false when the system refuses. */
inline bool thread_open(Thread* thread, ThreadResult(INFUSE_THREAD_CALL* entry)(void*),
                        void* argument) {
#if defined(INFUSE_POSIX)
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, 4 << 20);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int status = pthread_create(&thread->id, &attributes, entry, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return status == 0;
#elif defined(INFUSE_WINDOWS)
  thread->handle = CreateThread(nullptr, 4 << 20, entry, argument, 0, &thread->id);
  return thread->handle != nullptr;
#elif defined(INFUSE_WORKERS)
  const size_t align = __builtin_wasm_tls_align() > 16 ? __builtin_wasm_tls_align() : 16, local = __builtin_wasm_tls_size();
  char* memory = static_cast<char*>(malloc(THREAD_STACK + align + local));
  if (!memory) return false;
  // The stack grows down, towards what lies before; the thread's own variables lie behind it.
  const usize top = (usize(memory) + THREAD_STACK + align - 1) / align * align;
  gate_open(&thread->ended, 0);
  thread->entry = entry, thread->argument = argument, thread->stack = memory;
  if (infuse_worker_start(thread, (void*)top, (void*)top)) return true;
  free(memory);
  return false;
#else
  (void)thread, (void)entry, (void)argument;
  return false;
#endif
}

inline void thread_join(Thread* thread) {
#if defined(INFUSE_POSIX)
  pthread_join(thread->id, nullptr);
#elif defined(INFUSE_WINDOWS)
  WaitForSingleObject(thread->handle, 0xffffffffUL);
  CloseHandle(thread->handle);
#elif defined(INFUSE_WORKERS)
  while (!gate_load(&thread->ended)) gate_wait(&thread->ended, 0);
  gate_close(&thread->ended);
  free(thread->stack);
#else
  (void)thread;
#endif
}

/** A number that no other thread has while this one runs; not 0. */
inline usize thread_identity() {
#if defined(INFUSE_POSIX)
  return (usize)pthread_self();
#elif defined(INFUSE_WINDOWS)
  return GetCurrentThreadId();
#elif defined(INFUSE_WORKERS)
  static thread_local char own;
  return (usize)&own;
#else
  return 1;
#endif
}

// ---------------------------------------------------------------- fork

/** Tells a forked child from the process that made the mark. */
struct ForkMark {
  int* page;
  long process;
};

inline void fork_mark_open(ForkMark* mark) {
  mark->page = nullptr;
  mark->process = 0;
#if defined(INFUSE_POSIX)
  mark->process = static_cast<long>(getpid());
#if defined(__linux__) && defined(MADV_WIPEONFORK)
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, 4096, MADV_WIPEONFORK) != 0) {
    munmap(page, 4096);
    return;
  }
  mark->page = static_cast<int*>(page);
  *mark->page = 1;
#endif
#endif
}

inline void fork_mark_close(ForkMark* mark) {
#if defined(__linux__)
  if (mark->page) munmap(mark->page, 4096);
#endif
  mark->page = nullptr;
}

/** True in a child that was forked after the mark was opened. */
inline bool forked(const ForkMark* mark) {
#if defined(INFUSE_POSIX)
  return mark->page ? *mark->page == 0 : mark->process != static_cast<long>(getpid());
#else
  (void)mark;
  return false;
#endif
}

}  // namespace infuse
