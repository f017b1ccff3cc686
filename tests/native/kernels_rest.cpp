// Plain functions over the kernels, for kernel_driver.py.
#include <stdlib.h>

#include "arena.h"
#include "attention.hpp"
#include "depthwise_any.hpp"
#include "driver_calls.hpp"
#include "interleave.hpp"
#include "extremes.hpp"
#include "gather.hpp"
#include "lp_norm.hpp"
#include "map.hpp"
#include "norm.hpp"
#include "pad.hpp"
#include "pool.hpp"
#include "pool_planes.hpp"
#include "resize.hpp"
#include "resize_planes.hpp"
#include "sequence.hpp"
#include "softmax.hpp"

// ---- threads ---------------------------------------------------------------------------------

API int thread_count(Context* c) { return c->threads; }
API int reserve(Context* c, long scratch) { return c->reserve(scratch); }
API int aligned(Context* c) {
  bool good = true;
  for (int i = 0; i < c->threads; ++i) good &= reinterpret_cast<intptr_t>(c->scratch(i)) % 64 == 0;
  return good;
}

API void touch(Context* c, long scratch) {
  for (int i = 0; i < c->threads; ++i) memset(c->scratch(i), i, size_t(scratch));
}

// Counts every index once in hits; the shortest range goes to *shortest.
API void cover(Context* c, long n, long grain, int* hits, long* shortest) {
  *shortest = n;
  c->parallel(
      n,
      [&](long begin, long end, int worker) {
        long length = end - begin, seen = __atomic_load_n(shortest, __ATOMIC_RELAXED);
        while (length < seen && !__atomic_compare_exchange_n(shortest, &seen, length, true,
                                                             __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        }
        if (worker < 0 || worker >= c->threads) abort();
        for (long i = begin; i < end; ++i) ++hits[i];
      },
      grain);
}

// The first piece of a worker takes until all others are done; whether it came to that.
API bool cover_without_one(Context* c, long n, int* hits) {
  long done = 0, held = 0;
  c->parallel(n, [&](long begin, long end, int worker) {
    for (long i = begin; i < end; ++i) ++hits[i];
    const long long limit = now_ns() + 20000000000LL;
    if (worker == 0)
      while (!__atomic_load_n(&held, __ATOMIC_SEQ_CST) && now_ns() < limit) cpu_pause();
    else if (!__atomic_exchange_n(&held, end - begin, __ATOMIC_SEQ_CST))
      while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) < n - (end - begin) && now_ns() < limit)
        cpu_pause();
    __atomic_fetch_add(&done, end - begin, __ATOMIC_SEQ_CST);
    if (now_ns() >= limit) __atomic_store_n(&held, -1, __ATOMIC_SEQ_CST);
  });
  return held > 0;
}

// How often a range came with the number of another worker than the one that does it.
API long other_workers(Context* c, long n, long grain) {
  long wrong = 0;
  c->parallel(
      n,
      [&](long, long, int worker) {
        if (worker != current_worker(c)) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
      },
      grain);
  return wrong;
}

// Whole shares come with their numbers.
API long whole_shares(Context* c, long n, long* workers) {
  long calls = 0;
  c->parallel(
      n,
      [&](long begin, long end, int worker) {
        for (long i = begin; i < end; ++i) workers[i] = worker;
        __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
      },
      1, WHOLE);
  return calls;
}

API long cover_often(Context* c, long n, int calls) {
  long wrong = 0;
  for (int call = 0; call < calls; ++call) {
    int hits[64] = {};
    long used = 1 + (n + call) % 64;
    c->parallel(used, [&](long begin, long end, int) {
      for (long i = begin; i < end; ++i) ++hits[i];
    });
    for (long i = 0; i < used; ++i) wrong += hits[i] != 1;
  }
  return wrong;
}

API void nested(Context* c, long outer, long inner, int* hits) {
  c->parallel(outer, [&](long begin, long end, int) {
    for (long i = begin; i < end; ++i)
      c->parallel(inner, [&](long first, long last, int) {
        for (long j = first; j < last; ++j) ++hits[i * inner + j];
      });
  });
}

// ---- arena -----------------------------------------------------------------------------------

API long plan(const long* sizes, const int* first, const int* last, int count, const int* orders,
              int attempts, long* offsets) {
  void* work = malloc(size_t(arena_scratch(count)));
  ArenaItems items = {sizes, first, last, count};
  long total = arena_plan(&items, orders, attempts, offsets, work);
  free(work);
  return total;
}

