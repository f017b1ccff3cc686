// What attention is given: sizes, rows of heads, and what happens to scores before the softmax.
#pragma once
#include "math.hpp"

namespace infuse {

/** Query heads share key and value heads in equal groups. */
struct AttentionSizes {
  isize batch, heads, kv_heads, queries, keys, dim, value_dim;
  isize causal_offset;  // where `causal`: 0 aligns the first query with the first key
};

struct AttentionShape : AttentionSizes {
  float scale = 1.0f;
  bool causal = false;  // query i sees the keys j <= i + causal_offset
  // row = (batch, query), col = (head, value); else row = (batch, head, query)
  bool merge_heads = true;
  isize left = -1;                  // a query sees so many keys before its own place; negative: all
  const int64_t* valid = nullptr;  // keys that count in each batch, the queries' own being the last
  const float* sinks = nullptr;    // for each head a score that takes part in the softmax alone
  isize block = 256;  // keys of a block at most: a multiple of the panels' width, up to 256
  isize few = 2;      // for so many queries, up to 4, keys are read as they lie and not packed
};

/** The shape with the keys that count in one batch alone. */
inline AttentionShape at_batch(const AttentionShape& shape, isize batch) {
  AttentionShape own = shape;
  if (shape.valid) {
    isize keys = shape.valid[batch];
    own.keys = keys < 0 ? 0 : keys < shape.keys ? keys : shape.keys;
    own.causal_offset = keys - shape.queries;
  }
  return own;
}

/** A tensor of rows that are contiguous; strides count floats. */
struct HeadRows {
  const float* data;
  isize batch, head, row;

  const float* at(isize b, isize h, isize i) const { return data + b * batch + h * head + i * row; }
};

/** Leaves the scores as they are. */
struct NoMask {
  template <class L>
  INFUSE_INLINE vf operator()(vf score, isize, isize, isize, isize, L) const {
    return score;
  }
};

/** Adds mask[batch, head, query, key]; a stride of 0 repeats, the stride of keys is 0 or 1. */
struct AddMask {
  const float* data;
  isize batch, head, query, key;

  template <class L>
  INFUSE_INLINE vf operator()(vf score, isize b, isize h, isize i, isize j, L lanes) const {
    const float* mask = data + b * batch + h * head + i * query + j * key;
    return score + (key == 0 ? splat(*mask) : load(mask, lanes));
  }
};

/** Keeps the scores where mask[batch, head, query, key] is true; strides as in AddMask. */
struct BoolMask {
  const bool* data;
  isize batch, head, query, key;

  template <class L>
  INFUSE_INLINE vf operator()(vf score, isize b, isize h, isize i, isize j, L lanes) const {
    const bool* mask = data + b * batch + h * head + i * query + j * key;
    vi keep = key == 0 ? splat<L>(*mask) : load_mask(mask, lanes);
    return select(keep, score, splat(-__builtin_inff()));
  }
};

/** Keeps the scores within ±cap, before the mask M. */
template <class M>
struct Capped {
  M mask;
  float cap;

  template <class L>
  INFUSE_INLINE vf operator()(vf score, isize b, isize h, isize i, isize j, L lanes) const {
    return mask(tanh(score / cap) * cap, b, h, i, j, lanes);
  }
};

/** Hides the keys outside of a window around each query, beside the mask M. */
template <class M>
struct Windowed {
  M mask;
  isize left, right;  // keys that a query sees before and after its own place; negative: all
  isize first;        // the place of the first query
  const int64_t* valid;  // or: keys that count in each batch, the queries' own being the last
  isize queries;

  template <class L>
  INFUSE_INLINE vf operator()(vf score, isize b, isize h, isize i, isize j, L lanes) const {
    isize place = i + (valid ? valid[b] - queries : first) - j;
    isize low = left < 0 ? 0 : place - left, high = right < 0 ? LANES : place + right + 1;
    vi lane = iota(), keep = (lane >= near(low)) & (lane < near(high));
    return select(keep, mask(score, b, h, i, j, lanes), splat(-__builtin_inff()));
  }

 private:
  static INFUSE_INLINE vi near(isize lane) {
    return splat(int32_t(lane < 0 ? 0 : lane > LANES ? LANES : lane));
  }
};

}  // namespace infuse
