// Recurrences along a sequence: causal convolution with a state, linear attention; and caches.
#pragma once
#include "copy.hpp"
#include "math.hpp"

namespace infuse {

// ---------------------------------------------------------------- causal convolution

/** Bytes of scratch per worker for causal_conv. */
inline isize causal_conv_scratch(isize length, isize taps) { return (length + taps) * 4 + CACHE_LINE; }

/**
 * y[row, t] = bias + Σ weight[channel, j] · (past, x)[row, t + j] for `rows` = batch · channels lines,
 * through SiLU where `gate` says so; state[row] are the last taps - 1 elements of (past, x). `past` and
 * `bias` may be null. Needs causal_conv_scratch.
 */
inline void causal_conv(Context& context, isize rows, isize channels, isize length, isize taps, bool gate,
                        const float* x, const float* weight, const float* bias, const float* past,
                        float* y, float* state) {
  const isize reach = taps - 1;
  context.parallel(
      rows,
      [&](isize begin, isize end, int worker) {
        float* line = reinterpret_cast<float*>(context.scratch(worker));
        for (isize row = begin; row < end; ++row) {
          const float* w = weight + row % channels * taps;
          const float first = bias ? bias[row % channels] : 0.0f;
          for (isize j = 0; j < reach; ++j) line[j] = past ? past[row * reach + j] : 0.0f;
          copy_bytes(reinterpret_cast<char*>(line + reach),
                     reinterpret_cast<const char*>(x + row * length), length * 4);
          sweep(0, length, [&](isize t, auto lanes) {
            vf sum = splat(first);
            for (isize j = 0; j < taps; ++j) sum = fma(splat(w[j]), load(line + t + j, lanes), sum);
            store(y + row * length + t, gate ? sum * sigmoid(sum) : sum, lanes);
          });
          for (isize j = 0; j < reach; ++j) state[row * reach + j] = line[length + j];
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
  isize batch, length, q_heads, heads, key, value, decays, rates;
  float scale;
};

namespace recurrence_detail {
constexpr isize BLOCK = 2 * LANES;  // columns of the state that are carried at once
}

/** Bytes of scratch per worker for linear_attention. */
inline isize linear_attention_scratch(isize key) {
  return 4 * key * recurrence_detail::BLOCK + 4 * (key + LANES) + CACHE_LINE;
}

namespace recurrence_detail {

/** One head of one sample, `a` and `b` tagging the two vectors of columns; pointers are to their place. */
template <class A, class B>
inline void attend(const LinearAttention& s, isize n, isize h, isize column, A a, B b, const float* q,
                   const float* k, const float* v, const float* decay, const float* beta, float* y,
                   float* block, float* fade) {
  const isize shared = s.q_heads / s.heads;
  const float scale = s.scale != 0.0f ? s.scale : float(1.0 / sqrt(double(s.key)));
  for (isize t = 0; t < s.length; ++t) {
    const isize step = n * s.length + t;
    const float* key = k + (step * s.heads + h) * s.key;
    const float* value = v + (step * s.heads + h) * s.value + column;
    vf new_a = load(value, a), new_b = load(value + LANES, b);
    if (s.decays > 0) {
      const float* from = decay + (step * s.heads + h) * s.decays;
      sweep(0, s.decays,
            [&](isize i, auto lanes) { store(fade + i, exp(load(from + i, lanes)), lanes); });
    }
    if (s.decays > 0 || s.rates > 0) {
      vf seen_a = {}, seen_b = {};
      for (isize d = 0; d < s.key; ++d) {
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
    for (isize g = 0; g < shared; ++g) {
      const float* query = q + (step * s.q_heads + h * shared + g) * s.key;
      vf sum_a = {}, sum_b = {};
      for (isize d = 0; d < s.key; ++d) {
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
  const isize blocks = (s.value + BLOCK - 1) / BLOCK;
  context.parallel(
      s.batch * s.heads * blocks,
      [&](isize begin, isize end, int worker) {
        float* block = reinterpret_cast<float*>(context.scratch(worker));
        float* fade = block + s.key * BLOCK;
        for (isize unit = begin; unit < end; ++unit) {
          const isize head = unit / blocks, column = unit % blocks * BLOCK;
          const isize width = s.value - column < BLOCK ? s.value - column : BLOCK;
          const isize place = head * s.key * s.value + column;
          for (isize d = 0; d < s.key; ++d)
            for (isize j = 0; j < BLOCK; ++j)
              block[d * BLOCK + j] = past && j < width ? past[place + d * s.value + j] : 0.0f;
          const isize n = head / s.heads, h = head % s.heads;
          const int first = int(width < LANES ? width : LANES), rest = int(width) - first;
          if (width == BLOCK)
            attend(s, n, h, column, Full{}, Full{}, q, k, v, decay, beta, y, block, fade);
          else
            attend(s, n, h, column, Tail{first}, Tail{rest}, q, k, v, decay, beta, y, block, fade);
          for (isize d = 0; d < s.key; ++d)
            for (isize j = 0; j < width; ++j) state[place + d * s.value + j] = block[d * BLOCK + j];
        }
      },
      1);
}

// ---------------------------------------------------------------- caches

/**
 * Writes update [batch, outer, count, bytes] into y [batch, outer, size, bytes] from starts[sample] on
 * (null: 0), around the end where `circular`. False when an update does not fit.
 */
inline bool tensor_scatter(Context& context, isize batch, isize outer, isize size, isize count,
                           isize bytes, bool circular, const char* update, const int64_t* starts,
                           char* y) {
  if (count == 0 || batch == 0 || outer == 0) return true;
  if (count > size) return false;
  for (isize i = 0; starts && !circular && i < batch; ++i)
    if (starts[i] < 0 || starts[i] > size - count) return false;
  context.parallel(
      batch * outer,
      [&](isize begin, isize end, int) {
        for (isize row = begin; row < end; ++row) {
          isize start = starts ? isize(starts[row / outer] % size) : 0;
          if (start < 0) start += size;
          const isize head = size - start < count ? size - start : count;
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
inline isize determinant_scratch(isize n) { return 8 * n * n + CACHE_LINE; }

/**
 * The determinants of x [batch, n, n]: Gauss's elimination in double. Needs determinant_scratch.
 * Zeros are positive; a matrix with NaN gives NaN, also behind a column of zeros.
 */
template <class T>
inline void determinants(Context& context, isize batch, isize n, const T* x, T* y) {
  context.parallel(
      batch,
      [&](isize begin, isize end, int worker) {
        double* a = reinterpret_cast<double*>(context.scratch(worker));
        for (isize i = begin; i < end; ++i) {
          for (isize j = 0; j < n * n; ++j) a[j] = static_cast<double>(x[i * n * n + j]);
          double product = 1;
          for (isize c = 0; c < n; ++c) {
            isize best = c;
            for (isize r = c + 1; r < n; ++r)
              if (!(abs(a[r * n + c]) <= abs(a[best * n + c]))) best = r;
            if (best != c) {
              product = -product;
              for (isize j = c; j < n; ++j) {
                const double kept = a[c * n + j];
                a[c * n + j] = a[best * n + j];
                a[best * n + j] = kept;
              }
            }
            const double pivot = a[c * n + c];
            product *= pivot;
            if (pivot == 0) {
              for (isize j = c * n; j < n * n; ++j) product += 0.0 * a[j];
              break;
            }
            for (isize r = c + 1; r < n; ++r) {
              const double factor = a[r * n + c] / pivot;
              for (isize j = c + 1; j < n; ++j) a[r * n + j] -= factor * a[c * n + j];
            }
          }
          y[i] = T(product + 0.0);
        }
      },
      1 + 16384 / (n * n * n + 1));
}

}  // namespace infuse
