// What a machine can do at best: floating-point operations and bytes read from memory, by all threads at once.
#include "model.h"
#include "simd.hpp"
#include "threads.hpp"

using namespace infuse;

namespace {

constexpr int CHAINS = 12;      // more than latency times units of any processor, fewer than its registers
constexpr long STEPS = 500000;  // of a chain in one trial: a few milliseconds
constexpr int STREAMS = 8;

/** Independent chains of multiply-adds; the result only keeps them from being left out. */
INFUSE_NOINLINE vf multiply_add(float start) {
  const vf factor = splat(0.5f + start), addend = splat(0.25f + start);
  vf sums[CHAINS];
  for (int i = 0; i < CHAINS; ++i) sums[i] = splat(start + float(i));
  for (long step = 0; step < STEPS; ++step)
    for (int i = 0; i < CHAINS; ++i) sums[i] = fma(sums[i], factor, addend);
  vf total{};
  for (int i = 0; i < CHAINS; ++i) total += sums[i];
  return total;
}

/** The sum of whole groups of vectors. */
INFUSE_NOINLINE vf add_up(const float* values, long begin, long end) {
  vf sums[STREAMS] = {};
  for (long at = begin; at < end; ++at)
    for (int i = 0; i < STREAMS; ++i) sums[i] += load(values + (at * STREAMS + i) * LANES, Full{});
  vf total{};
  for (int i = 0; i < STREAMS; ++i) total += sums[i];
  return total;
}

struct alignas(2 * CACHE_LINE) Kept {
  vf value;
};

/** The largest amount per second of all trials, which last at least `seconds` together. */
template <class Trial>
double best_rate(double seconds, double amount, const Trial& trial) {
  double best = 0;
  const long long stop = now_ns() + (long long)(seconds * 1e9);
  do {
    const long long begin = now_ns();
    trial();
    const double rate = amount / double(now_ns() - begin) * 1e9;
    if (rate > best) best = rate;
  } while (now_ns() < stop);
  return best;
}

}  // namespace

extern "C" {

/** Operations per second (a multiply-add counts two), measured for `seconds`; negative without memory. */
INFUSE_API double machine_flops(int threads, double seconds) {
  Context* context = context_open(threads);
  if (!context) return -1;
  threads = context->threads;
  Kept kept[MOST_THREADS] = {};
  const double work = 2.0 * CHAINS * STEPS * LANES * threads;
  const double best = best_rate(seconds, work, [&] {
    context->parallel(threads, [&](long begin, long end, int) {
      for (long i = begin; i < end; ++i) kept[i].value = multiply_add(kept[i].value[0] * 0);
    });
  });
  context_close(context);
  return best;
}

/** Bytes per second read from a buffer of `bytes`, measured for `seconds`; negative without memory. */
INFUSE_API double machine_bandwidth(int threads, double seconds, int64_t bytes) {
  Context* context = context_open(threads);
  const long group = STREAMS * LANES * (long)sizeof(float), groups = (long)bytes / group;
  char* memory = context ? memory_open(groups * group) : nullptr;
  if (!memory) {
    context_close(context);
    return -1;
  }
  float* values = (float*)memory;
  Kept kept[MOST_THREADS] = {};
  context->parallel(groups, [&](long begin, long end, int) {
    memset(memory + begin * group, 0, (size_t)((end - begin) * group));
  });
  const double best = best_rate(seconds, double(groups * group), [&] {
    context->parallel(groups, [&](long begin, long end, int worker) {
      kept[worker].value += add_up(values, begin, end);
    });
  });
  memory_close(memory);
  context_close(context);
  return best;
}

}  // extern "C"
