// Ensembles of decision trees: several rows (or trees of one row) go down side by side.
#pragma once
#include "simd.hpp"
#include "threads.hpp"

namespace infuse {

constexpr int32_t TREE_EQUAL = 1 << 29;  // marks of a branch: == and not <=, and NaN takes it
constexpr int32_t TREE_NAN = 1 << 30;

/** A branch, its marks above the number of the feature; or a leaf, which leads to itself. */
template <class T>
struct TreeNode {
  T threshold;
  int32_t feature;
  int32_t next[2];
};

constexpr long TREE_LANES = 8;   // ways down that are walked together
constexpr long TREE_BLOCK = 256;  // rows that pass one tree after another
enum TreeJoin { TREE_SUM, TREE_LEAST, TREE_MOST, TREE_TABLE };
enum TreeTest { TREE_PLAIN, TREE_MARKED, TREE_ANY };  // no marks, those of NaN where there is none, all marks

/**
 * An ensemble: the root and depth of every tree, and the votes of every node from `starts` on; for TREE_TABLE a vote for
 * each target at each node.
 */
template <class T>
struct Trees {
  const TreeNode<T>* nodes;
  const int32_t* roots;
  const int32_t* depths;
  long count;
  const int32_t* starts;
  const int32_t* targets;
  const T* votes;
};

namespace tree_detail {

template <int Test, class T>
INFUSE_INLINE int32_t step(const TreeNode<T>* nodes, int32_t at, const T* row) {
  const TreeNode<T>& node = nodes[at];
  if (Test == TREE_PLAIN) return node.next[row[node.feature] <= node.threshold];
  if (Test == TREE_MARKED)
    return node.next[row[node.feature & (TREE_EQUAL - 1)] <= node.threshold];
  const T x = row[node.feature & (TREE_EQUAL - 1)];
  const bool equals = (node.feature & TREE_EQUAL) != 0, nan = (node.feature & TREE_NAN) != 0;
  const bool taken = (!equals & (x <= node.threshold)) | (equals & (x == node.threshold));
  return node.next[taken | (nan & (x != x))];
}

/** Goes down `depth` branches from at[i] with rows[i], for all lanes; ends early where all have arrived. */
template <int Test, class T>
INFUSE_INLINE void descend(const TreeNode<T>* nodes, int32_t* at, const T* const* rows, int depth) {
  constexpr int ROUND = 4;
  int32_t place[TREE_LANES];
  for (int i = 0; i < TREE_LANES; ++i) place[i] = at[i];
  for (int level = 0; level < depth; level += ROUND) {
    int32_t before[TREE_LANES];
    const int steps = depth - level < ROUND ? depth - level : ROUND;
    for (int k = 0; k < steps; ++k)
      for (int i = 0; i < TREE_LANES; ++i) {
        before[i] = place[i];
        place[i] = step<Test>(nodes, place[i], rows[i]);
      }
    int32_t moved = 0;
    for (int i = 0; i < TREE_LANES; ++i) moved |= before[i] ^ place[i];
    if (moved == 0) break;
  }
  for (int i = 0; i < TREE_LANES; ++i) at[i] = place[i];
}

template <int Join, class T>
INFUSE_INLINE void vote(const Trees<T>& trees, int32_t leaf, long targets, T* scores, bool* seen) {
  if (Join == TREE_TABLE) {
    const T* values = trees.votes + leaf * targets;
    for (long k = 0; k < targets; ++k) scores[k] += values[k];
    return;
  }
  for (int32_t v = trees.starts[leaf]; v < trees.starts[leaf + 1]; ++v) {
    const int32_t target = trees.targets[v];
    const T value = trees.votes[v];
    if (Join == TREE_SUM) {
      scores[target] += value;
    } else {
      const bool better = Join == TREE_LEAST ? value < scores[target] : value > scores[target];
      if (better || !seen[target]) scores[target] = value;
      seen[target] = true;
    }
  }
}

/** One row, trees side by side; votes still count in the order of the trees. */
template <int Test, int Join, class T>
INFUSE_INLINE void one_row(const Trees<T>& trees, const T* row, long targets, T* scores,
                           bool* seen) {
  const T* rows[TREE_LANES];
  for (int i = 0; i < TREE_LANES; ++i) rows[i] = row;
  for (long first = 0; first < trees.count; first += TREE_LANES) {
    const long last = first + TREE_LANES < trees.count ? first + TREE_LANES : trees.count;
    int32_t at[TREE_LANES];
    int depth = 0;
    for (int i = 0; i < TREE_LANES; ++i) {
      const long tree = first + i < last ? first + i : last - 1;
      at[i] = trees.roots[tree];
      depth = trees.depths[tree] > depth ? trees.depths[tree] : depth;
    }
    descend<Test>(trees.nodes, at, rows, depth);
    for (long tree = first; tree < last; ++tree)
      vote<Join>(trees, at[tree - first], targets, scores, seen);
  }
}

/** Rows through one tree, whole groups of TREE_LANES. */
template <int Test, int Join, class T>
INFUSE_INLINE void one_tree(const Trees<T>& trees, long tree, const T* x, long width, long count,
                            long targets, T* scores, bool* seen) {
  for (long first = 0; first < count; first += TREE_LANES) {
    const T* rows[TREE_LANES];
    int32_t at[TREE_LANES];
    for (int i = 0; i < TREE_LANES; ++i) {
      rows[i] = x + (first + i) * width;
      at[i] = trees.roots[tree];
    }
    descend<Test>(trees.nodes, at, rows, trees.depths[tree]);
    for (long i = first; i < first + TREE_LANES; ++i)
      vote<Join>(trees, at[i - first], targets, scores + i * targets,
                 seen ? seen + i * targets : nullptr);
  }
}

/** `count` rows through all trees. */
template <int Test, int Join, class T>
INFUSE_INLINE void block(const Trees<T>& trees, const T* x, long width, long count, long targets,
                         T* scores, bool* seen) {
  const long whole = count / TREE_LANES * TREE_LANES;
  for (long tree = 0; tree < trees.count && whole > 0; ++tree)
    one_tree<Test, Join>(trees, tree, x, width, whole, targets, scores, seen);
  for (long i = whole; i < count; ++i)
    one_row<Test, Join>(trees, x + i * width, targets, scores + i * targets,
                        seen ? seen + i * targets : nullptr);
}

template <class T>
INFUSE_INLINE bool has_nan(const T* x, long count) {
  long nans = 0;
  for (long i = 0; i < count; ++i) nans += x[i] != x[i];
  return nans != 0;
}

}  // namespace tree_detail

/** Bytes of scratch per worker for trees. */
inline long trees_scratch(long targets) { return TREE_BLOCK * targets + CACHE_LINE; }

/**
 * y[row, target] joins the votes of the leaves that row `x` reaches, tree after tree; 0 where there are none. `Test`:
 * TREE_PLAIN where every branch is <= and NaN takes none, TREE_MARKED where every branch is <=. Needs trees_scratch(targets) to find the least or the most.
 */
template <int Test, int Join, class T>
inline void run_trees(Context& context, const Trees<T>& trees, long rows, long width, long targets,
                      long depth, const T* x, T* y) {
  using namespace tree_detail;
  const long work = trees.count * (depth + 2) * 2;
  context.parallel(
      rows,
      [&](long begin, long end, int worker) {
        constexpr bool sums = Join == TREE_SUM || Join == TREE_TABLE;
        bool* seen = sums ? nullptr : reinterpret_cast<bool*>(context.scratch(worker));
        for (long first = begin; first < end; first += TREE_BLOCK) {
          const long count = end - first < TREE_BLOCK ? end - first : TREE_BLOCK;
          T* scores = y + first * targets;
          for (long i = 0; i < count * targets; ++i) scores[i] = T(0);
          if (!sums) memset(seen, 0, static_cast<size_t>(count * targets));
          const T* rows_of_block = x + first * width;
          if (Test == TREE_MARKED && has_nan(rows_of_block, count * width))
            block<TREE_ANY, Join>(trees, rows_of_block, width, count, targets, scores, seen);
          else
            block<Test, Join>(trees, rows_of_block, width, count, targets, scores, seen);
        }
      },
      1 + 8192 / (work + 1));
}

}  // namespace infuse
