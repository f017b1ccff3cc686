// Scaled dot-product attention in blocks: no matrix of all scores ever exists.
#pragma once
#include "attention_products.hpp"
#include "rows.hpp"
#include "transpose.hpp"

namespace infuse {

namespace attention_detail {

/** Scores of R queries with V vectors of keys. */
template <class Kind, int R, int V>
inline void score_tile(const typename Kind::Word* q, const typename Kind::Word* k, isize depth,
                       float scale, float* scores) {
  vf sum[R][V] = {};
  multiply<Kind, R, V, 1, ROWS>(q, k, PANEL, depth, sum);
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v)
      store(scores + i * MOST_KEYS + v * LANES, sum[i][v] * scale, Full{});
}

/** Scores of one query with K keys, straight from their rows. */
template <int K>
INFUSE_INLINE void dot_rows(const float* q, const float* keys, isize step, isize dim, float scale,
                            float* scores) {
  vf sum[K] = {};
  sweep(0, dim, [&](isize d, auto lanes) __attribute__((always_inline)) {
    vf left = load(q + d, lanes);
#pragma GCC unroll 4
    for (int i = 0; i < K; ++i) sum[i] = fma(left, load(keys + i * step + d, lanes), sum[i]);
  });
#pragma GCC unroll 4
  for (int i = 0; i < K; ++i) scores[i] = hsum(sum[i]) * scale;
}

/** Adds the weighted values of R queries to V vectors of their results. */
template <class Kind, int R, int V>
inline void mix_tile(const typename Kind::Word* weights, const typename Kind::Word* values,
                     isize value_step, isize depth, float* out, isize out_step) {
  vf sum[R][V];
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sum[i][v] = load(out + i * out_step + v * LANES, Full{});
  multiply<Kind, R, V, MOST_KEYS, 1>(weights, values, value_step, depth, sum);
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) store(out + i * out_step + v * LANES, sum[i][v], Full{});
}

template <class Kind, int R>
INFUSE_NOINLINE void score_rows(const AttentionShape& shape, const KeyBlock& block, isize keys,
                                const typename Kind::Word* q, float* scores) {
  const isize depth = Kind::depth(shape.dim);
  for (isize j = 0; j < keys; j += PANEL) {
    const auto* panel = (const typename Kind::Word*)block.k + j * depth;
    if (keys - j > LANES)
      score_tile<Kind, R, 2>(q, panel, depth, shape.scale, scores + j);
    else
      score_tile<Kind, R, 1>(q, panel, depth, shape.scale, scores + j);
  }
}

/** The same for one query, from rows of keys. */
INFUSE_NOINLINE inline void score_row(const AttentionShape& shape, const KeyBlock& block, isize keys,
                                      const float* q, float* scores) {
  const float* rows = (const float*)block.k;
  isize j = 0, step = block.k_step;
  for (; j + 4 <= keys; j += 4)
    dot_rows<4>(q, rows + j * step, step, shape.dim, shape.scale, scores + j);
  for (; j < keys; ++j)
    dot_rows<1>(q, rows + j * step, step, shape.dim, shape.scale, scores + j);
}

template <class Kind, int R>
INFUSE_NOINLINE void mix_rows(const AttentionShape& shape, const KeyBlock& block, isize keys,
                              const float* weights, float* out, isize out_step) {
  typedef typename Kind::Word Word;
  const Word *left = (const Word*)weights, *values = (const Word*)block.v;
  const isize depth = Kind::depth(keys);
  for (isize d = 0; d < shape.value_dim; d += PANEL) {
    if (shape.value_dim - d > LANES)
      mix_tile<Kind, R, 2>(left, values, block.v_step, depth, out + d, out_step);
    else
      mix_tile<Kind, R, 1>(left, values, block.v_step, depth, out + d, out_step);
    values += block.v_panel;
  }
}

template <int N>
struct Piece {
  static constexpr int count = N;
};

/** Calls step(Piece<n>, first) with sizes n that add up to `rows`. */
template <class Step>
INFUSE_INLINE void in_pieces(isize rows, const Step& step) {
  isize i = 0;
  auto take = [&](auto piece) {
    for (; i + piece.count <= rows; i += piece.count) step(piece, i);
  };
  take(Piece<ROWS>());
  take(Piece<4>());
  take(Piece<2>());
  take(Piece<1>());
}

