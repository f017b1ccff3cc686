// How tests tell a kernel of attention what to do.
#pragma once
#include "attention.hpp"
#include "driver.hpp"

struct Store {
  float* out;
  long n;

  template <class L>
  INFUSE_INLINE void operator()(vf acc, long row, long col, L lanes) const {
    store_once(out + row * n + col, acc, lanes);
  }
};

struct AttentionCall {
  long batch, heads, kv_heads, queries, keys, dim, value_dim, causal, offset, merge;
  long q[3], k[3], v[3], mask[4];
};

// kernel(context, shape, queries, keys, values, mask, sink)
template <class Kernel>
void attend(int threads, const AttentionCall* a, float scale, const float* q, const float* k,
            const float* v, const float* mask, float* y, const Kernel& kernel) {
  AttentionSizes sizes = {a->batch, a->heads, a->kv_heads,  a->queries,
                          a->keys,  a->dim,   a->value_dim, a->offset};
  AttentionShape s = {sizes, scale, a->causal != 0, a->merge != 0};
  Run run(threads, attention_scratch(s));
  Context* c = run.ctx;
  HeadRows qs = {q, a->q[0], a->q[1], a->q[2]}, ks = {k, a->k[0], a->k[1], a->k[2]};
  HeadRows vs = {v, a->v[0], a->v[1], a->v[2]};
  Store out = {y, s.merge_heads ? s.heads * s.value_dim : s.value_dim};
  const long* m = a->mask;
  if (mask)
    kernel(*c, s, qs, ks, vs, AddMask{mask, m[0], m[1], m[2], m[3]}, out);
  else
    kernel(*c, s, qs, ks, vs, NoMask{}, out);
}
