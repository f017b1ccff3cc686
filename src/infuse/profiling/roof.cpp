// What a machine can do at best: multiply-adds and bytes read from memory, by all threads at once.
#include "model.h"
#include "simd.hpp"
#include "threads.hpp"
#include "tiles.hpp"

using namespace infuse;

namespace {

constexpr int CHAINS = 14;      // as many as registers allow, beside two operands
constexpr long STEPS = 30000;   // of a chain in one trial: a fraction of a time slice
constexpr long TILE_STEPS = 2000;  // of four products of tile registers
constexpr int MOST_TRIALS = 1000;
constexpr int STREAMS = 8;

/** Tile registers of words of so many numbers: four sums of two by two, as kernels have them. */
template <class Unit, int NUMBERS>
struct Tiled {
  static constexpr int PRODUCTS = NUMBERS;
  static constexpr double WORDS = 4.0 * TILE_STEPS * TILE_SIDE * TILE_SIDE * TILE_SIDE;

  static INFUSE_NOINLINE vf run(float) {
    const TileRegisters registers;  // zeros
    for (long step = 0; step < TILE_STEPS; ++step) {
      Unit::template add<0, 4, 6>();
      Unit::template add<1, 4, 7>();
      Unit::template add<2, 5, 6>();
      Unit::template add<3, 5, 7>();
    }
    return vf{};
  }
};

/** float32: one product a lane. */
struct Floats {
  static constexpr int PRODUCTS = 1;
  static INFUSE_INLINE vf step(vf sum, vf a, vf b) { return fma(sum, a, b); }
};

/** Pairs of bfloat16, for targets that multiply them with one instruction. */
struct Pairs {
#if INFUSE_LANES == 16 && defined(__AVX512BF16__)
  static constexpr int PRODUCTS = 2;
  static INFUSE_INLINE vf step(vf sum, vf a, vf b) {
    INFUSE_ADDING(vdpbf16ps, sum, a, b);
    return sum;
  }
#else
  static constexpr int PRODUCTS = 0;
  static INFUSE_INLINE vf step(vf sum, vf, vf) { return sum; }
#endif
};

/** Four bytes a lane, for targets that multiply them with one instruction. */
struct Quads {
#if INFUSE_LANES == 16 && defined(__AVX512VNNI__)
  static constexpr int PRODUCTS = 4;
  static INFUSE_INLINE vf step(vf sum, vf a, vf b) {
    INFUSE_ADDING(vpdpbusd, sum, a, b);
    return sum;
  }
#elif INFUSE_LANES == 8 && defined(__AVXVNNI__)
  static constexpr int PRODUCTS = 4;
  static INFUSE_INLINE vf step(vf sum, vf a, vf b) {
    INFUSE_ADDING_VEX(vpdpbusd, sum, a, b);
    return sum;
  }
#else
  static constexpr int PRODUCTS = 0;
  static INFUSE_INLINE vf step(vf sum, vf, vf) { return sum; }
#endif
};

/** Independent chains of multiply-adds; the result only keeps them from being left out. */
template <class Kind>
struct Chains {
  static constexpr int PRODUCTS = Kind::PRODUCTS;
  static constexpr double WORDS = double(CHAINS) * STEPS * LANES;

  static INFUSE_NOINLINE vf run(float start) {
    const vf factor = splat(0.5f + start), addend = splat(0.25f + start);
    vf sums[CHAINS];
    for (int i = 0; i < CHAINS; ++i) sums[i] = splat(start + float(i));
    for (long step = 0; step < STEPS; ++step)
      for (int i = 0; i < CHAINS; ++i) sums[i] = Kind::step(sums[i], factor, addend);
    vf total{};
    for (int i = 0; i < CHAINS; ++i) total += sums[i];
    return total;
  }
};

/** The sum of whole groups of vectors. */
INFUSE_NOINLINE vf add_up(const float* values, long begin, long end) {
  vf sums[STREAMS] = {};
  for (long at = begin; at < end; ++at)
    for (int i = 0; i < STREAMS; ++i) sums[i] += load(values + (at * STREAMS + i) * LANES, Full{});
  vf total{};
  for (int i = 0; i < STREAMS; ++i) total += sums[i];
  return total;
}

typedef Chains<Floats> Fp32;
#if defined(INFUSE_BF16_TILES)
typedef Tiled<TiledPairs, 2> Bf16;
#else
typedef Chains<Pairs> Bf16;
#endif
#if defined(INFUSE_U8S8_TILES)
typedef Tiled<TiledQuads, 4> Int8;
#else
typedef Chains<Quads> Int8;
#endif

struct alignas(2 * CACHE_LINE) Kept {
  vf value;
  double rate;
};

/** Operations per second of this thread: that of the best tenth of short trials, which nothing interrupts. */
template <class Kind>
void measure(Kept& kept, double seconds) {
  long long taken[MOST_TRIALS], now = now_ns();
  const long long stop = now + (long long)(seconds * 1e9);
  int trials = 0;
  do {
    const long long begin = now;
    kept.value = Kind::run(kept.value[0] * 0);
    now = now_ns();
    int at = trials++;
    for (; at > 0 && taken[at - 1] > now - begin; --at) taken[at] = taken[at - 1];
    taken[at] = now - begin;
    now = now_ns();
  } while (trials < MOST_TRIALS && now < stop);
  kept.rate = 2.0 * Kind::PRODUCTS * Kind::WORDS / double(taken[trials / 10]) * 1e9;
}

template <class Kind>
double flops(int threads, double seconds) {
  if (!Kind::PRODUCTS) return 0;
  Context* context = context_open(threads);
  if (!context) return -1;
  threads = context->threads;
  Kept kept[MOST_THREADS] = {};
  context->parallel(threads, [&](long begin, long end, int) {
    for (long i = begin; i < end; ++i) measure<Kind>(kept[i], seconds);
  });
  context_close(context);
  double total = 0;
  for (int i = 0; i < threads; ++i) total += kept[i].rate;
  return total;
}

}  // namespace

extern "C" {

/**
 * Operations per second (a multiply-add counts two) on float32 (0), bfloat16 (1) or bytes (2), measured for `seconds`.
 * Zero where the target has no instruction for them, negative without memory.
 */
INFUSE_API double machine_flops(int kind, int threads, double seconds) {
  if (kind == 1) return flops<Bf16>(threads, seconds);
  return kind == 2 ? flops<Int8>(threads, seconds) : flops<Fp32>(threads, seconds);
}

/** Bytes per second read from a buffer of `bytes`, measured for `seconds`; negative without memory. */
INFUSE_API double machine_bandwidth(int threads, double seconds, int64_t bytes) {
  Context* context = context_open(threads);
  const long group = STREAMS * LANES * (long)sizeof(float), groups = (long)bytes / group;
  char* memory = context ? memory_open(nullptr, groups * group) : nullptr;
  if (!memory) {
    context_close(context);
    return -1;
  }
  float* values = (float*)memory;
  Kept kept[MOST_THREADS] = {};
  context->parallel(groups, [&](long begin, long end, int) {
    memset(memory + begin * group, 0, (size_t)((end - begin) * group));
  });
  double best = 0;
  const long long stop = now_ns() + (long long)(seconds * 1e9);
  do {
    const long long started = now_ns();
    context->parallel(groups, [&](long begin, long end, int worker) {
      kept[worker].value += add_up(values, begin, end);
    });
    const double rate = double(groups * group) / double(now_ns() - started) * 1e9;
    if (rate > best) best = rate;
  } while (now_ns() < stop);
  memory_close(nullptr, memory);
  context_close(context);
  return best;
}

}  // extern "C"