/** One row of scores becomes weights; its maximum, sum and result are brought up to date. */
template <class Mask>
INFUSE_INLINE void soften(float* scores, isize keys, const Mask& mask, isize b, isize h, isize query,
                          isize key, float* top, float* sum, float* out, isize values) {
  const float lowest = -__builtin_inff();
  vf most = splat(lowest);
  sweep(0, keys, [&](isize j, auto lanes) __attribute__((always_inline)) {
    vf x = mask(load(scores + j, lanes), b, h, query, key + j, lanes);
    store(scores + j, x, lanes);
    most = detail::raw_max(most, valid(x, splat(lowest), lanes));
  });
  float now = max(*top, detail::fold(most, [](vf x, vf y) { return detail::raw_max(x, y); })[0]);
  float shift = now == lowest ? 0.0f : now;
  vf total = {};
  sweep(0, keys, [&](isize j, auto lanes) __attribute__((always_inline)) {
    vf x = exp_nonpositive(load(scores + j, lanes) - shift);
    store(scores + j, x, lanes);
    total += valid(x, vf{}, lanes);
  });
  if (*top != now && *top != lowest) {
    float faded = exp(*top - shift);
    *sum *= faded;
    for (isize d = 0; d < values; d += LANES) store(out + d, load(out + d, Full{}) * faded, Full{});
  }
  *top = now;
  *sum += hsum(total);
}

/** The keys of a block that query `query` sees. */
inline isize visible(const AttentionShape& shape, const KeyBlock& block, isize query) {
  if (!shape.causal) return block.count;
  isize seen = query + shape.causal_offset + 1 - block.first;
  return seen < 0 ? 0 : seen < block.count ? seen : block.count;
}

/** Scores and results of the queries in work by vectors, in tiles of Kind's words. */
template <class Kind>
struct ByVectors {
  typedef NoRegisters Registers;  // that products need around them
  static constexpr isize TOGETHER = ROWS;

  static INFUSE_INLINE void score(const AttentionShape& shape, const Unit& unit,
                                  const KeyBlock& block, isize row, isize rows, isize seen) {
    const auto* q = (const typename Kind::Word*)unit.space.q + row * Kind::depth(shape.dim);
    in_pieces(rows, [&](auto piece, isize i) {
      score_rows<Kind, piece.count>(shape, block, seen, q + i, unit.space.scores + i * MOST_KEYS);
    });
  }
  static INFUSE_INLINE void mix(const AttentionShape& shape, const Unit& unit,
                                const KeyBlock& block, isize row, isize rows, isize seen) {
    in_pieces(rows, [&](auto piece, isize i) {
      mix_rows<Kind, piece.count>(shape, block, seen, unit.space.scores + i * MOST_KEYS,
                                  unit.space.out + (row + i) * unit.out_step, unit.out_step);
    });
  }
};

/** Brings the queries in work, the first being `row` of the unit, together with a block of keys. */
template <class Kind, class Mask>
INFUSE_NOINLINE void meet(const AttentionShape& shape, const Unit& unit, const KeyBlock& block,
                          isize row, const Mask& mask) {
  const Space& space = unit.space;
  isize rows = unit.queries - row < Kind::TOGETHER ? unit.queries - row : Kind::TOGETHER;
  isize seen = visible(shape, block, unit.first + row + rows - 1);
  if (seen == 0) return;
  if (shape.queries <= shape.few) {
    for (isize i = 0; i < rows; ++i)
      score_row(shape, block, seen, space.q + i * shape.dim, space.scores + i * MOST_KEYS);
  } else {
    Kind::score(shape, unit, block, row, rows, seen);
  }
  for (isize i = 0; i < rows; ++i) {
    float* scores = space.scores + i * MOST_KEYS;
    isize query = unit.first + row + i, keys = visible(shape, block, query);
    soften(scores, keys, mask, unit.batch, unit.head, query, block.first, space.top + row + i,
           space.sum + row + i, space.out + (row + i) * unit.out_step, unit.out_step);
    for (isize j = keys; j < seen; ++j) scores[j] = 0.0f;
    Kind::as_words(scores, seen);
  }
  Kind::mix(shape, unit, block, row, rows, seen);
}

