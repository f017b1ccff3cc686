// Kernels in plain C, an element at a time, for the target "c": a source begins with this text,
// after that of plain_context.h or bare_context.h.
// Functions whose names end in an element type exist for all that `INFUSE_PLAIN` lists.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "failure.h"
#include "isize.h"

#if defined(__OPTIMIZE__)
#define PLAIN static __attribute__((unused))
#else  // compilers leave out what nobody calls only where it is inline
#define PLAIN static inline __attribute__((unused))
#endif

// ---- element types -----------------------------------------------------------------------------

typedef uint16_t float16;
typedef uint16_t bfloat16;

/** A number in a float type of `digits` bits of mantissa, whose least bit is at least 2^least. */
PLAIN uint16_t narrowed(double x, int digits, int least, int infinite, int nan) {
  const int sign = signbit(x) ? 0x8000 : 0;
  int exponent, bits;
  if (isnan(x)) return (uint16_t)(sign | nan);
  if (isinf(x)) return (uint16_t)(sign | infinite);
  frexp(x, &exponent);
  const int last = exponent - digits > least ? exponent - digits : least;
  bits = (int)rint(ldexp(fabs(x), -last)) + ((x == 0 ? 0 : last - least) << (digits - 1));
  return (uint16_t)(sign | (bits < infinite ? bits : infinite));
}

/** What such bits stand for. */
PLAIN double widened(uint16_t bits, int digits, int least) {
  const int field = (bits & 0x7fff) >> (digits - 1), rest = bits & ((1 << (digits - 1)) - 1);
  const int all = 0x7fff >> (digits - 1);
  double x = field ? ldexp(rest + (1 << (digits - 1)), least + field - 1) : ldexp(rest, least);
  if (field == all) x = rest ? NAN : INFINITY;
  return bits & 0x8000 ? -x : x;
}

PLAIN float16 to_float16(double x) { return narrowed(x, 11, -24, 0x7c00, 0x7e00); }
PLAIN bfloat16 to_bfloat16(double x) { return narrowed(x, 8, -133, 0x7f80, 0x7fc0); }
PLAIN double of_float16(float16 x) { return widened(x, 11, -24); }
PLAIN double of_bfloat16(bfloat16 x) { return widened(x, 8, -133); }
PLAIN float to_float(double x) { return (float)x; }
PLAIN double of_float(float x) { return x; }
PLAIN double to_double(double x) { return x; }
PLAIN double of_double(double x) { return x; }

/** Integers as x86 converts them: truncated where they fit, else the least. */
PLAIN int64_t whole64_double(double x) {
  return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}
PLAIN int64_t whole64_float(float x) {
  return x >= -0x1p63f && x < 0x1p63f ? (int64_t)x : INT64_MIN;
}
PLAIN int32_t whole32_double(double x) {
  return x > -0x1p31 - 1 && x < 0x1p31 ? (int32_t)x : INT32_MIN;
}
PLAIN int32_t whole32_float(float x) {
  return x >= -0x1p31f && x < 0x1p31f ? (int32_t)x : INT32_MIN;
}
PLAIN uint64_t whole_unsigned(double x) {
  if (x >= 0x1p63) return x < 0x1p64 ? (uint64_t)x : (uint64_t)1 << 63;
  return (uint64_t)whole64_double(x);
}

// ---- formulas ----------------------------------------------------------------------------------

