// Attention over keys and values in pages, those of many sequences in one pool.
#pragma once
#include "attention.hpp"
#include "half.hpp"

namespace infuse {

/**
 * Pages of `page` tokens, up to 256: keys [pool, kv_heads, dim, page], values [pool, kv_heads, page, value_dim].
 * Sequence i has `listed` numbers of pages from i · listed on.
 */
struct PagedSizes {
  isize tokens, sequences, heads, kv_heads, dim, value_dim, pool, page, listed;
};

/** Which rows are whose: as the operator PagedAttention says. */
struct Sequences {
  const int64_t *starts, *lengths, *pages;
};

struct PagedShape : PagedSizes {
  float scale, cap;  // cap: 0 for none
  isize left;        // tokens that one sees before its own place; negative: all
  const float *sinks, *slopes;
};

/** What happens to the scores of a head of queries at one place. */
struct PagedMask {
  float cap, slope;
  isize left;

  template <class L>
  INFUSE_INLINE vf operator()(vf score, isize, isize, isize place, isize key, L lanes) const {
    if (cap != 0) score = tanh(score / cap) * cap;
    const isize far = place - key;
    if (slope != 0) score -= (splat(float(far)) - to_float(iota())) * slope;
    if (left < 0 || far <= left) return score;
    const isize first = far - left;  // the first lane that is near enough
    const vi near = iota() >= splat(int32_t(first < LANES ? first : isize(LANES)));
    return select(near, score, splat(-__builtin_inff()));
  }
};

namespace paged_detail {

using namespace attention_detail;

constexpr isize MOST_TOGETHER = 8 * ROWS;  // rows of queries of a unit
constexpr isize WRITES = 1 << 14;          // elements that are worth a thread

inline bool fits(const PagedShape& s, const Sequences& of) {
  if (of.starts[0] != 0 || of.starts[s.sequences] > s.tokens) return false;
  for (isize i = 0; i < s.sequences; ++i) {
    const int64_t length = of.lengths[i], from = of.starts[i], to = of.starts[i + 1];
    if (to < from || to > s.tokens || length < to - from || length > int64_t(s.listed) * s.page)
      return false;
    for (isize j = 0; j * s.page < length; ++j) {
      const int64_t page = of.pages[i * s.listed + j];
      if (page < 0 || page >= s.pool) return false;
    }
  }
  return true;
}

/** Puts the tokens' own keys and values where they belong. */
template <class T>
inline void put(Context& c, const PagedShape& s, const Sequences& of, const float* k, const float* v,
                T* keys, T* values) {
  const auto run = [&](isize begin, isize end, int) {
    isize i = 0;
    for (isize row = begin; row < end && row < of.starts[s.sequences]; ++row) {
      while (row >= of.starts[i + 1]) ++i;
      const isize place = isize(of.lengths[i] - of.starts[i + 1]) + row, slot = place % s.page;
      const isize page = isize(of.pages[i * s.listed + place / s.page]) * s.kv_heads;
      for (isize h = 0; h < s.kv_heads; ++h) {
        const float* key = k + (row * s.kv_heads + h) * s.dim;
        T* to = keys + (page + h) * s.dim * s.page + slot;
        for (isize d = 0; d < s.dim; ++d) to[d * s.page] = T(key[d]);
        const float* value = v + (row * s.kv_heads + h) * s.value_dim;
        T* at = values + ((page + h) * s.page + slot) * s.value_dim;
        sweep(0, s.value_dim, [&](isize d, auto lanes) { store(at + d, load(value + d, lanes), lanes); });
      }
    }
  };
  c.parallel(s.tokens, run, 1 + WRITES / (s.kv_heads * (s.dim + s.value_dim) + 1));
}

/** sum[i] += Σ a[i * Row + p * Step] · b[p * b_step ..], of fewer elements than a vector has. */
template <class T, int R, int Row, int Step>
INFUSE_INLINE void multiply_tail(const float* a, const T* b, isize b_step, isize depth, Tail lanes,
                                 vf (&sum)[R]) {
  for (isize p = 0; p < depth; ++p, a += Step, b += b_step) {
    const vf right = load(b, lanes);
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) sum[i] = fma(splat(a[i * Row]), right, sum[i]);
  }
}

/** Scores of R rows with V vectors of keys of a page. */
template <class T, int R, int V>
INFUSE_INLINE void score_vectors(const PagedShape& s, const float* q, const T* k, float* scores) {
  vf sum[R][V] = {};
  multiply<Floats, R, V, 1, ROWS>(q, k, s.page, s.dim, sum);
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v)
      store(scores + i * MOST_KEYS + v * LANES, sum[i][v] * s.scale, Full{});
}

