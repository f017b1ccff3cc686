// Elementwise work that is data, as kernels call it.
#pragma once
#include "ahead.hpp"
#include "element.hpp"
#include "map.hpp"
#include "program.hpp"

namespace infuse {

namespace interpreted_detail {
template <class A, class B> struct Same { static constexpr bool holds = false; };
template <class A> struct Same<A, A> { static constexpr bool holds = true; };
INFUSE_INLINE void keep(void* to, vf x) { store((float*)to, x, Full{}); }
INFUSE_INLINE void keep(void* to, vi x) { store((int32_t*)to, x, Full{}); }
template <class T> INFUSE_INLINE void keep(void* to, T x) { memcpy(to, &x, sizeof x); }
}  // namespace interpreted_detail

/** As work_block, for a vector of n columns of work that is done in vectors; gives what it makes of
 * them. */
vf work_vector(const WorkCall& work, isize row, isize col, int n, vf handed);

/** A function of what a kernel makes, of row, column and lanes, that gives R. */
template <class R> struct Interpreted {
  WorkCall work;

  template <class A, class L>
  INFUSE_INLINE auto operator()(A acc, isize row, isize col, L lanes) const {
    if constexpr (interpreted_detail::Same<L, Ahead>::holds) {
      return none(Full{});
    } else {
      using namespace interpreted_detail;
      if constexpr (Same<A, vf>::holds && IN_VECTORS)
        if (work.code->in_vectors) return in_vector(acc, row, col, lanes);
      alignas(64) char handed[LANES * 8];
      keep(handed, acc);
      return done(handed, row, col, lanes);
    }
  }
  template <class L> INFUSE_INLINE auto operator()(isize row, isize col, L lanes) const {
    if constexpr (interpreted_detail::Same<L, Ahead>::holds) {
      return none(Full{});
    } else {
      if constexpr (IN_VECTORS)
        if (work.code->in_vectors) return in_vector(vf{}, row, col, lanes);
      return done(nullptr, row, col, lanes);
    }
  }
  // What every row has of a column.
  template <class L> INFUSE_INLINE auto operator()(vf acc, isize col, L lanes) const {
    return (*this)(acc, isize(0), col, lanes);
  }
  template <class L> INFUSE_INLINE auto operator()(float acc, isize col, L lanes) const {
    return (*this)(acc, isize(0), col, lanes);
  }

 private:
  static constexpr bool GIVES = interpreted_detail::Same<R, float>::holds;
  static constexpr bool IN_VECTORS = GIVES || interpreted_detail::Same<R, void>::holds;

  template <class L> INFUSE_INLINE auto in_vector(vf acc, isize row, isize col, L lanes) const {
    const vf made = work_vector(work, row, col, count(lanes), acc);
    if constexpr (GIVES) return made;
  }
  template <class L> static INFUSE_INLINE auto none(L lanes) {
    if constexpr (!interpreted_detail::Same<R, void>::holds) return decltype(load((const R*)nullptr, lanes)){};
  }
  template <class L>
  INFUSE_INLINE auto done(const void* handed, isize row, isize col, L lanes) const {
    if constexpr (interpreted_detail::Same<R, void>::holds) {
      work_block(work, row, col, count(lanes), handed, nullptr, nullptr);
    } else {
      alignas(64) R result[LANES];
      work_block(work, row, col, count(lanes), handed, result, nullptr);
      return load((const R*)result, lanes);
    }
  }
};

constexpr isize INTERPRETED_BLOCK = 256;  // columns at once: registers stay in the first cache

/** Elementwise work for all rows × columns; false where it divides integers by zero. */
inline bool map_interpreted(Context& context, isize rows, isize cols, const WorkCall& work,
                            isize cost) {
  bool zero = false;
  map_detail::each_part(context, rows, cols, cost, [&](isize row, isize begin, isize end) {
    for (isize col = begin; col < end; col += INTERPRETED_BLOCK) {
      const isize n = end - col < INTERPRETED_BLOCK ? end - col : INTERPRETED_BLOCK;
      bool found = false;
      work_block(work, row, col, int(n), nullptr, nullptr, &found);
      if (found) __atomic_store_n(&zero, true, __ATOMIC_RELAXED);
    }
  });
  return !zero;
}

}  // namespace infuse