PLAIN double rsqrt_double(double x) { return 1 / sqrt(x); }
PLAIN double sigmoid_double(double x) {
  const double e = exp(-fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}
PLAIN double softplus_double(double x) { return (x < 0 ? 0 : x) + log1p(exp(-fabs(x))); }
#define rsqrt_float(x) rsqrt_double(x)
#define softplus_float(x) softplus_double(x)
#ifndef sigmoid_float
#define sigmoid_float(x) sigmoid_double(x)
#endif
#define mod_real_double(a, b) mod_real(a, b)
#define mod_real_float(a, b) mod_real(a, b)
PLAIN double mod_real(double a, double b) {
  const double r = fmod(a, b);
  if (r == 0) return copysign(r, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

/** A divisor other than zero; notes one that is zero. */
#define NONZERO(b, found) ((b) != 0 ? (b) : (*(found) = true, 1))

/** What numbers of a type are added and multiplied as: floats as double, integers so that they wrap
 * around. `S`: as what they are compared. */
#define INFUSE_REAL(T, S)                                                                      \
  typedef double T##_sum;                                                                      \
  PLAIN double plus_##T(double a, double b) { return a + b; }                                  \
  PLAIN double times_##T(double a, double b) { return a * b; }                                 \
  PLAIN double over_##T(double a, double b) { return a / b; }                                  \
  PLAIN double start_##T(bool most) { return most ? -INFINITY : INFINITY; }                    \
  PLAIN double abs_##T(double a) { return fabs(a); }                                           \
  PLAIN S max_##T(S a, S b) { return b != b ? b : a > b || a != a ? a : b; }                   \
  PLAIN S min_##T(S a, S b) { return b != b ? b : a < b || a != a ? a : b; }                   \
  PLAIN S sign_##T(S a) { return (S)(a > 0 ? 1 : a < 0 ? -1 : a); }

#define INFUSE_WHOLE(T, W, U, LEAST, MOST)                                                     \
  typedef W T##_sum;                                                                           \
  PLAIN W of_##T(T x) { return x; }                                                            \
  PLAIN T to_##T(W x) { return (T)x; }                                                         \
  PLAIN W plus_##T(W a, W b) { return (W)((uint64_t)a + (uint64_t)b); }                        \
  PLAIN W times_##T(W a, W b) { return (W)((uint64_t)a * (uint64_t)b); }                       \
  PLAIN W over_##T(W a, W b) { return b == 0 ? 0 : a / b; }                                    \
  PLAIN W start_##T(bool most) { return most ? (W)(LEAST) : (W)(MOST); }                       \
  PLAIN W abs_##T(W a) { return a < 0 ? (T)(0 - (uint64_t)a) : a; }                            \
  PLAIN W max_##T(W a, W b) { return a > b ? a : b; }                                          \
  PLAIN W min_##T(W a, W b) { return a < b ? a : b; }                                          \
  PLAIN W sign_##T(W a) { return (a > 0) - (a < 0); }                                          \
  PLAIN T div_##T(T a, T b) {                                                                  \
    if (b == 0) return 0;                                                                      \
    return (T)-1 < 0 && b == (T)-1 ? (T)(0 - (U)a) : (T)(a / b);                               \
  }                                                                                            \
  PLAIN T fmod_##T(T a, T b) {                                                                 \
    return b == 0 || ((T)-1 < 0 && b == (T)-1) ? 0 : (T)(a % b);                               \
  }                                                                                            \
  PLAIN T mod_##T(T a, T b) {                                                                  \
    const T r = fmod_##T(a, b);                                                                \
    return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;                                      \
  }                                                                                            \
  PLAIN T pow_##T(T a, T b) {                                                                  \
    uint64_t r = 1, x = (uint64_t)a;                                                           \
    if (b < 0) return a == 1 ? 1 : a == (T)-1 ? (T)(b & 1 ? -1 : 1) : 0;                       \
    for (uint64_t n = (uint64_t)b; n; n >>= 1, x *= x)                                         \
      if (n & 1) r *= x;                                                                       \
    return (T)r;                                                                               \
  }                                                                                            \
  PLAIN T shift_left_##T(T x, T by) {                                                          \
    return (uint64_t)by < 8 * sizeof(T) ? (T)((uint64_t)x << ((uint64_t)by & 63)) : 0;         \
  }                                                                                            \
  PLAIN T shift_right_##T(T x, T by) {                                                         \
    return (uint64_t)by < 8 * sizeof(T) ? (T)(x >> (by & (T)(8 * sizeof(T) - 1)))              \
                                        : (T)(x < 0 ? -1 : 0);                                 \
  }

INFUSE_REAL(float, float)
INFUSE_REAL(double, double)
INFUSE_REAL(float16, double)
INFUSE_REAL(bfloat16, double)
INFUSE_WHOLE(int8_t, int64_t, uint64_t, INT8_MIN, INT8_MAX)
INFUSE_WHOLE(int16_t, int64_t, uint64_t, INT16_MIN, INT16_MAX)
INFUSE_WHOLE(int32_t, int64_t, uint64_t, INT32_MIN, INT32_MAX)
INFUSE_WHOLE(int64_t, int64_t, uint64_t, INT64_MIN, INT64_MAX)
INFUSE_WHOLE(uint8_t, uint64_t, uint64_t, 0, UINT8_MAX)
INFUSE_WHOLE(uint16_t, uint64_t, uint64_t, 0, UINT16_MAX)
INFUSE_WHOLE(uint32_t, uint64_t, uint64_t, 0, UINT32_MAX)
INFUSE_WHOLE(uint64_t, uint64_t, uint64_t, 0, UINT64_MAX)
PLAIN bool of_bool(bool x) { return x; }
PLAIN bool to_bool(bool x) { return x; }
typedef bool bool_sum;
PLAIN bool plus_bool(bool a, bool b) { return a | b; }
PLAIN bool times_bool(bool a, bool b) { return a & b; }
PLAIN bool over_bool(bool a, bool b) { return a & b; }
PLAIN bool start_bool(bool most) { return !most; }
PLAIN bool abs_bool(bool a) { return a; }
PLAIN bool max_bool(bool a, bool b) { return a | b; }
PLAIN bool min_bool(bool a, bool b) { return a & b; }