/** Clears the results of a unit. */
inline void clear(const Unit& unit) {
  isize values = unit.queries * unit.out_step;
  for (isize i = 0; i < values; i += LANES) store(unit.space.out + i, vf{}, Full{});
  for (isize i = 0; i < unit.queries; ++i) {
    unit.space.top[i] = -__builtin_inff();
    unit.space.sum[i] = 0.0f;
  }
}

/** How queries, keys, weights and values are laid out and multiplied: as floats. */
struct Floats : ByVectors<Floats> {
  typedef float Word;
  static constexpr bool FLOATS = true;  // whether words are numbers

  /** Words of n numbers that are summed up over. */
  static INFUSE_INLINE isize depth(isize n) { return n; }
  static INFUSE_INLINE vf add(vf sum, vf a, vf b) { return fma(a, b, sum); }
  /** Makes words of a row of weights, in place. */
  static INFUSE_INLINE void as_words(float*, isize) {}

  static void pack_queries(const AttentionShape& shape, const Unit& unit, const HeadRows& q) {
    for (isize i = 0; shape.queries <= shape.few && i < unit.queries; ++i)
      memcpy(unit.space.q + i * shape.dim, q.at(unit.batch, unit.head, i), shape.dim * 4);
    for (isize row = 0; shape.queries > shape.few && row < unit.queries; row += ROWS) {
      isize rows = unit.queries - row < ROWS ? unit.queries - row : ROWS;
      copying::turn_words(unit.space.q + row * shape.dim, ROWS,
                                 q.at(unit.batch, unit.head, unit.first + row), q.row, shape.dim,
                                 rows);
    }
  }

  /** Keys become panels [dim][PANEL]; values become panels [key][PANEL] when that pays. */
  static void pack_block(const AttentionShape& shape, const Unit& unit, const HeadRows& k,
                         const HeadRows& v, KeyBlock* block) {
    isize kv_head = unit.head / (shape.heads / shape.kv_heads);
    const float* keys = k.at(unit.batch, kv_head, block->first);
    bool few = shape.queries <= shape.few;
    block->k = few ? keys : unit.space.k;
    block->k_step = k.row;
    for (isize j = 0; !few && j < block->count; j += PANEL) {
      isize count = block->count - j < PANEL ? block->count - j : PANEL;
      float* panel = unit.space.k + j * shape.dim;
      copying::turn_words(panel, PANEL, keys + j * k.row, k.row, shape.dim, count);
      // What lay there before is multiplied, too, and subnormal numbers take long.
      for (isize d = 0; count < PANEL && d < shape.dim; ++d)
        memset(panel + d * PANEL + count, 0, size_t(PANEL - count) * sizeof(float));
    }
    const float* values = v.at(unit.batch, kv_head, block->first);
    block->v = values;
    block->v_step = v.row;
    block->v_panel = PANEL;
    if (unit.queries < ROWS && shape.value_dim % LANES == 0) return;
    for (isize d = 0; d < shape.value_dim; d += PANEL) {
      float* panel = unit.space.v + d * block->count;
      isize width = shape.value_dim - d < PANEL ? shape.value_dim - d : PANEL;
      for (isize j = 0; j < block->count; ++j) {
        const float* row = values + j * v.row + d;
        sweep(0, width, [&](isize i, auto lanes) {
          store(panel + j * PANEL + i, load(row + i, lanes), Full{});
        });
      }
    }
    block->v = unit.space.v;
    block->v_step = PANEL;
    block->v_panel = block->count * PANEL;
  }
};

/** Whether a query sees some key: one whose score of zero no mask makes -inf. */
template <class Mask>
INFUSE_NOINLINE bool sees_keys(const AttentionShape& shape, const Unit& unit, isize query,
                               const Mask& mask) {
  const isize place = query + shape.causal_offset;
  const isize last = shape.causal && place + 1 < shape.keys ? place + 1 : shape.keys;
  const isize first = shape.left < 0 || place < shape.left ? 0 : place - shape.left;
  bool sees = false;
  sweep(0, last - first, [&](isize j, auto lanes) {
    const vf score = mask(vf{}, unit.batch, unit.head, query, first + j, lanes);
    const vf lowest = splat(-__builtin_inff());
    sees |= any(valid(score, lowest, lanes) > lowest);
  });
  return sees;
}

