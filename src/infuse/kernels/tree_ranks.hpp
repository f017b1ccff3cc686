// Small trees: all branches of a tree are asked, for as many rows as a vector has bytes.
//
// Numbers are compared once with all thresholds of their column: their rank, the number of
// thresholds below them, is a byte, and a branch compares ranks. From the last branches up to the
// root, each picks one of what its two ends came to: the numbers of leaves, again bytes.
#pragma once
#include "trees.hpp"

namespace infuse {

constexpr isize RANK_ROWS = LANES * 4;
constexpr isize RANK_BLOCK = 16;   // thresholds that are counted at a time
constexpr isize RANK_LIMITS = 17 * RANK_BLOCK;  // the last of each block, and all, for one column
constexpr isize RANK_LEAVES = 256;

/** A branch of a tree. An end is i for leaf i of the tree, RANK_LEAVES + i for branch i. */
struct RankNode {
  int32_t column;   // the number among those of the piece
  int32_t limit;    // a rank, in each byte
  int32_t ends[2];  // of ranks above `limit`, and of others
};

/** Trees that use the same columns: up to `tree` and `column`, from those of the piece before. */
struct RankPiece {
  int32_t tree, column;
};

/** Tree i has branches up to ends[i], its leaves from first_leaves[i] on. From `least_rows` on, to
 * ask all branches for a vector of rows takes less time than to walk down row by row. */
template <class T>
struct RankedTrees {
  isize pieces, trees, most_columns, most_nodes, least_rows;
  const RankPiece* ends_of_pieces;
  const int32_t* columns;
  const T* limits;
  const RankNode* nodes;
  const int32_t* ends;
  const int32_t* first_leaves;
};

namespace tree_detail {

typedef int8_t ranks_of_rows __attribute__((vector_size(LANES * 4), may_alias));

template <class T>
struct LimitVector;
template <>
struct LimitVector<float> {
  typedef float type __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
};
template <>
struct LimitVector<double> {
  typedef double type __attribute__((vector_size(LANES * 4), aligned(8), may_alias));
};

INFUSE_INLINE int count_below(LimitVector<float>::type limits, LimitVector<float>::type x) {
#if INFUSE_LANES == 16
  return __builtin_popcount(
      (unsigned short)__builtin_ia32_cmpps512_mask(limits, x, 1, (unsigned short)-1, 4));
#elif INFUSE_LANES == 8 && !defined(__AVX__)
  return -hsum((vi)(limits < x));
#elif INFUSE_LANES == 8
  typedef float v8f __attribute__((vector_size(32)));
  return __builtin_popcount((unsigned)__builtin_ia32_movmskps256((v8f)(limits < x)));
#else
  const auto below = limits < x;
  return -int(below[0] + below[1] + below[2] + below[3]);
#endif
}
INFUSE_INLINE int count_below(LimitVector<double>::type limits, LimitVector<double>::type x) {
#if INFUSE_LANES == 16
  return __builtin_popcount(
      (unsigned char)__builtin_ia32_cmppd512_mask(limits, x, 1, (unsigned char)-1, 4));
#elif INFUSE_LANES == 8 && !defined(__AVX__)
  return -hsum((vi)(limits < x)) / 2;
#elif INFUSE_LANES == 8
  typedef double v4d __attribute__((vector_size(32)));
  return __builtin_popcount((unsigned)__builtin_ia32_movmskpd256((v4d)(limits < x)));
#else
  const auto below = limits < x;
  return -int(below[0] + below[1]);
#endif
}

/** How many of RANK_BLOCK limits are below x. */
template <class T>
INFUSE_INLINE int count_block(const T* limits, T x) {
  typedef typename LimitVector<T>::type vector;
  constexpr int STEP = LANES * 4 / sizeof(T);
  const vector all = x - vector{};
  int count = 0;
  for (int i = 0; i < RANK_BLOCK; i += STEP)
    count += count_below(*reinterpret_cast<const vector*>(limits + i), all);
  return count;
}

/** The number of limits of a column below x, less 128; NaN is above all. */
template <class T>
INFUSE_INLINE int8_t rank(const T* limits, T x) {
  const int blocks = count_block(limits, x);
  const int count =
      RANK_BLOCK * blocks + count_block(limits + RANK_BLOCK * (1 + blocks), x);
  return int8_t((x != x ? 255 : count) - 128);
}

/** The number of the leaf that each row reaches, as a byte. */
INFUSE_INLINE const uint8_t* leaves_of(const RankNode* nodes, isize count, const char* ranks,
                                       char* results) {
  char* result = results + RANK_LEAVES * RANK_ROWS;
  for (isize i = 0; i < count; ++i, result += RANK_ROWS) {
    const RankNode& node = nodes[i];
    const auto above = *reinterpret_cast<const ranks_of_rows*>(ranks + node.column * RANK_ROWS) >
                       (ranks_of_rows)splat(node.limit);
    const auto first = *reinterpret_cast<const ranks_of_rows*>(results + node.ends[0] * RANK_ROWS);
    const auto second = *reinterpret_cast<const ranks_of_rows*>(results + node.ends[1] * RANK_ROWS);
    *reinterpret_cast<ranks_of_rows*>(result) = above ? first : second;
  }
  return reinterpret_cast<const uint8_t*>(count ? result - RANK_ROWS : results);
}

}  // namespace tree_detail

/** Bytes of scratch per worker for run_ranked_trees; `size` is that of an element. */
constexpr isize ranked_trees_scratch(isize columns, isize nodes, isize size, isize targets) {
  return (RANK_LEAVES + nodes + columns) * RANK_ROWS + tree_detail::rounded(RANK_ROWS * targets) +
         RANK_ROWS * size;
}

/** The same as run_trees; both have the same trees, of which `trees` are for the rows that are left
 * of whole vectors where they are few. */
template <int Join, class T, class V>
inline void run_ranked_trees(Context& context, const RankedTrees<T>& ranked, const Trees<T>& trees,
                             const TreeVotes<V>& votes, isize rows, isize width, isize depth,
                             const T* x, V* y) {
  using namespace tree_detail;
  const isize targets = votes.count, rest = rows % RANK_ROWS;
  const isize walked = rest < ranked.least_rows ? rest : 0, asked = rows - walked;
  const isize groups = (asked + RANK_ROWS - 1) / RANK_ROWS;
  const isize work = RANK_ROWS * ranked.trees * (depth + 2);
  const auto body = [&](isize begin, isize end, int worker) {
    char* results = context.scratch(worker);
    char* ranks = results + (RANK_LEAVES + ranked.most_nodes) * RANK_ROWS;
    char* marks = ranks + ranked.most_columns * RANK_ROWS;
    T* values = reinterpret_cast<T*>(marks + rounded(RANK_ROWS * targets));
    for (isize i = 0; i < RANK_LEAVES; ++i) memset(results + i * RANK_ROWS, int(i), RANK_ROWS);
    for (isize group = begin; group < end; ++group) {
      const isize first = group * RANK_ROWS;
      const isize count = asked - first < RANK_ROWS ? asked - first : RANK_ROWS;
      V* scores = y + first * targets;
      bool* seen = begin_votes<Join>(votes, count, scores, marks);
      isize tree = 0, column = 0, node = 0;
      for (isize piece = 0; piece < ranked.pieces; ++piece) {
        const RankPiece& last = ranked.ends_of_pieces[piece];
        for (char* to = ranks; column < last.column; ++column, to += RANK_ROWS) {
          copy_columns(ranked.columns + column, 1, x + first * width, width, count, count, 0,
                       values);
          const T* limits = ranked.limits + column * RANK_LIMITS;
          for (isize i = 0; i < count; ++i)
            reinterpret_cast<int8_t*>(to)[i] = rank(limits, values[i]);
        }
        for (; tree < last.tree; ++tree) {
          const isize nodes = ranked.ends[tree] - node;
          const uint8_t* leaves = leaves_of(ranked.nodes + node, nodes, ranks, results);
          vote_rows<Join>(votes, tree, ranked.first_leaves[tree], leaves, count, scores, seen);
          node += nodes;
        }
      }
    }
  };
  if (groups != 0) context.parallel(groups, body, 1 + 16384 / (work + 1));
  if (walked != 0)
    run_trees<Join>(context, trees, votes, walked, width, depth, x + asked * width,
                    y + asked * targets);
}

}  // namespace infuse
