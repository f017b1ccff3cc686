// Kernels in plain C that make some rows of a result at a time, with the channels of a pixel side by
// side: what follows elementwise is done before the next rows. Sums of integers wrap around, so that
// their order does not matter: processors with instructions for several products get the same.
#pragma once
#include "plain.h"

#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1)
#include <arm_mve.h>
#define ROWS_MVE 1
#elif defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_SIMD32) && !defined(__ARM_BIG_ENDIAN)
#include <arm_acle.h>
#define ROWS_DSP 1
#endif

/** Where integer k of a window stands among those that are multiplied: of four, those in the middle
 * change places where pairs are made of every second byte. */
#if defined(ROWS_DSP)
#define WINDOW_AT(k) (((k) & ~(isize)3) | ((k) & 1) << 1 | ((k) >> 1 & 1))
#else
#define WINDOW_AT(k) (k)
#endif

#define TAPS_AT_ONCE 32

/** Taps of a window at pixel `row` that lie in the image: their numbers and their pixels, at most
 * `most` from tap `begin` on, behind which *end is. */
PLAIN int taps_inside(const Window* w, isize row, isize begin, int most, isize* taps, isize* pixels,
                      isize* end) {
  const isize all = volume(w->rank, w->kernel), image = volume(w->rank, w->size);
  isize at[3] = {0}, tap[3] = {0}, rest = begin;
  int count = 0;
  if (w->rank == 2) {
    const isize high = w->size[0], wide = w->size[1], line = row / w->out[1];
    const isize y0 = line % w->out[0] * w->stride[0] - w->before[0];
    const isize x0 = row % w->out[1] * w->stride[1] - w->before[1];
    const isize first = line / w->out[0] * image;
    isize i = begin / w->kernel[1], j = begin % w->kernel[1];
    for (rest = begin; rest < all && count < most; ++rest) {
      const isize y = y0 + i * w->dilation[0], x = x0 + j * w->dilation[1];
      if (y >= 0 && y < high && x >= 0 && x < wide) {
        taps[count] = rest;
        pixels[count++] = first + y * wide + x;
      }
      if (++j == w->kernel[1]) j = 0, ++i;
    }
    *end = rest;
    return count;
  }
  for (int a = w->rank - 1; a >= 0; --a) {
    at[a] = row % w->out[a], row /= w->out[a];
    tap[a] = rest % w->kernel[a], rest /= w->kernel[a];
  }
  for (*end = begin; *end < all && count < most; ++*end, next_index(w->rank, w->kernel, tap)) {
    isize offset;
    if (!window_tap(w, at, tap, &offset)) continue;
    taps[count] = *end;
    pixels[count++] = row * image + offset;
  }
  return count;
}

// ---- products of integers ------------------------------------------------------------------------

/** The sums of `count` (1 or 2) windows of `depth` integers, a multiple of 4, with each filter. */
#define INFUSE_DOTS(W, ADD_FOUR)                                                                \
  PLAIN void dots_##W(isize count, isize filters, isize depth, const int16_t* window,           \
                      isize pitch, const W* weights, int32_t* line, isize columns) {            \
    isize f = 0;                                                                                \
    for (; f + 2 <= filters; f += 2) {                                                          \
      const W *a = weights + f * depth, *b = a + depth;                                         \
      const int16_t *x = window, *y = window + (count - 1) * pitch;                             \
      uint32_t xa = 0, xb = 0, ya = 0, yb = 0;                                                  \
      for (isize k = 0; k < depth; k += 4) ADD_FOUR(a + k, b + k, x + k, y + k, xa, xb, ya, yb) \
      line[(count - 1) * columns + f] = (int32_t)ya;                                            \
      line[(count - 1) * columns + f + 1] = (int32_t)yb;                                        \
      line[f] = (int32_t)xa;                                                                    \
      line[f + 1] = (int32_t)xb;                                                                \
    }                                                                                           \
    for (isize i = 0; f < filters && i < count; ++i) {                                          \
      uint32_t sum = 0;                                                                         \
      for (isize k = 0; k < depth; ++k)                                                         \
        sum += (uint32_t)((int32_t)window[i * pitch + WINDOW_AT(k)] * weights[f * depth + k]);  \
      line[i * columns + f] = (int32_t)sum;                                                     \
    }                                                                                           \
  }