// ---- copies ----------------------------------------------------------------------------------

API void copy(Context* c, int bytes, int rank, const long* dims, const long* from, const long* to,
              const void* src, void* dst) {
  if (bytes == 1) copy_nd<1>(*c, rank, dims, from, to, src, dst);
  if (bytes == 2) copy_nd<2>(*c, rank, dims, from, to, src, dst);
  if (bytes == 4) copy_nd<4>(*c, rank, dims, from, to, src, dst);
  if (bytes == 8) copy_nd<8>(*c, rank, dims, from, to, src, dst);
  if (bytes == 16) copy_nd<16>(*c, rank, dims, from, to, src, dst);
}

API void planes_interleaved(Context* c, long channels, long images, long pixels, const uint32_t* src,
                            uint32_t* dst) {
  if (channels == 2) interleave_planes<2>(*c, images, pixels, src, dst);
  if (channels == 3) interleave_planes<3>(*c, images, pixels, src, dst);
  if (channels == 4) interleave_planes<4>(*c, images, pixels, src, dst);
}

API void fill_int64(Context* c, int64_t* y, long n, int64_t value) { fill(*c, y, n, value); }

API void pad(Context* c, int bytes, int rank, const long* size, const long* begin, const long* out,
             int mode, const void* value, const void* x, void* y) {
  if (bytes == 1) pad_nd<1>(*c, rank, size, begin, out, PadMode(mode), value, x, y);
  if (bytes == 4) pad_nd<4>(*c, rank, size, begin, out, PadMode(mode), value, x, y);
  if (bytes == 8) pad_nd<8>(*c, rank, size, begin, out, PadMode(mode), value, x, y);
}

// ---- maps ------------------------------------------------------------------------------------

API void map_square(Context* c, long rows, long cols, long cost, const float* x, float* y) {
  Store out = {y, cols};
  map2d(
      *c, rows, cols,
      [&](long row, long col, auto lanes) {
        vf a = load(x + row * cols + col, lanes);
        out(a * a, row, col, lanes);
      },
      cost);
}

API void map_triple(Context* c, long rows, long cols, long cost, const int64_t* x, int64_t* y) {
  map_scalar(
      *c, rows, cols, [&](long row, long col) { y[row * cols + col] += 3 * x[row * cols + col]; },
      cost);
}

// ---- images ----------------------------------------------------------------------------------

static DepthwiseSizes depthwise_sizes(const long* s) {
  return {s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12], s[13]};
}

API int depthwise_conv(Context* c, const long* sizes, const float* x, const float* w, float* y) {
  DepthwiseSizes s = depthwise_sizes(sizes);
  Store out = {y, s.channels};
  if (s.kernel_width == 3 && s.stride_width == 1) return depthwise<3, 1>(*c, s, x, w, out), 0;
  if (s.kernel_width == 3 && s.stride_width == 2) return depthwise<3, 2>(*c, s, x, w, out), 0;
  if (s.kernel_width == 5 && s.stride_width == 1) return depthwise<5, 1>(*c, s, x, w, out), 0;
  if (s.kernel_width == 5 && s.stride_width == 2) return depthwise<5, 2>(*c, s, x, w, out), 0;
  if (s.kernel_width == 7 && s.stride_width == 1) return depthwise<7, 1>(*c, s, x, w, out), 0;
  if (s.kernel_width == 7 && s.stride_width == 2) return depthwise<7, 2>(*c, s, x, w, out), 0;
  return 1;
}

API void depthwise_generic(Context* c, const long* sizes, long multiplier, const float* x,
                           const float* w, float* y) {
  DepthwiseSizes s = depthwise_sizes(sizes);
  const Store out = {y, s.channels * multiplier};
  if (multiplier == 1) return depthwise_any<1>(*c, s, multiplier, x, w, out);
  if (multiplier == 2) return depthwise_any<2>(*c, s, multiplier, x, w, out);
  if (multiplier == 3) return depthwise_any<3>(*c, s, multiplier, x, w, out);
  if (multiplier == 4) return depthwise_any<4>(*c, s, multiplier, x, w, out);
  depthwise_any<0>(*c, s, multiplier, x, w, out);
}

static PoolSizes pool_sizes(const long* s) {
  return {s[0], s[1],  s[2],  s[3],  s[4],  s[5],  s[6],  s[7],      s[8],
          s[9], s[10], s[11], s[12], s[13], s[14], s[15], s[16] != 0, s[17]};
}

