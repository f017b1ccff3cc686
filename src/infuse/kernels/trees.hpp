// Ensembles of decision trees: several rows (or trees of one row) go down side by side.
//
// A branch asks one question: column <= threshold. A column is a feature of the rows in which NaN
// is shown in one of three ways; columns are copied to blocks, one after another.
#pragma once
#include "simd.hpp"
#include "threads.hpp"

namespace infuse {

/** How a column shows NaN: as it is, below all thresholds; or -1 for NaN and 1 for numbers. */
enum TreeMissing { TREE_ABOVE, TREE_BELOW, TREE_IS_MISSING };
constexpr int32_t TREE_MISSING_KINDS = 4;

/** A branch, of which `next` is where rows above the threshold go, and next + 1 where others do; a
 * leaf has NaN as its threshold and leads to itself. */
template <class T>
struct TreeNode {
  T threshold;
  int32_t column;
  int32_t next;
};

/** Trees of nodes: tree i begins with node i. A column is feature * TREE_MISSING_KINDS + kind. */
template <class T>
struct Trees {
  isize count, column_count;
  const int32_t* columns;
  const TreeNode<T>* nodes;
  const int32_t* depths;
  const int32_t* leaves;  // the number of the leaf at a node
};

/**
 * TREE_ONE: a vote at each leaf, for the target of its tree; TREE_TABLE: one for each target. Else
 * leaf i votes votes[starts[i]:starts[i + 1]] for `targets`, which are added, or of which the least
 * or the most counts.
 */
enum TreeJoin { TREE_ONE, TREE_TABLE, TREE_SUM, TREE_LEAST, TREE_MOST };

template <class V>
struct TreeVotes {
  isize count;  // of targets
  const int32_t* starts;
  const int32_t* targets;
  const V* votes;
};

namespace tree_detail {

constexpr int PATHS = 8;       // ways down that are walked together
constexpr int MOST_SHIFT = 8;  // a block has so many rows, as a power of two, where they fit
constexpr isize BLOCK_BYTES = 1 << 18;

/** Copies columns of rows: `to` has column c of row i at c * stride + i; zero up to `room` rows. */
template <class T>
INFUSE_INLINE void copy_columns(const int32_t* columns, isize column_count, const T* x, isize width,
                                isize rows, isize room, isize stride, T* to) {
  for (isize c = 0; c < column_count; ++c, to += stride) {
    const T* from = x + columns[c] / TREE_MISSING_KINDS;
    const int kind = columns[c] % TREE_MISSING_KINDS;
    if (kind == TREE_ABOVE)
      for (isize i = 0; i < rows; ++i) to[i] = from[i * width];
    else if (kind == TREE_BELOW)
      for (isize i = 0; i < rows; ++i) {
        const T value = from[i * width];
        to[i] = value != value ? T(-__builtin_inf()) : value;
      }
    else
      for (isize i = 0; i < rows; ++i) to[i] = from[i * width] != from[i * width] ? T(-1) : T(1);
    for (isize i = rows; i < room; ++i) to[i] = T(0);
  }
}

/** Goes down at most `depth` branches from at[i], with row i (or row 0 for all) of a block. */
template <bool OneRow, class T>
INFUSE_INLINE void descend(const TreeNode<T>* nodes, int32_t* at, const T* x, int shift,
                           int depth) {
  constexpr int ROUND = 2;
  int32_t place[PATHS];
  for (int i = 0; i < PATHS; ++i) place[i] = at[i];
  for (int level = 0; level < depth; level += ROUND) {
    int32_t moved = 0;
    for (int k = 0; k < ROUND; ++k)
      for (int i = 0; i < PATHS; ++i) {
        const TreeNode<T>& node = nodes[place[i]];
        const T value = x[(isize(node.column) << shift) + (OneRow ? 0 : i)];
        const int32_t next = node.next + (value <= node.threshold);
        if (k == ROUND - 1) moved |= next ^ place[i];
        place[i] = next;
      }
    if (moved == 0) break;
  }
  for (int i = 0; i < PATHS; ++i) at[i] = place[i];
}

template <int Join, class V>
INFUSE_INLINE void vote(const TreeVotes<V>& votes, isize tree, isize leaf, V* scores, bool* seen) {
  if (Join == TREE_ONE) {
    scores[votes.targets[tree]] += votes.votes[leaf];
    return;
  }
  if (Join == TREE_TABLE) {
    const V* values = votes.votes + leaf * votes.count;
    for (isize k = 0; k < votes.count; ++k) scores[k] += values[k];
    return;
  }
  for (int32_t v = votes.starts[leaf]; v < votes.starts[leaf + 1]; ++v) {
    const int32_t target = votes.targets[v];
    const V value = votes.votes[v];
    if (Join == TREE_SUM) {
      scores[target] += value;
    } else {
      const bool better = Join == TREE_LEAST ? value < scores[target] : value > scores[target];
      if (better || !seen[target]) scores[target] = value;
      seen[target] = true;
    }
  }
}

/** The votes of the leaf of each row of a tree, counted from `first_leaf`. */
template <int Join, class Leaf, class V>
INFUSE_INLINE void vote_rows(const TreeVotes<V>& votes, isize tree, isize first_leaf,
                            const Leaf* leaves, isize rows, V* scores, bool* seen) {
  const isize targets = votes.count;
  if (Join == TREE_ONE) {
    const V* values = votes.votes + first_leaf;
    scores += votes.targets[tree];
    for (isize i = 0; i < rows; ++i) scores[i * targets] += values[leaves[i]];
    return;
  }
  for (isize i = 0; i < rows; ++i)
    vote<Join>(votes, tree, first_leaf + leaves[i], scores + i * targets,
               seen ? seen + i * targets : nullptr);
}

/** One row, trees side by side; votes still count in the order of the trees. */
template <int Join, class T, class V>
INFUSE_INLINE void one_row(const Trees<T>& trees, const TreeVotes<V>& votes, const T* x, V* scores,
                           bool* seen) {
  for (isize first = 0; first < trees.count; first += PATHS) {
    const isize last = first + PATHS < trees.count ? first + PATHS : trees.count;
    int32_t at[PATHS];
    int depth = 0;
    for (int i = 0; i < PATHS; ++i) {
      const isize tree = first + i < last ? first + i : last - 1;
      at[i] = int32_t(tree);
      depth = trees.depths[tree] > depth ? trees.depths[tree] : depth;
    }
    descend<true>(trees.nodes, at, x, 0, depth);
    for (isize tree = first; tree < last; ++tree)
      vote<Join>(votes, tree, trees.leaves[at[tree - first]], scores, seen);
  }
}

/** Rows of a block through one tree after another, whole groups of PATHS. */
template <int Join, class T, class V>
INFUSE_INLINE void block(const Trees<T>& trees, const TreeVotes<V>& votes, const T* x, int shift,
                         isize rows, V* scores, bool* seen) {
  const TreeNode<T>* nodes = trees.nodes;
  const int32_t* leaves = trees.leaves;
  const isize targets = votes.count;
  for (isize tree = 0; tree < trees.count; ++tree) {
    const int depth = trees.depths[tree];
    for (isize first = 0; first < rows; first += PATHS) {
      int32_t at[PATHS];
      for (int i = 0; i < PATHS; ++i) at[i] = int32_t(tree);
      descend<false>(nodes, at, x + first, shift, depth);
      for (int i = 0; i < PATHS; ++i) at[i] = leaves[at[i]];
      vote_rows<Join>(votes, tree, 0, at, PATHS, scores + first * targets,
                      seen ? seen + first * targets : nullptr);
    }
  }
}

/** The rows of a block, as a power of two, for so many bytes that each has in it. */
constexpr int block_shift(isize bytes) {
  int shift = MOST_SHIFT;
  while ((isize(1) << shift) > PATHS && (bytes << shift) > BLOCK_BYTES) --shift;
  return shift;
}

constexpr isize rounded(isize bytes) { return (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE; }

/** Zeros, and votes that nobody has seen, for the rows that are next. */
template <int Join, class V>
INFUSE_INLINE bool* begin_votes(const TreeVotes<V>& votes, isize rows, V* scores, char* scratch) {
  for (isize i = 0; i < rows * votes.count; ++i) scores[i] = V(0);
  if (Join != TREE_LEAST && Join != TREE_MOST) return nullptr;
  memset(scratch, 0, size_t(rows * votes.count));
  return reinterpret_cast<bool*>(scratch);
}

}  // namespace tree_detail

/** Bytes of scratch per worker for run_trees; `size` is that of an element. */
constexpr isize trees_scratch(isize columns, isize size, isize targets) {
  using namespace tree_detail;
  return (rounded(targets << MOST_SHIFT)) +
         rounded((columns + 1) * size << block_shift((columns + 1) * size));
}

/**
 * y[row, target] joins the votes of the leaves that the rows of `x` reach, tree after tree; 0 where
 * there are none.
 */
template <int Join, class T, class V>
inline void run_trees(Context& context, const Trees<T>& trees, const TreeVotes<V>& votes, isize rows,
                      isize width, isize depth, const T* x, V* y) {
  using namespace tree_detail;
  const isize work = trees.count * (depth + 2) * 2, targets = votes.count;
  const int shift = block_shift((trees.column_count + 1) * isize(sizeof(T)));
  context.parallel(
      rows,
      [&](isize begin, isize end, int worker) {
        char* scratch = context.scratch(worker);
        T* values = reinterpret_cast<T*>(scratch + rounded(targets << MOST_SHIFT));
        for (isize first = begin, count; first < end; first += count) {
          count = end - first < (isize(1) << shift) ? end - first : isize(1) << shift;
          const bool whole = count >= PATHS;
          count = whole ? count / PATHS * PATHS : 1;
          bool* seen = begin_votes<Join>(votes, count, y + first * targets, scratch);
          copy_columns(trees.columns, trees.column_count, x + first * width, width, count, count,
                       whole ? isize(1) << shift : isize(1), values);
          if (whole)
            block<Join>(trees, votes, values, shift, count, y + first * targets, seen);
          else
            one_row<Join>(trees, votes, values, y + first * targets, seen);
        }
      },
      1 + 8192 / (work + 1));
}

}  // namespace infuse