/** The scores of R rows with `count` keys, the first of which is the first of a page. */
template <class T, int R>
INFUSE_NOINLINE void score_block(const PagedShape& s, const int64_t* pages, const T* keys, isize count,
                                 const float* q, float* scores) {
  for (isize first = 0; first < count; first += s.page, ++pages) {
    const T* page = keys + isize(*pages) * s.kv_heads * s.dim * s.page;
    const isize own = min(s.page, count - first);
    isize j = 0;
    for (; j + LANES < own && j + PANEL <= s.page; j += PANEL)
      score_vectors<T, R, 2>(s, q, page + j, scores + first + j);
    for (; j < own && j + LANES <= s.page; j += LANES)
      score_vectors<T, R, 1>(s, q, page + j, scores + first + j);
    if (j >= own) continue;
    vf sum[R] = {};
    const Tail lanes = {int(own - j)};
    multiply_tail<T, R, 1, ROWS>(q, page + j, s.page, s.dim, lanes, sum);
    for (int i = 0; i < R; ++i) store(scores + i * MOST_KEYS + first + j, sum[i] * s.scale, lanes);
  }
}

/** Adds the weighted values of `count` keys to V vectors of the results of R rows. */
template <class T, int R, int V>
INFUSE_INLINE void mix_vectors(const PagedShape& s, const int64_t* pages, const T* values, isize count,
                               const float* weights, float* out, isize out_step) {
  vf sum[R][V];
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sum[i][v] = load(out + i * out_step + v * LANES, Full{});
  for (isize j = 0; j < count; j += s.page, ++pages) {
    const T* page = values + isize(*pages) * s.kv_heads * s.page * s.value_dim;
    multiply<Floats, R, V, MOST_KEYS, 1>(weights + j, page, s.value_dim, min(s.page, count - j), sum);
  }
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) store(out + i * out_step + v * LANES, sum[i][v], Full{});
}

template <class T, int R>
INFUSE_NOINLINE void mix_block(const PagedShape& s, const int64_t* pages, const T* values, isize count,
                               const float* weights, float* out, isize out_step) {
  isize d = 0;
  for (; d + PANEL <= s.value_dim; d += PANEL)
    mix_vectors<T, R, 2>(s, pages, values + d, count, weights, out + d, out_step);
  for (; d + LANES <= s.value_dim; d += LANES)
    mix_vectors<T, R, 1>(s, pages, values + d, count, weights, out + d, out_step);
  if (d == s.value_dim) return;
  vf sum[R];
  for (int i = 0; i < R; ++i) sum[i] = load(out + i * out_step + d, Full{});
  for (isize j = 0; j < count; j += s.page, ++pages) {
    const T* page = values + isize(*pages) * s.kv_heads * s.page * s.value_dim + d;
    multiply_tail<T, R, MOST_KEYS, 1>(weights + j, page, s.value_dim, min(s.page, count - j),
                                      Tail{int(s.value_dim - d)}, sum);
  }
  for (int i = 0; i < R; ++i) store(out + i * out_step + d, sum[i], Full{});
}

/** The memory of a worker. */
struct PagedSpace {
  float *q, *scores, *out, *top, *sum;
};

inline isize divide(const PagedSizes& s, char* memory, PagedSpace* rows) {
  const isize values = round_up(s.value_dim, PANEL);
  float* next = reinterpret_cast<float*>(memory);
  const auto take = [&](isize count) {
    float* part = next;
    next += round_up(count, CACHE_LINE / 4);
    return part;
  };
  rows->q = take(MOST_TOGETHER * s.dim);
  rows->scores = take(ROWS * MOST_KEYS);
  rows->out = take(MOST_TOGETHER * values);
  rows->top = take(MOST_TOGETHER);
  rows->sum = take(MOST_TOGETHER);
  return (next - reinterpret_cast<float*>(memory)) * isize(sizeof(float));
}

/** Rows of one head of keys: those of a token's queries are neighbours. */
struct Part {
  isize sequence, kv_head, first, count;
};