API void pool_image(Context* c, int kind, float p, const long* sizes, const float* x, float* y) {
  PoolSizes s = pool_sizes(sizes);
  Store out = {y, s.channels};
  c->reserve(pool_scratch(s));
  if (kind == 0) pool(*c, s, MaxPool{}, x, out);
  if (kind == 1) pool(*c, s, MeanPool{}, x, out);
  if (kind == 2) pool(*c, s, PowerPool{p}, x, out);
}

API void pool_of_planes(Context* c, int kind, float p, const long* sizes, const float* x,
                        float* y) {
  PoolSizes s = pool_sizes(sizes);
  Store out = {y, s.out_width};
  c->reserve(pool_planes_scratch(s));
  if (kind == 0) pool_planes(*c, s, MaxPool{}, x, out);
  if (kind == 1) pool_planes(*c, s, MeanPool{}, x, out);
  if (kind == 2) pool_planes(*c, s, PowerPool{p}, x, out);
}

API void pool_index(Context* c, const long* sizes, const float* x, float* y, int64_t* index,
                    int columns_lead) {
  max_pool_index(*c, pool_sizes(sizes), x, y, index, columns_lead != 0);
}

API void pool_global(Context* c, int kind, long n, long pixels, long ch, const float* x, float* y) {
  if (kind == 0) global_max_pool(*c, n, pixels, ch, x, Store{y, ch});
  if (kind == 1) global_mean_pool(*c, n, pixels, ch, x, Store{y, ch});
}

static ResizeShape resize_shape(const long* s, const double* d) {
  return {s[0],
          s[1],
          {s[2], s[3], d[0], d[1], d[2]},
          {s[4], s[5], d[3], d[4], d[5]},
          ResizeMode(s[6]),
          ResizeCoordinates(s[7]),
          ResizeRounding(s[8]),
          float(d[6]),
          s[9] != 0,
          float(d[7]),
          s[10] != 0};
}

API void resize_image(Context* c, const long* s, const double* d, const float* x, float* y) {
  ResizeShape shape = resize_shape(s, d);
  c->reserve(resize_scratch(shape));
  resize(*c, shape, x, Store{y, s[1]});
}

API void resize_plane(Context* c, const long* s, const double* d, const float* x, float* y) {
  ResizeShape shape = resize_shape(s, d);
  c->reserve(resize_planes_scratch(shape));
  resize_planes(*c, shape, x, Store{y, s[5]});
}

// ---- rows ------------------------------------------------------------------------------------

API void softmax_rows(Context* c, int logarithm, long rows, long cols, const float* x, float* y) {
  c->reserve(softmax_scratch(cols));
  Rows in = {x, cols};
  if (logarithm)
    log_softmax(*c, rows, cols, in, Store{y, cols});
  else
    softmax(*c, rows, cols, in, Store{y, cols});
}

API void softmax_columns(Context* c, int logarithm, long outer, long size, long inner,
                         const float* x, float* y) {
  c->reserve(softmax_scratch(size, inner));
  Rows in = {x, inner};
  if (logarithm)
    log_softmax_axis(*c, outer, size, inner, in, Store{y, inner});
  else
    softmax_axis(*c, outer, size, inner, in, Store{y, inner});
}

API void normalise(Context* c, int kind, long rows, long cols, const float* x, const float* scale,
                   const float* bias, float eps, float* y) {
  c->reserve(norm_scratch(cols));
  Rows in = {x, cols};
  Store out = {y, cols};
  if (kind == 0) layer_norm(*c, rows, cols, in, scale, bias, eps, out);
  if (kind == 1) rms_norm(*c, rows, cols, in, scale, eps, out);
}

API void lp_normalise(Context* c, int p, const long* s, const float* x, float* y) {
  ReduceSizes shape = {s[0], s[1], s[2], s[3]};
  Store out = {y, shape.cols};
  if (p == 1) lp_norm<L1Norm>(*c, shape, x, out);
  if (p == 2) lp_norm<L2Norm>(*c, shape, x, out);
}

API void normalise_sum(Context* c, long rows, long cols, const float* a, const float* b, float* y) {
  c->reserve(norm_scratch(cols));
  auto in = [&](long row, long col, auto lanes) {
    return load(a + row * cols + col, lanes) + load(b + row * cols + col, lanes);
  };
  layer_norm(*c, rows, cols, in, nullptr, nullptr, 1e-5f, Store{y, cols});
}