// ---- places ------------------------------------------------------------------------------------

#define MOST_RANK 16

/** Moves to the next of the indices within `shape`; false behind the last one. */
PLAIN bool next_index(int rank, const isize* shape, isize* at) {
  for (int a = rank - 1; a >= 0; --a) {
    if (++at[a] < shape[a]) return true;
    at[a] = 0;
  }
  return false;
}

PLAIN isize offset_of(int rank, const isize* at, const isize* strides) {
  isize offset = 0;
  for (int a = 0; a < rank; ++a) offset += at[a] * strides[a];
  return offset;
}

PLAIN bool is_empty(int rank, const isize* shape) {
  for (int a = 0; a < rank; ++a)
    if (shape[a] <= 0) return true;
  return false;
}

/** An index that counts from the end where it is negative; false, and noted, where it is outside. */
PLAIN bool find_index(Context* c, int64_t index, isize size, isize* at) {
  const int64_t place = index < 0 ? index + size : index;
  *at = as_size(place);
  if (place >= 0 && place < size) return true;
  c->bad_index = as_size(index);
  c->index_limit = size;
  return false;
}

// ---- kernels that move elements of any type ------------------------------------------------------

PLAIN void copy_elements(isize bytes, int rank, const isize* shape, const isize* from, const isize* to,
                         const void* x, void* y) {
  isize at[MOST_RANK] = {0};
  if (is_empty(rank, shape)) return;
  do {
    const char* source = (const char*)x + offset_of(rank, at, from) * bytes;
    memcpy((char*)y + offset_of(rank, at, to) * bytes, source, (size_t)bytes);
  } while (next_index(rank, shape, at));
}

PLAIN void fill_elements(isize bytes, isize count, const void* value, void* y) {
  for (isize i = 0; i < count; ++i) memcpy((char*)y + i * bytes, value, (size_t)bytes);
}

enum PadMode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

/** The index of the source for index i of an axis of the result; -1: the constant. What is cut off
 * is not repeated. */
PLAIN isize pad_source(isize i, isize size, isize begin, isize out, enum PadMode mode) {
  const isize at = i - begin, left = out - begin;
  const isize first = begin < 0 ? -begin : 0, end = left < size ? left : size;
  if (at >= first && at < end) return at;
  if (mode == PAD_CONSTANT) return -1;
  if (mode == PAD_EDGE) return at < first ? first : end - 1;
  const isize count = end - first, period = mode == PAD_WRAP ? count : 2 * (count - 1);
  if (period == 0) return first;
  const isize r = ((at - first) % period + period) % period;
  return first + (r < count ? r : period - r);
}

PLAIN void pad(isize bytes, int rank, const isize* size, const isize* begin, const isize* out,
               enum PadMode mode, const void* value, const void* x, void* y) {
  isize at[MOST_RANK] = {0};
  char* to = (char*)y;
  if (is_empty(rank, out)) return;
  do {
    isize offset = 0;
    bool inside = true;
    for (int a = 0; a < rank; ++a) {
      const isize source = pad_source(at[a], size[a], begin[a], out[a], mode);
      inside = inside && source >= 0;
      offset = offset * size[a] + source;
    }
    memcpy(to, inside ? (const char*)x + offset * bytes : value, (size_t)bytes);
    to += bytes;
  } while (next_index(rank, out, at));
}

/** Keeps x[.., i, j] where j >= i + k (upper) or j <= i + k; zero elsewhere. */
PLAIN void triangle(isize bytes, isize batch, isize rows, isize cols, isize k, bool upper, const void* x,
                    void* y) {
  for (isize i = 0; i < batch * rows * cols; ++i) {
    const isize edge = i / cols % rows + (k < -rows ? -rows : k > cols ? cols : k), j = i % cols;
    char* to = (char*)y + i * bytes;
    if (upper ? j >= edge : j <= edge)
      memcpy(to, (const char*)x + i * bytes, (size_t)bytes);
    else
      memset(to, 0, (size_t)bytes);
  }
}

/** The parts whose condition holds: of each of `outer` rows of `size` parts of `bytes` bytes. */
PLAIN void compress(const void* x, const bool* condition, isize conditions, isize outer, isize size,
                    isize bytes, void* y) {
  char* to = (char*)y;
  for (isize row = 0; row < outer; ++row)
    for (isize i = 0; i < size && i < conditions; ++i)
      if (condition[i]) {
        memcpy(to, (const char*)x + (row * size + i) * bytes, (size_t)bytes);
        to += bytes;
      }
}