#define ADD_ONE(k, a, b, x, y, xa, xb, ya, yb)                    \
  {                                                               \
    const int32_t p = (x)[WINDOW_AT(k)], q = (y)[WINDOW_AT(k)];   \
    xa += (uint32_t)(p * (a)[k]), xb += (uint32_t)(p * (b)[k]);   \
    ya += (uint32_t)(q * (a)[k]), yb += (uint32_t)(q * (b)[k]);   \
  }
#define ADD_PLAIN(a, b, x, y, xa, xb, ya, yb)      \
  {                                                \
    ADD_ONE(0, a, b, x, y, xa, xb, ya, yb)         \
    ADD_ONE(1, a, b, x, y, xa, xb, ya, yb)         \
    ADD_ONE(2, a, b, x, y, xa, xb, ya, yb)         \
    ADD_ONE(3, a, b, x, y, xa, xb, ya, yb)         \
  }

#if defined(ROWS_DSP)
/** What stands one byte higher comes first. */
#define ROTATED(word) ((word) >> 8 | (word) << 24)
PLAIN uint32_t word_at(const void* from) {
  uint32_t word;
  memcpy(&word, from, sizeof word);
  return word;
}
PLAIN uint32_t add_pairs(uint32_t a, uint32_t b, uint32_t sum) {
  return (uint32_t)__smlad((int16x2_t)a, (int16x2_t)b, (int32_t)sum);
}
#define ADD_BYTES(a, b, x, y, xa, xb, ya, yb)                                                     \
  {                                                                                               \
    const uint32_t u = word_at(a), v = word_at(b), p = word_at(x), q = word_at(y);                \
    const uint32_t p2 = word_at((x) + 2), q2 = word_at((y) + 2);                                  \
    const uint32_t u1 = (uint32_t)__sxtb16((int8x4_t)u), v1 = (uint32_t)__sxtb16((int8x4_t)v);    \
    const uint32_t u2 = (uint32_t)__sxtb16((int8x4_t)ROTATED(u));                                \
    const uint32_t v2 = (uint32_t)__sxtb16((int8x4_t)ROTATED(v));                                \
    xa = add_pairs(u1, p, xa), xb = add_pairs(v1, p, xb);                                         \
    ya = add_pairs(u1, q, ya), yb = add_pairs(v1, q, yb);                                         \
    xa = add_pairs(u2, p2, xa), xb = add_pairs(v2, p2, xb);                                       \
    ya = add_pairs(u2, q2, ya), yb = add_pairs(v2, q2, yb);                                       \
  }
#else
#define ADD_BYTES ADD_PLAIN
#endif

#if defined(ROWS_MVE)
PLAIN void dots_int8_t(isize count, isize filters, isize depth, const int16_t* window, isize pitch,
                       const int8_t* weights, int32_t* line, isize columns) {
  const int16_t *x = window, *y = window + (count - 1) * pitch;
  for (isize f = 0; f < filters; ++f) {
    const int8_t* w = weights + f * depth;
    int32_t xw = 0, yw = 0;
    for (isize k = 0; k < depth; k += 8) {
      const mve_pred16_t inside = vctp16q((uint32_t)(depth - k));
      const int16x8_t v = vldrbq_z_s16(w + k, inside);
      xw = vmladavaq_s16(xw, v, vldrhq_z_s16(x + k, inside));
      yw = vmladavaq_s16(yw, v, vldrhq_z_s16(y + k, inside));
    }
    line[(count - 1) * columns + f] = yw;
    line[f] = xw;
  }
}
#else
INFUSE_DOTS(int8_t, ADD_BYTES)
#endif
INFUSE_DOTS(int16_t, ADD_PLAIN)

/** Bytes less a zero point as integers of 16 bits, from number `k` of a window on. */
#define INFUSE_WIDEN(X, EXTEND)                                                                 \
  PLAIN void widen_##X(const X* x, isize count, int32_t zero, isize k, int16_t* window) {       \
    isize i = 0;                                                                                \
    if ((k & 3) == 0) EXTEND(x, count, zero, window + k, i)                                     \
    for (; i < count; ++i) window[WINDOW_AT(k + i)] = (int16_t)(x[i] - zero);                   \
  }
#if defined(ROWS_DSP)
#define EXTENDED(how, word, pair) \
  (uint32_t)__ssub16((int16x2_t)how((uint8x4_t)(word)), (int16x2_t)(pair))