API void normalise_groups(Context* c, const long* s, const float* x, const float* scale,
                          const float* bias, float eps, float* y) {
  GroupSizes shape = {s[0], s[1], s[2], s[3]};
  c->reserve(group_norm_scratch(shape));
  group_norm(*c, shape, Rows{x, shape.channels}, scale, bias, eps, Store{y, shape.channels});
}

API void normalise_planes(Context* c, const long* s, const float* x, const float* scale,
                          const float* bias, float eps, float* y) {
  GroupSizes shape = {s[0], s[1], s[2], s[3]};
  group_norm_planes(*c, shape, Rows{x, shape.pixels}, scale, bias, eps, Store{y, shape.pixels});
}

// ---- reductions ------------------------------------------------------------------------------

API void reduce_floats(Context* c, int kind, const long* s, const float* x, float* y) {
  ReduceSizes shape = {s[0], s[1], s[2], s[3]};
  Store out = {y, shape.cols};
  if (kind == 0) reduce<Sum>(*c, shape, x, out);
  if (kind == 1) reduce<Mean>(*c, shape, x, out);
  if (kind == 2) reduce<Product>(*c, shape, x, out);
  if (kind == 3) reduce<Max>(*c, shape, x, out);
  if (kind == 4) reduce<Min>(*c, shape, x, out);
  if (kind == 5) reduce<SumSquare>(*c, shape, x, out);
  if (kind == 6) reduce<L1>(*c, shape, x, out);
  if (kind == 7) reduce<L2>(*c, shape, x, out);
  if (kind == 8) reduce<LogSum>(*c, shape, x, out);
  if (kind == 9) log_sum_exp(*c, shape, x, out);
}

template <class T>
static void reduce_kind(Context* c, int kind, const long* s, const void* x, void* y) {
  ReduceSizes shape = {s[0], s[1], s[2], s[3]};
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(y);
  if (kind == 0) reduce_scalar<Sum>(*c, shape, from, to);
  if (kind == 1) reduce_scalar<Mean>(*c, shape, from, to);
  if (kind == 2) reduce_scalar<Product>(*c, shape, from, to);
  if (kind == 3) reduce_scalar<Max>(*c, shape, from, to);
  if (kind == 4) reduce_scalar<Min>(*c, shape, from, to);
  if (kind == 5) reduce_scalar<SumSquare>(*c, shape, from, to);
  if (kind == 6) reduce_scalar<L1>(*c, shape, from, to);
  if (kind == 7) reduce_scalar<L2>(*c, shape, from, to);
  if (kind == 8) reduce_scalar<LogSum>(*c, shape, from, to);
}

API void reduce_others(Context* c, int type, int kind, const long* s, const void* x, void* y) {
  if (type == 0) reduce_kind<int32_t>(c, kind, s, x, y);
  if (type == 1) reduce_kind<int64_t>(c, kind, s, x, y);
  if (type == 2) reduce_kind<double>(c, kind, s, x, y);
  if (type == 3) reduce_kind<uint8_t>(c, kind, s, x, y);
  if (type == 4) reduce_kind<int8_t>(c, kind, s, x, y);
}

API void reduce_bools(Context* c, int kind, const long* s, const bool* x, bool* y) {
  ReduceSizes shape = {s[0], s[1], s[2], s[3]};
  if (kind == 3) reduce_scalar<Max>(*c, shape, x, y);
  if (kind == 4) reduce_scalar<Min>(*c, shape, x, y);
}

API void place(Context* c, int type, int largest, int last, long outer, long size, long inner,
               const void* x, int64_t* y) {
  auto run = [&](auto value) {
    const auto* from = static_cast<decltype(value) const*>(x);
    if (largest)
      arg_extreme<true>(*c, outer, size, inner, last != 0, from, y);
    else
      arg_extreme<false>(*c, outer, size, inner, last != 0, from, y);
  };
  if (type == 0) run(int32_t());
  if (type == 2) run(double());
  if (type == 5) run(float());
}

// ---- attention -------------------------------------------------------------------------------

struct AttentionCall {
  long batch, heads, kv_heads, queries, keys, dim, value_dim, causal, offset, merge;
  long q[3], k[3], v[3], mask[4];
};