/** Kernels that read indices: `bytes` are those of an element, or of the slice that it selects. */
#define INFUSE_INDEXED(I)                                                                       \
  PLAIN bool gather_##I(Context* c, isize bytes, isize outer, isize size, isize count,              \
                        const void* x, const I* index, void* y) {                               \
    for (isize o = 0; o < outer; ++o)                                                            \
      for (isize i = 0; i < count; ++i) {                                                        \
        isize at;                                                                                \
        if (!find_index(c, index[i], size, &at)) return false;                                  \
        memcpy((char*)y + (o * count + i) * bytes, (const char*)x + (o * size + at) * bytes,    \
               (size_t)bytes);                                                                  \
      }                                                                                         \
    return true;                                                                                \
  }                                                                                             \
  PLAIN bool gather_elements_##I(Context* c, isize bytes, int rank, const isize* shape,           \
                                 const isize* strides, int axis, isize size, const void* x,       \
                                 const I* index, void* y) {                                     \
    isize at[MOST_RANK] = {0}, place;                                                            \
    if (is_empty(rank, shape)) return true;                                                     \
    do {                                                                                        \
      if (!find_index(c, *index++, size, &place)) return false;                                 \
      const isize from = offset_of(rank, at, strides) + (place - at[axis]) * strides[axis];      \
      memcpy(y, (const char*)x + from * bytes, (size_t)bytes);                                  \
      y = (char*)y + bytes;                                                                     \
    } while (next_index(rank, shape, at));                                                      \
    return true;                                                                                \
  }                                                                                             \
  PLAIN bool tuple_##I(Context* c, const I* index, int depth, const isize* sizes, isize* offset) { \
    *offset = 0;                                                                                \
    for (int d = 0; d < depth; ++d) {                                                           \
      isize at;                                                                                  \
      if (!find_index(c, index[d], sizes[d], &at)) return false;                                \
      *offset = *offset * sizes[d] + at;                                                        \
    }                                                                                           \
    return true;                                                                                \
  }                                                                                             \
  PLAIN bool gather_nd_##I(Context* c, isize bytes, isize batch, isize points, int depth,          \
                           const isize* sizes, const void* x, const I* index, void* y) {         \
    isize volume = 1, at;                                                                        \
    for (int d = 0; d < depth; ++d) volume *= sizes[d];                                         \
    for (isize i = 0; i < batch * points; ++i) {                                                 \
      if (!tuple_##I(c, index + i * depth, depth, sizes, &at)) return false;                    \
      memcpy((char*)y + i * bytes, (const char*)x + (i / points * volume + at) * bytes,         \
             (size_t)bytes);                                                                    \
    }                                                                                           \
    return true;                                                                                \
  }                                                                                             \
  PLAIN bool reverse_lines_##I(Context* c, isize bytes, isize batch, isize time, const void* x,    \
                               const I* lengths, void* y) {                                     \
    for (isize i = 0; i < batch * time; ++i) {                                                   \
      const isize line = i / time * time, t = i % time, length = as_size(lengths[i / time]);        \
      if (length < 0 || length > time) {                                                        \
        c->bad_index = length;                                                                  \
        c->index_limit = time;                                                                  \
        return false;                                                                           \
      }                                                                                         \
      const isize from = line + (t < length ? length - 1 - t : t);                               \
      memcpy((char*)y + i * bytes, (const char*)x + from * bytes, (size_t)bytes);               \
    }                                                                                           \
    return true;                                                                                \
  }

INFUSE_INDEXED(int32_t)
INFUSE_INDEXED(int64_t)

// ---- kernels that compute ----------------------------------------------------------------------

enum Reduction {
  REDUCE_SUM,
  REDUCE_MEAN,
  REDUCE_PROD,
  REDUCE_MAX,
  REDUCE_MIN,
  REDUCE_L1,
  REDUCE_L2,
  REDUCE_SUM_SQUARE,
  REDUCE_LOG_SUM,
  REDUCE_LOG_SUM_EXP,
};

enum Join { JOIN_NONE, JOIN_ADD, JOIN_MUL, JOIN_MIN, JOIN_MAX };

/** A window: its axes, and of each the sizes of image, result and kernel, and how it moves. */
typedef struct Window {
  int rank;
  isize size[3], out[3], kernel[3], stride[3], dilation[3], before[3], after[3];
} Window;

/** Where a tap of a window reads, along each axis; false in the padding. */
PLAIN bool window_tap(const Window* w, const isize* at, const isize* tap, isize* offset) {
  *offset = 0;
  for (int a = 0; a < w->rank; ++a) {
    const isize i = at[a] * w->stride[a] + tap[a] * w->dilation[a] - w->before[a];
    if (i < 0 || i >= w->size[a]) return false;
    *offset = *offset * w->size[a] + i;
  }
  return true;
}