#define WIDEN_WORDS(how, x, count, zero, window, i)                                             \
  for (const uint32_t pair = ((uint32_t)(zero) & 0xffff) * 0x10001u; i + 4 <= count; i += 4) {  \
    const uint32_t word = word_at(x + i), first = EXTENDED(how, word, pair);                    \
    const uint32_t second = EXTENDED(how, ROTATED(word), pair);                                \
    memcpy(window + i, &first, 4);                                                              \
    memcpy(window + i + 2, &second, 4);                                                         \
  }
#define WIDEN_SIGNED(...) WIDEN_WORDS(__sxtb16, __VA_ARGS__)
#define WIDEN_UNSIGNED(...) WIDEN_WORDS(__uxtb16, __VA_ARGS__)
#else
#define WIDEN_SIGNED(...) \
  {                       \
  }
#define WIDEN_UNSIGNED WIDEN_SIGNED
#endif
INFUSE_WIDEN(int8_t, WIDEN_SIGNED)
INFUSE_WIDEN(uint8_t, WIDEN_UNSIGNED)

/** Rows `first` and, of 2, the next one of a convolution with known filters [filters, depth], depth
 * being that of a group's channels under all taps, rounded up to fours. `window` holds 2 · depth. */
#define INFUSE_CONV_ROWS(X, W)                                                                  \
  PLAIN void conv_rows_##X##_##W(const Window* w, isize channels, isize filters, isize groups,  \
                                 isize depth, const X* x, const X* zeros, const W* weights,     \
                                 int16_t* window, isize first, isize count, int32_t* line) {    \
    const isize each = channels / groups, made = filters / groups;                              \
    const int32_t zero = zeros ? *zeros : 0;                                                    \
    for (isize g = 0; g < groups; ++g) {                                                        \
      for (isize i = 0; i < count; ++i) {                                                       \
        isize tap[TAPS_AT_ONCE], pixel[TAPS_AT_ONCE], from = 0;                                 \
        int16_t* const to = window + i * depth;                                                 \
        memset(to, 0, (size_t)depth * sizeof *to);                                              \
        for (int n; (n = taps_inside(w, first + i, from, TAPS_AT_ONCE, tap, pixel, &from)) > 0;)\
          for (int t = 0; t < n; ++t)                                                           \
            widen_##X(x + pixel[t] * channels + g * each, each, zero, tap[t] * each, to);       \
      }                                                                                         \
      dots_##W(count, made, depth, window, depth, weights + g * made * depth,                   \
               line + g * made, filters);                                                       \
    }                                                                                           \
  }                                                                                             \
  PLAIN void matmul_rows_##X##_##W(isize k, isize columns, isize depth, const X* x,             \
                                   const X* zeros, const W* weights, int16_t* window,           \
                                   isize first, isize count, int32_t* line) {                   \
    for (isize i = 0; i < count; ++i) {                                                         \
      for (isize j = k; j < depth; ++j) window[i * depth + WINDOW_AT(j)] = 0;                   \
      widen_##X(x + (first + i) * k, k, zeros ? *zeros : 0, 0, window + i * depth);             \
    }                                                                                           \
    dots_##W(count, columns, depth, window, depth, weights, line, columns);                     \
  }
INFUSE_CONV_ROWS(int8_t, int8_t)
INFUSE_CONV_ROWS(int8_t, int16_t)
INFUSE_CONV_ROWS(uint8_t, int8_t)
INFUSE_CONV_ROWS(uint8_t, int16_t)

/** One row of a depthwise convolution, with weights [taps, channels]. */
#define INFUSE_DEPTHWISE_ROWS(X, W, S, TAKE, STORE)                                              \
  PLAIN void depthwise_rows_##X##_##W(const Window* w, isize channels, const X* x, const X* zeros, \
                                      const W* weights, isize first, isize count, S* line) {     \
    const isize taps = volume(w->rank, w->kernel);                                               \
    const int32_t zero = zeros ? (int32_t)*zeros : 0;                                            \
    (void)count, (void)zero;                                                                     \
    memset(line, 0, (size_t)channels * sizeof *line);                                            \
    for (isize from = 0; from < taps;) {                                                         \
      isize tap[TAPS_AT_ONCE], pixel[TAPS_AT_ONCE], c = 0;                                       \
      const int n = taps_inside(w, first, from, TAPS_AT_ONCE, tap, pixel, &from);                \
      for (; c + 4 <= channels; c += 4) {                                                        \
        STORE s0 = (STORE)line[c], s1 = (STORE)line[c + 1], s2 = (STORE)line[c + 2];             \
        STORE s3 = (STORE)line[c + 3];                                                           \
        for (int t = 0; t < n; ++t) {                                                            \
          const X* p = x + pixel[t] * channels + c;                                              \
          const W* q = weights + tap[t] * channels + c;                                          \
          s0 += (STORE)(TAKE(p[0]) * q[0]), s1 += (STORE)(TAKE(p[1]) * q[1]);                    \
          s2 += (STORE)(TAKE(p[2]) * q[2]), s3 += (STORE)(TAKE(p[3]) * q[3]);                    \
        }                                                                                        \
        line[c] = (S)s0, line[c + 1] = (S)s1, line[c + 2] = (S)s2, line[c + 3] = (S)s3;          \
      }                                                                                          \
      for (; c < channels; ++c)                                                                  \
        for (int t = 0; t < n; ++t)                                                              \
          line[c] = (S)((STORE)line[c] + (STORE)(TAKE(x[pixel[t] * channels + c]) *              \
                                                 weights[tap[t] * channels + c]));               \
    }                                                                                            \
  }