template <class T>
INFUSE_NOINLINE void attend(const PagedShape& s, const Sequences& of, const Part& part, const PagedSpace& space,
                            const float* q, const T* keys, const T* values, float* y) {
  const isize shared = s.heads / s.kv_heads, out_step = round_up(s.value_dim, PANEL);
  const isize start = isize(of.starts[part.sequence]), length = isize(of.lengths[part.sequence]);
  const isize before = length - (isize(of.starts[part.sequence + 1]) - start);
  const int64_t* pages = of.pages + part.sequence * s.listed;
  const auto head = [&](isize row) { return part.kv_head * shared + (part.first + row) % shared; };
  const auto place = [&](isize row) { return before + (part.first + row) / shared; };
  const auto source = [&](isize row) {
    return q + ((start + (part.first + row) / shared) * s.heads + head(row)) * s.dim;
  };
  for (isize row = 0; row < part.count; ++row) {
    const float* from = source(row);
    float* to = space.q + row / ROWS * ROWS * s.dim + row % ROWS;
    for (isize d = 0; d < s.dim; ++d) to[d * ROWS] = from[d];
    space.top[row] = -__builtin_inff();
    space.sum[row] = 0;
  }
  for (isize i = 0; i < part.count * out_step; i += LANES) store(space.out + i, vf{}, Full{});
  const T* own_keys = keys + part.kv_head * s.dim * s.page;
  const T* own_values = values + part.kv_head * s.page * s.value_dim;
  const isize block = MOST_KEYS / s.page * s.page;
  const isize from = s.left < 0 || place(0) < s.left ? 0 : (place(0) - s.left) / block * block;
  const isize end = place(part.count - 1) + 1;
  for (isize key = from; key < end; key += block)
    for (isize row = 0; row < part.count; row += ROWS) {
      const isize rows = part.count - row < ROWS ? part.count - row : ROWS;
      const isize most = place(row + rows - 1) + 1 - key, seen = most < block ? most : block;
      if (seen <= 0) continue;
      const int64_t* listed = pages + key / s.page;
      in_pieces(rows, [&](auto piece, isize i) {
        score_block<T, piece.count>(s, listed, own_keys, seen, space.q + row * s.dim + i,
                                    space.scores + i * MOST_KEYS);
      });
      for (isize i = 0; i < rows; ++i) {
        const isize r = row + i, own = place(r) + 1 - key, visible = own < seen ? own : seen;
        float* scores = space.scores + i * MOST_KEYS;
        const PagedMask mask = {s.cap, s.slopes ? s.slopes[head(r)] : 0.0f, s.left};
        if (visible > 0)
          soften(scores, visible, mask, 0, 0, place(r), key, space.top + r, space.sum + r,
                 space.out + r * out_step, out_step);
        for (isize j = visible > 0 ? visible : 0; j < seen; ++j) scores[j] = 0.0f;
      }
      in_pieces(rows, [&](auto piece, isize i) {
        mix_block<T, piece.count>(s, listed, own_values, seen, space.scores + i * MOST_KEYS,
                                  space.out + (row + i) * out_step, out_step);
      });
    }
  for (isize row = 0; row < part.count; ++row) {
    const float* out = space.out + row * out_step;
    float sum = space.sum[row];
    if (s.sinks) sum += exp(s.sinks[head(row)] - space.top[row]);
    const float share = sum != 0.0f ? 1.0f / sum : __builtin_nanf("");
    float* to = y + ((start + (part.first + row) / shared) * s.heads + head(row)) * s.value_dim;
    sweep(0, s.value_dim, [&](isize d, auto lanes) { store(to + d, load(out + d, lanes) * share, lanes); });
  }
}

}  // namespace paged_detail

inline isize paged_attention_scratch(const PagedSizes& s) {
  paged_detail::PagedSpace rows;
  return paged_detail::divide(s, nullptr, &rows);
}

/**
 * The operator PagedAttention; false where `of` names rows, places or pages that do not exist. T:
 * what keys and values are stored as.
 */
template <class T>
inline bool paged_attention(Context& c, const PagedShape& s, const Sequences& of, const float* q,
                            const float* k, const float* v, T* keys, T* values, float* y) {
  using namespace paged_detail;
  if (!fits(s, of)) return false;
  put(c, s, of, k, v, keys, values);
  const isize shared = s.heads / s.kv_heads;
  // So many rows that all threads have work, as few units as that allows.
  isize rows = 0, together = MOST_TOGETHER, units = 0;
  for (isize i = 0; i < s.sequences; ++i) rows += isize(of.starts[i + 1] - of.starts[i]) * shared;
  const isize fair = rows * s.kv_heads / (4 * c.threads) + 1;
  if (together > fair) together = fair > 1 ? fair : 1;
  const auto units_of = [&](isize i) {
    return (isize(of.starts[i + 1] - of.starts[i]) * shared + together - 1) / together * s.kv_heads;
  };
  isize work = 0;
  for (isize i = 0; i < s.sequences; ++i) {
    units += units_of(i);
    work += units_of(i) * isize(of.lengths[i]);
  }
  if (units > 0)
    c.parallel(
        units,
        [&](isize begin, isize end, int worker) {
          PagedSpace space;
          divide(s, c.scratch(worker), &space);
          isize first = 0;
          for (isize i = 0; i < s.sequences && first < end; first += units_of(i), ++i) {
            const isize all = isize(of.starts[i + 1] - of.starts[i]) * shared, chunks = units_of(i) / s.kv_heads;
            for (isize unit = max(begin, first); unit < min(end, first + units_of(i)); ++unit) {
              const isize at = (unit - first) % chunks * together;
              const Part part = {i, (unit - first) / chunks, at, min(together, all - at)};
              attend(s, of, part, space, q, keys, values, y);
            }
          }
        },
        1 + 40000 / (work / units * together * (s.dim + s.value_dim) / LANES + 1));
  const isize width = s.heads * s.value_dim, used = isize(of.starts[s.sequences]) * width;
  memset(y + used, 0, size_t(s.tokens * width - used) * sizeof(float));
  return true;
}

}  // namespace infuse