PLAIN isize volume(int rank, const isize* shape) {
  isize all = 1;
  for (int a = 0; a < rank; ++a) all *= shape[a];
  return all;
}

#define INFUSE_PLAIN(T)                                                                         \
  PLAIN void range_##T(T start, T step, isize count, T* y) {                                     \
    for (isize i = 0; i < count; ++i)                                                            \
      y[i] = to_##T(plus_##T(of_##T(start), times_##T((T##_sum)i, of_##T(step))));              \
  }                                                                                             \
  PLAIN isize count_nonzero_##T(const T* x, isize n) {                                            \
    isize found = 0;                                                                             \
    for (isize i = 0; i < n; ++i) found += of_##T(x[i]) != 0;                                    \
    return found;                                                                               \
  }                                                                                             \
  PLAIN void nonzero_##T(const T* x, const isize* sizes, int rank, isize n, isize count,           \
                         int64_t* y) {                                                          \
    isize at[MOST_RANK] = {0}, column = 0;                                                       \
    for (isize i = 0; i < n; ++i, next_index(rank, sizes, at))                                   \
      if (of_##T(x[i]) != 0 && column < count) {                                                \
        for (int a = 0; a < rank; ++a) y[a * count + column] = at[a];                           \
        ++column;                                                                               \
      }                                                                                         \
  }                                                                                             \
  PLAIN T##_sum joined_##T(enum Join join, T##_sum a, T##_sum b) {                              \
    switch (join) {                                                                             \
      case JOIN_ADD: return plus_##T(a, b);                                                     \
      case JOIN_MUL: return times_##T(a, b);                                                    \
      case JOIN_MIN: return min_##T(a, b);                                                      \
      case JOIN_MAX: return max_##T(a, b);                                                      \
      default: return b;                                                                        \
    }                                                                                           \
  }                                                                                             \
  PLAIN bool scatter_elements_##T(Context* c, enum Join join, int rank, const isize* shape,      \
                                  const isize* strides, int axis, isize size, const int64_t* index, \
                                  const T* updates, T* y) {                                     \
    isize at[MOST_RANK] = {0}, place;                                                            \
    if (is_empty(rank, shape)) return true;                                                     \
    do {                                                                                        \
      if (!find_index(c, *index++, size, &place)) return false;                                 \
      T* to = y + offset_of(rank, at, strides) + (place - at[axis]) * strides[axis];            \
      *to = to_##T(joined_##T(join, of_##T(*to), of_##T(*updates++)));                          \
    } while (next_index(rank, shape, at));                                                      \
    return true;                                                                                \
  }                                                                                             \
  PLAIN bool scatter_nd_##T(Context* c, enum Join join, isize points, int depth,                 \
                            const isize* sizes, isize slice, const int64_t* index,                \
                            const T* updates, T* y) {                                           \
    for (isize i = 0; i < points; ++i) {                                                         \
      isize at;                                                                                  \
      if (!tuple_int64_t(c, index + i * depth, depth, sizes, &at)) return false;                \
      for (isize j = 0; j < slice; ++j) {                                                        \
        T* to = y + at * slice + j;                                                             \
        *to = to_##T(joined_##T(join, of_##T(*to), of_##T(updates[i * slice + j])));            \
      }                                                                                         \
    }                                                                                           \
    return true;                                                                                \
  }                                                                                             \
  PLAIN void running_##T(bool product, isize outer, isize size, isize inner, bool exclusive,       \
                         bool reverse, const T* x, T* y) {                                      \
    for (isize line = 0; line < outer * inner; ++line) {                                         \
      T##_sum all = (T##_sum)product;                                                           \
      for (isize i = 0; i < size; ++i) {                                                         \
        const isize row = reverse ? size - 1 - i : i;                                            \
        const isize at = (line / inner * size + row) * inner + line % inner;                     \
        const T##_sum next =                                                                    \
            product ? times_##T(all, of_##T(x[at])) : plus_##T(all, of_##T(x[at]));             \
        y[at] = to_##T(exclusive ? all : next);                                                 \
        all = next;                                                                             \
      }                                                                                         \
    }                                                                                           \
  }                                                                                             \
  /* Whether element a comes before b among the best; NaN is larger than every number. */       \
  PLAIN bool before_##T(bool largest, T##_sum a, T##_sum b) {                                   \
    if (a != a || b != b) return largest ? a != a && b == b : b != b && a == a;                 \
    return largest ? a > b : a < b;                                                             \
  }                                                                                             \
  PLAIN void arg_extreme_##T(bool largest, bool last, isize outer, isize size, isize inner,        \
                             const T* x, int64_t* y) {                                          \
    for (isize line = 0; line < outer * inner; ++line) {                                         \
      const T* from = x + line / inner * size * inner + line % inner;                           \
      isize best = 0;                                                                            \
      for (isize i = 1; i < size; ++i) {                                                         \
        const T##_sum a = of_##T(from[i * inner]), b = of_##T(from[best * inner]);              \
        const bool over = a != a ? b == b : b == b && (largest ? a > b : a < b);                \
        if (over || (last && (a == b || (a != a && b != b)))) best = i;                         \
      }                                                                                         \
      y[line] = best;                                                                           \
    }                                                                                           \
  }                                                                                             \
  PLAIN void top_k_##T(bool largest, isize outer, isize size, isize inner, isize k, const T* x,     \
                       T* y, int64_t* places) {                                                 \
    for (isize line = 0; line < outer * inner; ++line) {                                         \
      const T* from = x + line / inner * size * inner + line % inner;                           \
      const isize to = line / inner * k * inner + line % inner;                                  \
      for (isize i = 0, held = 0; i < size; ++i) {                                               \
        isize at = held;                                                                         \
        while (at > 0 && before_##T(largest, of_##T(from[i * inner]),                           \
                                    of_##T(y[to + (at - 1) * inner])))                          \
          --at;                                                                                 \
        if (at >= k) continue;                                                                  \
        held += held < k;                                                                       \
        for (isize j = held - 1; j > at; --j) {                                                  \
          y[to + j * inner] = y[to + (j - 1) * inner];                                          \
          places[to + j * inner] = places[to + (j - 1) * inner];                                \
        }                                                                                       \
        y[to + at * inner] = from[i * inner];                                                   \
        places[to + at * inner] = i;                                                            \
      }                                                                                         \
    }                                                                                           \
  }                                                                                             \
  /* Over the axes of `inside`, for each index of `outside`, whose results lie in order. */     \
  PLAIN void reduce_##T(enum Reduction kind, int outer, const isize* outside, const isize* steps, \
                        int inner, const isize* inside, const isize* strides, const T* x, T* y) { \
    isize at[MOST_RANK] = {0};                                                                   \
    const isize count = volume(inner, inside);                                                   \
    if (is_empty(outer, outside)) return;                                                       \
    do {                                                                                        \
      isize in[MOST_RANK] = {0};                                                                 \
      const T* from = x + offset_of(outer, at, steps);                                          \
      const bool extreme = kind == REDUCE_MAX || kind == REDUCE_MIN;                            \
      T##_sum all = extreme ? start_##T(kind == REDUCE_MAX) : (T##_sum)(kind == REDUCE_PROD);   \
      T##_sum most = start_##T(true);                                                           \
      if (kind == REDUCE_LOG_SUM_EXP && count > 0) {                                            \
        do                                                                                      \
          most = max_##T(most, of_##T(from[offset_of(inner, in, strides)]));                    \
        while (next_index(inner, inside, in));                                                  \
        if (isinf((double)most)) most = 0;                                                      \
      }                                                                                         \
      if (count > 0) do {                                                                       \
          const T##_sum v = of_##T(from[offset_of(inner, in, strides)]);                        \
          switch (kind) {                                                                       \
            case REDUCE_PROD: all = times_##T(all, v); break;                                   \
            case REDUCE_MAX: all = max_##T(all, v); break;                                      \
            case REDUCE_MIN: all = min_##T(all, v); break;                                      \
            case REDUCE_L1: all = plus_##T(all, abs_##T(v)); break;                             \
            case REDUCE_L2:                                                                     \
            case REDUCE_SUM_SQUARE: all = plus_##T(all, times_##T(v, v)); break;                \
            case REDUCE_LOG_SUM_EXP: all = plus_##T(all, (T##_sum)exp((double)(v - most))); break; \
            default: all = count == 1 ? v : plus_##T(all, v);                                   \
          }                                                                                     \
        } while (next_index(inner, inside, in));                                                \
      if (kind == REDUCE_MEAN) all = over_##T(all, (T##_sum)count);                             \
      if (kind == REDUCE_L2) all = (T##_sum)sqrt((double)all);                                  \
      if (kind == REDUCE_LOG_SUM) all = (T##_sum)log((double)all);                              \
      if (kind == REDUCE_LOG_SUM_EXP) all = (T##_sum)(log((double)all) + (double)most);         \
      *y++ = to_##T(all);                                                                       \
    } while (next_index(outer, outside, at));                                                   \
  }                                                                                             \
  PLAIN void matmul_##T(int rank, const isize* batch, const isize* a_steps, const isize* b_steps,  \
                        isize m, isize n, isize k, const isize* a_strides, const isize* b_strides,   \
                        const T* a, const T* b, T* y) {                                         \
    isize at[MOST_RANK] = {0};                                                                   \
    if (is_empty(rank, batch)) return;                                                          \
    do {                                                                                        \
      const T* left = a + offset_of(rank, at, a_steps);                                         \
      const T* right = b + offset_of(rank, at, b_steps);                                        \
      for (isize i = 0; i < m; ++i)                                                              \
        for (isize j = 0; j < n; ++j) {                                                          \
          T##_sum all = 0;                                                                      \
          for (isize p = 0; p < k; ++p)                                                          \
            all = plus_##T(all, times_##T(of_##T(left[i * a_strides[0] + p * a_strides[1]]),    \
                                          of_##T(right[p * b_strides[0] + j * b_strides[1]]))); \
          *y++ = to_##T(all);                                                                   \
        }                                                                                       \
    } while (next_index(rank, batch, at));                                                      \
  }                                                                                             \
  /* x [n, channels, image], weights [filters, channels / groups, kernel]; bias may be null. */ \
  PLAIN void conv_##T(Window w, isize n, isize channels, isize filters, isize groups, const T* x,   \
                      const T* weights, const T* bias, T* y) {                                  \
    const isize each = channels / groups, taps = volume(w.rank, w.kernel);                       \
    const isize image = volume(w.rank, w.size);                                                  \
    if (is_empty(w.rank, w.out)) return;                                                        \
    for (isize i = 0; i < n * filters; ++i) {                                                    \
      const isize f = i % filters, first = i / filters * channels + f / (filters / groups) * each; \
      isize at[3] = {0};                                                                         \
      do {                                                                                      \
        T##_sum all = bias ? of_##T(bias[f]) : 0;                                               \
        for (isize ch = 0; ch < each; ++ch) {                                                    \
          isize tap[3] = {0}, offset;                                                            \
          for (isize t = 0; t < taps; ++t, next_index(w.rank, w.kernel, tap))                    \
            if (window_tap(&w, at, tap, &offset))                                               \
              all = plus_##T(all, times_##T(of_##T(x[(first + ch) * image + offset]),           \
                                            of_##T(weights[(f * each + ch) * taps + t])));      \
        }                                                                                       \
        *y++ = to_##T(all);                                                                     \
      } while (next_index(w.rank, w.out, at));                                                  \
    }                                                                                           \
  }                                                                                             \
  /* The largest of each window, and its place in an image, along whose first axis neighbours   \
   * lie where it is `turned`. Of a pixel's elements `channels` lie side by side. */            \
  PLAIN void max_pool_##T(Window w, isize planes, isize channels, bool turned, const T* x, T* y,\
                          int64_t* places) {                                                    \
    const isize taps = volume(w.rank, w.kernel), image = volume(w.rank, w.size);                \
    const isize made = volume(w.rank, w.out);                                                   \
    if (is_empty(w.rank, w.out)) return;                                                        \
    for (isize i = 0; i < planes; ++i) {                                                        \
      const T* from = x + i / channels * channels * image + i % channels;                       \
      T* to = y + i / channels * channels * made + i % channels;                                \
      isize at[3] = {0};                                                                        \
      do {                                                                                      \
        isize tap[3] = {0}, offset, best = -1;                                                  \
        T##_sum most = start_##T(true);                                                         \
        for (isize t = 0; t < taps; ++t, next_index(w.rank, w.kernel, tap))                     \
          if (window_tap(&w, at, tap, &offset)) {                                               \
            const T##_sum v = of_##T(from[offset * channels]);                                  \
            if (best < 0 || v > most || (v != v && most == most)) most = v, best = offset;      \
          }                                                                                     \
        *to = to_##T(most), to += channels;                                                     \
        if (places && turned && best >= 0) {                                                    \
          isize place = 0, rest = best;                                                         \
          isize below = image;                                                                  \
          for (int a = w.rank - 1; a >= 0; --a, rest /= w.size[a + 1])                          \
            below /= w.size[a], place += rest % w.size[a] * below;                              \
          best = place;                                                                         \
        }                                                                                       \
        if (places) *places++ = i * image + best;                                               \
      } while (next_index(w.rank, w.out, at));                                                  \
    }                                                                                           \
  }                                                                                             \
  /* The mean (p = 0) or the p-norm of each window. */                                          \
  PLAIN void sum_pool_##T(Window w, isize planes, isize channels, double p, bool counted,       \
                          const T* x, T* y) {                                                   \
    const isize taps = volume(w.rank, w.kernel), image = volume(w.rank, w.size);                \
    const isize made = volume(w.rank, w.out);                                                   \
    if (is_empty(w.rank, w.out)) return;                                                        \
    for (isize i = 0; i < planes; ++i) {                                                        \
      const T* from = x + i / channels * channels * image + i % channels;                       \
      T* to = y + i / channels * channels * made + i % channels;                                \
      isize at[3] = {0};                                                                        \
      do {                                                                                      \
        isize tap[3] = {0}, offset, count = 0;                                                  \
        double all = 0;                                                                         \
        for (isize t = 0; t < taps; ++t, next_index(w.rank, w.kernel, tap)) {                   \
          const bool inside = window_tap(&w, at, tap, &offset);                                 \
          bool present = true;                                                                  \
          for (int a = 0; a < w.rank; ++a)                                                      \
            present = present && at[a] * w.stride[a] + tap[a] * w.dilation[a] <                 \
                                     w.before[a] + w.size[a] + w.after[a];                      \
          count += inside || (counted && present);                                              \
          const double v = inside ? (double)of_##T(from[offset * channels]) : 0;                \
          all += p > 0 ? pow(fabs(v), p) : v;                                                   \
        }                                                                                       \
        *to = to_##T((T##_sum)(p > 0 ? pow(all, 1 / p) : all / (double)count)), to += channels; \
      } while (next_index(w.rank, w.out, at));                                                  \
    }                                                                                           \
  }