#define TAKE_BYTE(x) ((int32_t)(x) - zero)
#define TAKE_FLOAT(x) (x)
INFUSE_DEPTHWISE_ROWS(int8_t, int8_t, int32_t, TAKE_BYTE, uint32_t)
INFUSE_DEPTHWISE_ROWS(int8_t, int16_t, int32_t, TAKE_BYTE, uint32_t)
INFUSE_DEPTHWISE_ROWS(uint8_t, int8_t, int32_t, TAKE_BYTE, uint32_t)
INFUSE_DEPTHWISE_ROWS(uint8_t, int16_t, int32_t, TAKE_BYTE, uint32_t)
INFUSE_DEPTHWISE_ROWS(float, float, float, TAKE_FLOAT, float)

// ---- products of floats --------------------------------------------------------------------------

/** The sums of `count` (1 or 2) rows of `depth` numbers with each filter. */
PLAIN void dots_float(isize count, isize filters, isize depth, const float* rows, isize pitch,
                      const float* weights, float* line, isize columns) {
  const float *x = rows, *y = rows + (count - 1) * pitch;
  float* const next = line + (count - 1) * columns;
  isize f = 0;
  for (; f + 4 <= filters; f += 4) {
    const float *a = weights + f * depth, *b = a + depth, *c = b + depth, *d = c + depth;
    float xa = 0, xb = 0, xc = 0, xd = 0, ya = 0, yb = 0, yc = 0, yd = 0;
    for (isize k = 0; k < depth; ++k) {
      const float p = x[k], q = y[k];
      xa += p * a[k], xb += p * b[k], xc += p * c[k], xd += p * d[k];
      ya += q * a[k], yb += q * b[k], yc += q * c[k], yd += q * d[k];
    }
    next[f] = ya, next[f + 1] = yb, next[f + 2] = yc, next[f + 3] = yd;
    line[f] = xa, line[f + 1] = xb, line[f + 2] = xc, line[f + 3] = xd;
  }
  for (; f < filters; ++f) {
    float xa = 0, ya = 0;
    for (isize k = 0; k < depth; ++k) xa += x[k] * weights[f * depth + k];
    for (isize k = 0; k < depth; ++k) ya += y[k] * weights[f * depth + k];
    next[f] = ya, line[f] = xa;
  }
}

PLAIN void conv_rows_float(const Window* w, isize channels, isize filters, isize groups, isize depth,
                           const float* x, const float* weights, float* window, isize first,
                           isize count, float* line) {
  const isize each = channels / groups, made = filters / groups;
  for (isize g = 0; g < groups; ++g) {
    for (isize i = 0; i < count; ++i) {
      isize tap[TAPS_AT_ONCE], pixel[TAPS_AT_ONCE], from = 0;
      float* const to = window + i * depth;
      memset(to, 0, (size_t)depth * sizeof *to);
      for (int n; (n = taps_inside(w, first + i, from, TAPS_AT_ONCE, tap, pixel, &from)) > 0;)
        for (int t = 0; t < n; ++t)
          memcpy(to + tap[t] * each, x + pixel[t] * channels + g * each, (size_t)each * sizeof *x);
    }
    dots_float(count, made, depth, window, depth, weights + g * made * depth, line + g * made, filters);
  }
}

PLAIN void matmul_rows_float(isize k, isize columns, const float* x, const float* weights, isize first,
                             isize count, float* line) {
  dots_float(count, columns, k, x + first * k, k, weights, line, columns);
}
