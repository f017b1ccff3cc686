// How products are divided among threads.
#pragma once
#include "gemm_sizes.hpp"
#include "threads.hpp"

namespace infuse {
namespace detail {

// How many ways to split rows and panels over the threads.
struct Grid {
  isize rows, panels;
};

INFUSE_NOINLINE inline Grid gemm_grid(isize threads, isize m, isize panels, isize k) {
  const isize n = panels * NR;
  Grid best = {1, 1};
  double least = -1;
  for (isize r = 1; r <= threads && r <= m; ++r) {
    const isize c = min(threads / r, panels);
    const double work = double(ceil_div(m, r)) * double(ceil_div(panels, c) * NR) * double(k);
    const double traffic = double(r) * double(n * k) + double(c) * double(m * k);
    const double cost = work + traffic / 4;
    if (least < 0 || cost < least) best = {r, c}, least = cost;
  }
  return best;
}

// In how many parts threads do work that is worth so many: pieces for whoever is free, where they are
// large enough to be worth a start of their own.
constexpr isize gemm_parts(isize threads, double worth) {
  const double each = worth / double(threads) / 64;
  return threads == 1 || each < 2 ? threads : threads * (each < PIECES ? isize(each) : PIECES);
}

// Calls body(m0, m1, p0, p1, worker) on parts of m rows times so many panels.
template <class Body>
inline void gemm_parallel(Context& ctx, isize m, isize panels, isize k, const Body& body) {
  // A thread for less work costs more than it gains.
  const double worth = 1 + double(m) * double(panels * NR) * double(k) / 16384;
  const isize threads = worth < ctx.threads ? isize(worth) : ctx.threads;
  const Grid grid = gemm_grid(gemm_parts(threads, worth), m, panels, k);
  ctx.parallel(grid.rows * grid.panels, [&](isize begin, isize end, int worker) {
    for (isize t = begin; t < end; ++t) {
      const isize i = t / grid.panels, j = t % grid.panels;
      body(split(m, grid.rows, i), split(m, grid.rows, i + 1), split(panels, grid.panels, j),
           split(panels, grid.panels, j + 1), worker);
    }
  });
}

}  // namespace detail
}  // namespace infuse