API void attend(Context* c, const AttentionCall* a, float scale, int mask_kind, const float* q,
                const float* k, const float* v, const void* mask, float* y) {
  AttentionSizes sizes = {a->batch, a->heads, a->kv_heads,  a->queries,
                          a->keys,  a->dim,   a->value_dim, a->offset};
  AttentionShape s = {sizes, scale, a->causal != 0, a->merge != 0};
  c->reserve(attention_scratch(s));
  HeadRows qs = {q, a->q[0], a->q[1], a->q[2]}, ks = {k, a->k[0], a->k[1], a->k[2]};
  HeadRows vs = {v, a->v[0], a->v[1], a->v[2]};
  Store out = {y, s.merge_heads ? s.heads * s.value_dim : s.value_dim};
  const long* m = a->mask;
  if (mask_kind == 0) attention(*c, s, qs, ks, vs, NoMask{}, out);
  if (mask_kind == 1)
    attention(*c, s, qs, ks, vs, AddMask{static_cast<const float*>(mask), m[0], m[1], m[2], m[3]},
              out);
  if (mask_kind == 2)
    attention(*c, s, qs, ks, vs, BoolMask{static_cast<const bool*>(mask), m[0], m[1], m[2], m[3]},
              out);
}

// ---- indices ---------------------------------------------------------------------------------

#define BY_SIZE(call) bytes == 1 ? call(1) : bytes == 4 ? call(4) : bytes == 8 ? call(8) : false

API int gather_axis(Context* c, int bytes, int wide, long outer, long size, long inner, long count,
                    const void* x, const void* index, void* y) {
#define CALL(B)                                                                              \
  (wide ? gather<B>(*c, outer, size, inner, count, x, static_cast<const int64_t*>(index), y) \
        : gather<B>(*c, outer, size, inner, count, x, static_cast<const int32_t*>(index), y))
  return BY_SIZE(CALL);
#undef CALL
}

API int gather_each(Context* c, int bytes, int rank, const long* index_dims, const long* dims,
                    int axis, const void* x, const int64_t* index, void* y) {
#define CALL(B) gather_elements<B>(*c, rank, index_dims, dims, axis, x, index, y)
  return BY_SIZE(CALL);
#undef CALL
}

API int gather_tuples(Context* c, int bytes, long batch, long points, long depth, const long* dims,
                      long slice, const void* x, const int64_t* index, void* y) {
#define CALL(B) gather_nd<B>(*c, batch, points, depth, dims, slice, x, index, y)
  return BY_SIZE(CALL);
#undef CALL
}

#define BY_JOIN(call)          \
  join == 0   ? call(Assign)   \
  : join == 1 ? call(Add)      \
  : join == 2 ? call(Multiply) \
  : join == 3 ? call(Smaller)  \
              : call(Larger)

API int scatter_tuples(Context* c, int join, long points, long depth, const long* dims, long slice,
                       const float* x, const int64_t* index, const float* updates, float* y) {
#define CALL(J) scatter_nd<J>(*c, points, depth, dims, slice, x, index, updates, y)
  return BY_JOIN(CALL);
#undef CALL
}

API int scatter_each(Context* c, int join, int rank, const long* index_dims, const long* dims,
                     int axis, const int32_t* x, const int64_t* index, const int32_t* updates,
                     int32_t* y) {
#define CALL(J) scatter_elements<J>(*c, rank, index_dims, dims, axis, x, index, updates, y)
  return BY_JOIN(CALL);
#undef CALL
}

// ---- sequences -------------------------------------------------------------------------------

API void range_int64(Context* c, int64_t first, int64_t step, long count, int64_t* y) {
  range(*c, first, step, count, y);
}

API void trilu(Context* c, long batch, long rows, long cols, long k, int upper, const float* x,
               float* y) {
  triangle(*c, batch, rows, cols, k, upper != 0, x, y);
}

API void running_sum(Context* c, long outer, long size, long inner, int exclusive, int reverse,
                     const int64_t* x, int64_t* y) {
  cumsum(*c, outer, size, inner, exclusive != 0, reverse != 0, x, y);
}

API void one_hot_floats(Context* c, long outer, long depth, long inner, const int64_t* index,
                        float off, float on, float* y) {
  one_hot(*c, outer, depth, inner, index, off, on, y);
}

API void top(Context* c, int largest, long outer, long size, long inner, long k, const float* x,
             float* values, int64_t* index) {
  c->reserve(top_k_scratch(k));
  if (largest)
    top_k<true>(*c, outer, size, inner, k, x, values, index);
  else
    top_k<false>(*c, outer, size, inner, k, x, values, index);
}

API long count_nonzero(const float* x, long n) { return nonzero_count(x, n); }
API void list_nonzero(int rank, const long* dims, const float* x, long count, int64_t* y) {
  nonzero_fill(rank, dims, x, count, y);
}