INFUSE_PLAIN(float)
INFUSE_PLAIN(double)
INFUSE_PLAIN(float16)
INFUSE_PLAIN(bfloat16)
INFUSE_PLAIN(int8_t)
INFUSE_PLAIN(int16_t)
INFUSE_PLAIN(int32_t)
INFUSE_PLAIN(int64_t)
INFUSE_PLAIN(uint8_t)
INFUSE_PLAIN(uint16_t)
INFUSE_PLAIN(uint32_t)
INFUSE_PLAIN(uint64_t)
INFUSE_PLAIN(bool)

PLAIN int32_t of_byte(const void* x, isize i, bool is_signed) {
  return is_signed ? ((const int8_t*)x)[i] : ((const uint8_t*)x)[i];
}

/** The same convolution of bytes with zero points, that of the filters one or one for each. */
PLAIN void conv_integer(Window w, isize n, isize channels, isize filters, isize groups, const void* x,
                        bool x_signed, const void* x_zero, const void* weights, bool w_signed,
                        const void* w_zero, isize zeros, int32_t* y) {
  const isize each = channels / groups, taps = volume(w.rank, w.kernel);
  const isize image = volume(w.rank, w.size);
  const int32_t shift = x_zero ? of_byte(x_zero, 0, x_signed) : 0;
  if (is_empty(w.rank, w.out)) return;
  for (isize i = 0; i < n * filters; ++i) {
    const isize f = i % filters, first = i / filters * channels + f / (filters / groups) * each;
    const int32_t zero = w_zero ? of_byte(w_zero, zeros > 1 ? f : 0, w_signed) : 0;
    isize at[3] = {0};
    do {
      uint32_t all = 0;
      for (isize ch = 0; ch < each; ++ch) {
        isize tap[3] = {0}, offset;
        for (isize t = 0; t < taps; ++t, next_index(w.rank, w.kernel, tap))
          if (window_tap(&w, at, tap, &offset))
            all += (uint32_t)((of_byte(x, (first + ch) * image + offset, x_signed) - shift) *
                              (of_byte(weights, (f * each + ch) * taps + t, w_signed) - zero));
      }
      *y++ = (int32_t)all;
    } while (next_index(w.rank, w.out, at));
  }
}

/** How many numbers a Range has; negative when the step is zero or there are too many. */
PLAIN isize range_count_real(double start, double limit, double delta) {
  const double exact = (limit - start) / delta;
  if (delta == 0) return -1;
  if (!(exact > 0)) return 0;
  return exact > (double)MOST_BYTES ? -1 : (isize)ceil(exact);
}
PLAIN isize range_count_int64_t(int64_t start, int64_t limit, int64_t delta) {
  if (delta == 0) return -1;
  if (delta > 0 ? limit <= start : limit >= start) return 0;
  const uint64_t span = delta > 0 ? (uint64_t)limit - (uint64_t)start
                                  : (uint64_t)start - (uint64_t)limit;
  const uint64_t step = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
  const uint64_t count = span / step + (span % step != 0);
  return count > (uint64_t)MOST_BYTES ? -1 : (isize)count;
}
#define range_count_int32_t range_count_int64_t
#define range_count_int16_t range_count_int64_t
#define range_count_float(a, b, d) range_count_real(a, b, d)
#define range_count_double(a, b, d) range_count_real(a, b, d)