/** Results are NaN where all scores that a query sees are -inf, and zeros where it sees no key. */
template <class Mask, class Sink>
inline void finish(const AttentionShape& shape, const Unit& unit, const Mask& mask,
                   const Sink& sink) {
  for (isize i = 0; i < unit.queries; ++i) {
    isize query = unit.first + i;
    isize row = shape.merge_heads ? unit.batch * shape.queries + query
                                 : (unit.batch * shape.heads + unit.head) * shape.queries + query;
    isize col = shape.merge_heads ? unit.head * shape.value_dim : 0;
    const float* out = unit.space.out + i * unit.out_step;
    float sum = unit.space.sum[i];
    if (shape.sinks && sum != 0.0f) sum += exp(shape.sinks[unit.head] - unit.space.top[i]);
    float share = 1.0f / sum;
    if (sum == 0.0f) share = sees_keys(shape, unit, query, mask) ? __builtin_nanf("") : 0.0f;
    sweep(0, shape.value_dim,
          [&](isize d, auto lanes) { sink(load(out + d, Full{}) * share, row, col + d, lanes); });
  }
}

/** Queries of one unit, fewer than query_block where that gives all threads as much to do. */
inline isize shared_block(const AttentionShape& shape, int threads) {
  isize rows = query_block(shape), pairs = shape.batch * shape.heads;
  isize chunks = (shape.queries + rows - 1) / rows;
  for (isize more = chunks; more < chunks + threads && pairs * chunks < isize(4) * threads; ++more) {
    isize fewer = round_up((shape.queries + more - 1) / more, ROWS);
    if (fewer < 4 * ROWS) break;
    if (pairs * more % threads == 0) return fewer;
  }
  return rows;
}

}  // namespace attention_detail

/** Bytes of scratch per worker. */
inline isize attention_scratch(const AttentionShape& shape) {
  attention_detail::Space space;
  return attention_detail::divide(shape, nullptr, &space);
}

/**
 * softmax(mask(scale · Q·Kᵀ)) · V. The mask is called as mask(scores, batch, head, query, key,
 * lanes) and returns the scores to use; a query that sees no key gives zeros.
 */
template <class Kind = attention_detail::Floats, class Mask, class Sink>
inline void attention(Context& context, const AttentionShape& shape, const HeadRows& q,
                      const HeadRows& k, const HeadRows& v, const Mask& mask, const Sink& sink) {
  using namespace attention_detail;
  if (shape.queries == 0) return;
  isize rows = shared_block(shape, context.threads), step = key_block(shape);
  isize chunks = (shape.queries + rows - 1) / rows;
  isize work = (rows + 8) * shape.keys * (shape.dim + shape.value_dim);
  context.parallel(
      shape.batch * shape.heads * chunks,
      [&](isize begin, isize end, int worker) {
        [[maybe_unused]] const typename Kind::Registers registers;
        Unit unit;
        divide(shape, context.scratch(worker), &unit.space);
        unit.out_step = round_up(shape.value_dim, PANEL);
        for (isize index = begin; index < end; ++index) {
          unit.batch = index / chunks / shape.heads;
          unit.head = index / chunks % shape.heads;
          unit.first = index % chunks * rows;
          unit.queries = shape.queries - unit.first < rows ? shape.queries - unit.first : rows;
          const AttentionShape own = at_batch(shape, unit.batch);
          Kind::pack_queries(own, unit, q);
          clear(unit);
          isize place = unit.first + own.causal_offset, seen = own.keys;
          if (own.causal && place + unit.queries < seen) seen = place + unit.queries;
          isize key = own.left < 0 || place < own.left ? 0 : (place - own.left) / step * step;
          for (; key < seen; key += step) {
            KeyBlock block = {key, seen - key < step ? seen - key : step, nullptr, 0, nullptr, 0, 0};
            Kind::pack_block(own, unit, k, v, &block);
            for (isize row = 0; row < unit.queries; row += Kind::TOGETHER)
              meet<Kind>(own, unit, block, row, mask);
          }
          finish(own, unit, mask, sink);
        }
      },
      1 + 200000 / (work + 1));
}

}  // namespace infuse
