// Recurrences along a sequence: causal convolution with a state, linear attention; and caches.
#pragma once
#include "copy.hpp"
#include "math.hpp"

namespace infuse {

// ---------------------------------------------------------------- causal convolution

/** Bytes of scratch per worker for causal_conv. */
inline long causal_conv_scratch(long length, long taps) { return (length + taps) * 4 + CACHE_LINE; }

/**
 * y[row, t] = bias + Σ weight[channel, j] · (past, x)[row, t + j] for `rows` = batch · channels lines,
 * through SiLU where `gate` says so; state[row] are the last taps - 1 elements of (past, x). `past` and
 * `bias` may be null. Needs causal_conv_scratch.
 */
inline void causal_conv(Context& context, long rows, long channels, long length, long taps, bool gate,
                        const float* x, const float* weight, const float* bias, const float* past,
                        float* y, float* state) {
  const long reach = taps - 1;
  context.parallel(
      rows,
      [&](long begin, long end, int worker) {
        float* line = reinterpret_cast<float*>(context.scratch(worker));
        for (long row = begin; row < end; ++row) {
          const float* w = weight + row % channels * taps;
          const float first = bias ? bias[row % channels] : 0.0f;
          for (long j = 0; j < reach; ++j) line[j] = past ? past[row * reach + j] : 0.0f;
          copy_bytes(reinterpret_cast<char*>(line + reach),
                     reinterpret_cast<const char*>(x + row * length), length * 4);
          sweep(0, length, [&](long t, auto lanes) {
            vf sum = splat(first);
            for (long j = 0; j < taps; ++j) sum = fma(splat(w[j]), load(line + t + j, lanes), sum);
            store(y + row * length + t, gate ? sum * sigmoid(sum) : sum, lanes);
          });
          for (long j = 0; j < reach; ++j) state[row * reach + j] = line[length + j];
        }
      },
      1 + COPY_GRAIN / (4 * length * taps + 1));
}

// ---------------------------------------------------------------- linear attention

/**
 * Sizes: `q_heads` queries a step share the states [key, value] of `heads` heads. A step has `decays`
 * numbers per head (0: no decay, 1, or one for each element of the key), and `rates` numbers in all
 * (0: none, 1, or one per head). The results are multiplied by `scale`, where it is 0 by 1 / √key.
 */
struct LinearAttention {
  long batch, length, q_heads, heads, key, value, decays, rates;
  float scale;
};

namespace recurrence_detail {
constexpr long BLOCK = 2 * LANES;  // columns of the state that are carried at once
}

/** Bytes of scratch per worker for linear_attention. */
inline long linear_attention_scratch(long key) {
  return 4 * key * recurrence_detail::BLOCK + 4 * (key + LANES) + CACHE_LINE;
}

namespace recurrence_detail {

/** One head of one sample, `a` and `b` tagging the two vectors of columns; pointers are to their place. */
template <class A, class B>
inline void attend(const LinearAttention& s, long n, long h, long column, A a, B b, const float* q,
                   const float* k, const float* v, const float* decay, const float* beta, float* y,
                   float* block, float* fade) {
  const long shared = s.q_heads / s.heads;
  const float scale = s.scale != 0.0f ? s.scale : float(1.0 / sqrt(double(s.key)));
  for (long t = 0; t < s.length; ++t) {
    const long step = n * s.length + t;
    const float* key = k + (step * s.heads + h) * s.key;
    const float* value = v + (step * s.heads + h) * s.value + column;
    vf new_a = load(value, a), new_b = load(value + LANES, b);
    if (s.decays > 0) {
      const float* from = decay + (step * s.heads + h) * s.decays;
      sweep(0, s.decays,
            [&](long i, auto lanes) { store(fade + i, exp(load(from + i, lanes)), lanes); });
    }
    if (s.decays > 0 || s.rates > 0) {
      vf seen_a = {}, seen_b = {};
      for (long d = 0; d < s.key; ++d) {
        float* row = block + d * BLOCK;
        vf left = load(row, Full{}), right = load(row + LANES, Full{});
        if (s.decays > 0) {
          const vf f = splat(fade[s.decays == 1 ? 0 : d]);
          left *= f, right *= f;
          store(row, left, Full{});
          store(row + LANES, right, Full{});
        }
        const vf weight = splat(key[d]);
        seen_a = fma(left, weight, seen_a);
        seen_b = fma(right, weight, seen_b);
      }
      if (s.rates > 0) {
        const vf rate = splat(beta[step * s.rates + (s.rates == 1 ? 0 : h)]);
        new_a = rate * (new_a - seen_a);
        new_b = rate * (new_b - seen_b);
      }
    }
    for (long g = 0; g < shared; ++g) {
      const float* query = q + (step * s.q_heads + h * shared + g) * s.key;
      vf sum_a = {}, sum_b = {};
      for (long d = 0; d < s.key; ++d) {
        float* row = block + d * BLOCK;
        vf left = load(row, Full{}), right = load(row + LANES, Full{});
        if (g == 0) {
          const vf weight = splat(key[d]);
          left = fma(weight, new_a, left);
          right = fma(weight, new_b, right);
          store(row, left, Full{});
          store(row + LANES, right, Full{});
        }
        const vf wanted = splat(query[d]);
        sum_a = fma(wanted, left, sum_a);
        sum_b = fma(wanted, right, sum_b);
      }
      float* to = y + (step * s.q_heads + h * shared + g) * s.value + column;
      store(to, sum_a * scale, a);
      store(to + LANES, sum_b * scale, b);
    }
  }
}

}  // namespace recurrence_detail

/**
 * Linear attention: q [batch, length, q_heads, key], k [batch, length, heads, key], v [batch, length,
 * heads, value], past and state [batch, heads, key, value]; `past`, `decay` and `beta` may be null.
 * Needs linear_attention_scratch.
 */
inline void linear_attention(Context& context, const LinearAttention& s, const float* q,
                             const float* k, const float* v, const float* past, const float* decay,
                             const float* beta, float* y, float* state) {
  using namespace recurrence_detail;
  const long blocks = (s.value + BLOCK - 1) / BLOCK;
  context.parallel(
      s.batch * s.heads * blocks,
      [&](long begin, long end, int worker) {
        float* block = reinterpret_cast<float*>(context.scratch(worker));
        float* fade = block + s.key * BLOCK;
        for (long unit = begin; unit < end; ++unit) {
          const long head = unit / blocks, column = unit % blocks * BLOCK;
          const long width = s.value - column < BLOCK ? s.value - column : BLOCK;
          const long place = head * s.key * s.value + column;
          for (long d = 0; d < s.key; ++d)
            for (long j = 0; j < BLOCK; ++j)
              block[d * BLOCK + j] = past && j < width ? past[place + d * s.value + j] : 0.0f;
          const long n = head / s.heads, h = head % s.heads;
          const int first = int(width < LANES ? width : LANES), rest = int(width) - first;
          if (width == BLOCK)
            attend(s, n, h, column, Full{}, Full{}, q, k, v, decay, beta, y, block, fade);
          else
            attend(s, n, h, column, Tail{first}, Tail{rest}, q, k, v, decay, beta, y, block, fade);
          for (long d = 0; d < s.key; ++d)
            for (long j = 0; j < width; ++j) state[place + d * s.value + j] = block[d * BLOCK + j];
        }
      },
      1);
}

// ---------------------------------------------------------------- caches

/**
 * Writes update [batch, outer, count, bytes] into y [batch, outer, size, bytes] from starts[sample] on
 * (null: 0), around the end where `circular`. False when an update does not fit.
 */
inline bool tensor_scatter(Context& context, long batch, long outer, long size, long count,
                           long bytes, bool circular, const char* update, const int64_t* starts,
                           char* y) {
  if (count == 0 || batch == 0 || outer == 0) return true;
  if (count > size) return false;
  for (long i = 0; starts && !circular && i < batch; ++i)
    if (starts[i] < 0 || starts[i] > size - count) return false;
  context.parallel(
      batch * outer,
      [&](long begin, long end, int) {
        for (long row = begin; row < end; ++row) {
          long start = starts ? long(starts[row / outer] % size) : 0;
          if (start < 0) start += size;
          const long head = size - start < count ? size - start : count;
          const char* from = update + row * count * bytes;
          copy_bytes(y + (row * size + start) * bytes, from, head * bytes);
          copy_bytes(y + row * size * bytes, from + head * bytes, (count - head) * bytes);
        }
      },
      1 + COPY_GRAIN / (count * bytes + 1));
  return true;
}

// ---------------------------------------------------------------- determinants

/** Bytes of scratch per worker for determinants of matrices of n rows. */
inline long determinant_scratch(long n) { return 8 * n * n + CACHE_LINE; }

/**
 * The determinants of x [batch, n, n]: Gauss's elimination in double. Needs determinant_scratch.
 * Zeros are positive; a matrix with NaN gives NaN, also behind a column of zeros.
 */
template <class T>
inline void determinants(Context& context, long batch, long n, const T* x, T* y) {
  context.parallel(
      batch,
      [&](long begin, long end, int worker) {
        double* a = reinterpret_cast<double*>(context.scratch(worker));
        for (long i = begin; i < end; ++i) {
          for (long j = 0; j < n * n; ++j) a[j] = static_cast<double>(x[i * n * n + j]);
          double product = 1;
          for (long c = 0; c < n; ++c) {
            long best = c;
            for (long r = c + 1; r < n; ++r)
              if (!(abs(a[r * n + c]) <= abs(a[best * n + c]))) best = r;
            if (best != c) {
              product = -product;
              for (long j = c; j < n; ++j) {
                const double kept = a[c * n + j];
                a[c * n + j] = a[best * n + j];
                a[best * n + j] = kept;
              }
            }
            const double pivot = a[c * n + c];
            product *= pivot;
            if (pivot == 0) {
              for (long j = c * n; j < n * n; ++j) product += 0.0 * a[j];
              break;
            }
            for (long r = c + 1; r < n; ++r) {
              const double factor = a[r * n + c] / pivot;
              for (long j = c + 1; j < n; ++j) a[r * n + j] -= factor * a[c * n + j];
            }
          }
          y[i] = T(product + 0.0);
        }
      },
      1 + 16384 / (n * n * n + 1));
}

}  // namespace infuse
