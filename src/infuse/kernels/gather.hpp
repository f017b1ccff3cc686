// Reading and writing by index. An index counts from the end when negative; one out of range makes
// the function return false, and no memory outside the tensors is touched.
#pragma once
#include "copy.hpp"
#include "half.hpp"
#include "wrap.hpp"

namespace infuse {

namespace gather_detail {

/** True when the index is valid; makes it count from the start. */
template <class Index>
inline bool normalise(Index index, isize size, isize* at) {
  isize i = static_cast<isize>(index);
  *at = i < 0 ? i + size : i;
  if (Index(i) == index && *at >= 0 && *at < size) return true;
  *at = 0;
  return false;
}

/** A flag that any worker may lower. */
struct Verdict {
  Context& context;
  int good = 1;
  void fail(isize index, isize size) {
    context.note_index(index, size);
    __atomic_store_n(&good, 0, __ATOMIC_RELAXED);
  }
  bool operator()() const { return __atomic_load_n(&good, __ATOMIC_RELAXED) != 0; }
};

inline isize grain(isize bytes) { return 1 + COPY_GRAIN / (bytes + 1); }

/** to[i] = from[i * step + index[i] * axis_step]; false, and nothing stored, where an index is bad. */
template <class Index, class T>
INFUSE_INLINE bool pick(isize count, const Index* index, isize size, const T* from, isize step,
                        isize axis_step, T* to) {
  isize bad = 0;
  for (isize i = 0; i < count; ++i) {
    const isize at = static_cast<isize>(index[i]);
    bad |= (at < -size) | (at >= size) | (Index(at) != index[i]);
  }
  if (bad) return false;
#pragma GCC ivdep
  for (isize i = 0; i < count; ++i) {
    const isize at = static_cast<isize>(index[i]);
    to[i] = from[i * step + (at < 0 ? at + size : at) * axis_step];
  }
  return true;
}

/** The first of `count` indices that lies outside of `size` elements; one does. */
template <class Index>
inline isize first_outside(isize count, const Index* index, isize size) {
  isize at;
  for (isize i = 0; i < count - 1; ++i)
    if (!normalise(index[i], size, &at)) return isize(index[i]);
  return isize(index[count - 1]);
}

/** Elements, one at each place: y[outer, i] = x[outer, index[i]]. */
template <class T, class Index>
inline bool gather_single(Context& context, isize outer, isize size, isize count,
                                    const T* x, const Index* index, T* y) {
  constexpr isize PART = 1024;
  if (outer * count == 0) return true;
  const isize parts = (count + PART - 1) / PART, width = count < PART ? count : PART;
  Verdict verdict{context};
  context.parallel(
      outer * parts,
      [&](isize begin, isize end, int) {
        for (isize unit = begin; unit < end; ++unit) {
          const isize row = unit / parts, first = unit % parts * PART;
          const isize n = count - first < PART ? count - first : PART;
          T* to = y + row * count + first;
          if (pick(n, index + first, size, x + row * size, 0, 1, to)) continue;
          return verdict.fail(first_outside(n, index + first, size), size);
        }
      },
      grain(width * isize(sizeof(T) + sizeof(Index))));
  return verdict();
}

}  // namespace gather_detail

/** Calls take(unit, row) for each of outer * count units: row row of x [outer * size, …] goes to row unit of y. */
template <class Index, class Take>
INFUSE_INLINE bool gather_rows(Context& context, isize outer, isize size, isize count,
                               const Index* index, isize grain, const Take& take) {
  using namespace gather_detail;
  if (outer * count == 0) return true;
  Verdict verdict{context};
  context.parallel(
      outer * count,
      [&](isize begin, isize end, int) {
        isize i = begin % count, first = begin / count * size;
        for (isize unit = begin; unit < end; ++unit) {
          isize at;
          if (!normalise(index[i], size, &at)) {
            verdict.fail(isize(index[i]), size);
            if (size == 0) return;
          }
          take(unit, first + at);
          if (++i == count) i = 0, first += size;
        }
      },
      grain);
  return verdict();
}

/** y[outer, i, :] = x[outer, index[i], :] for count indices; x [outer, size, inner]. */
template <int ElemBytes, class Index>
inline bool gather(Context& context, isize outer, isize size, isize inner, isize count, const void* x,
                   const Index* index, void* y) {
  typedef typename Element<ElemBytes>::type T;
  if (inner == 0) return true;
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(y);
  if (inner == 1)
    return gather_detail::gather_single(context, outer, size, count, from, index, to);
  return gather_rows(context, outer, size, count, index, gather_detail::grain(inner * ElemBytes),
                     [&](isize unit, isize row) {
                       copy_bytes(to + unit * inner, from + row * inner, inner * ElemBytes);
                     });
}

/** The same of halves as floats. */
template <class Index>
inline bool gather_fp16(Context& context, isize outer, isize size, isize inner, isize count,
                        const float16* x, const Index* index, float* y) {
  if (inner == 0) return true;
  return gather_rows(context, outer, size, count, index, gather_detail::grain(inner * 6),
                     [&](isize unit, isize row) {
                       const float16* from = x + row * inner;
                       float* to = y + unit * inner;
                       sweep(0, inner, [&](isize i, auto l) { store(to + i, load(from + i, l), l); });
                     });
}

namespace gather_detail {

/** Index dimensions, and the strides of the data with the axis apart. */
struct Along {
  copying::Dims rows;  // all index dimensions but the last; `from` strides are those of the data
  isize width, step;    // the last index dimension and its stride in the data
  isize axis_size, axis_step;
};

inline Along along(int rank, const isize* index_dims, const isize* data_dims, int axis) {
  Along a;
  isize step = 1;
  a.rows.rank = rank - 1;
  for (int i = rank - 1; i >= 0; --i) {
    isize used = i == axis ? 0 : step;
    if (i == axis) {
      a.axis_size = data_dims[i];
      a.axis_step = step;
    }
    if (i == rank - 1) {
      a.width = index_dims[i];
      a.step = used;
    } else {
      a.rows.size[i] = index_dims[i];
      a.rows.from[i] = used;
      a.rows.to[i] = 0;
    }
    step *= data_dims[i];
  }
  return a;
}

/** A part of a scattering that no other one meets in an element of the data. */
struct Part {
  isize begin, end;   // rows of the index
  isize first, last;  // elements of each row
};

/** Calls body(element of the index tensor, offset in the data) for a part. */
template <class Index, class Body>
inline void each_element(const Along& a, const Index* index, const Part& part, Verdict* verdict,
                         const Body& body) {
  copying::Walk walk(&a.rows, part.begin);
  for (isize row = part.begin; row < part.end; ++row, walk.next())
    for (isize i = part.first; i < part.last; ++i) {
      isize at, element = row * a.width + i;
      if (normalise(index[element], a.axis_size, &at))
        body(element, walk.from + i * a.step + at * a.axis_step);
      else
        verdict->fail(isize(index[element]), a.axis_size);
    }
}

/** Copies in parts of their own for the threads. */
inline void copy_apart(Context& context, void* to, const void* from, isize bytes) {
  const isize part = isize(1) << 16;
  context.parallel((bytes + part - 1) / part, [&](isize begin, isize end, int) {
    const isize first = begin * part, last = end * part < bytes ? end * part : bytes;
    copy_bytes(static_cast<char*>(to) + first, static_cast<const char*>(from) + first, last - first);
  });
}

}  // namespace gather_detail

/** y[.., i, ..] = x[.., index[.., i, ..], ..] along `axis`; y has the shape of the index. */
template <int ElemBytes, class Index>
inline bool gather_elements(Context& context, int rank, const isize* index_dims,
                            const isize* data_dims, int axis, const void* x, const Index* index,
                            void* y) {
  typedef typename Element<ElemBytes>::type T;
  using namespace gather_detail;
  Verdict verdict{context};
  Along a = along(rank, index_dims, data_dims, axis);
  context.parallel(
      copying::product(a.rows),
      [&](isize begin, isize end, int) {
        bool good = true;
        copying::Walk walk(&a.rows, begin);
        for (isize row = begin; good && row < end; ++row, walk.next()) {
          const T* from = static_cast<const T*>(x) + walk.from;
          const Index* wanted = index + row * a.width;
          T* to = static_cast<T*>(y) + row * a.width;
          good = a.step == 0 ? pick(a.width, wanted, a.axis_size, from, 0, a.axis_step, to)
                             : pick(a.width, wanted, a.axis_size, from, 1, a.axis_step, to);
          if (!good) verdict.fail(first_outside(a.width, wanted, a.axis_size), a.axis_size);
        }
      },
      grain(a.width * ElemBytes));
  return verdict();
}

namespace gather_detail {

/** The offset that a tuple of `depth` indices names; dims are the sizes it indexes. */
template <class Index>
inline bool tuple_offset(const Index* index, isize depth, const isize* dims, isize* offset,
                         Verdict* verdict) {
  bool good = true;
  *offset = 0;
  for (isize d = 0; d < depth; ++d) {
    isize at;
    if (!normalise(index[d], dims[d], &at)) good = false, verdict->fail(isize(index[d]), dims[d]);
    *offset = *offset * dims[d] + at;
  }
  return good;
}

inline isize volume(const isize* dims, isize depth) {
  isize all = 1;
  for (isize d = 0; d < depth; ++d) all *= dims[d];
  return all;
}

}  // namespace gather_detail

/**
 * y[batch, point, :] = x[batch][index[batch, point, 0..depth)][:]; x [batch, dims.., slice],
 * index [batch, points, depth].
 */
template <int ElemBytes, class Index>
inline bool gather_nd(Context& context, isize batch, isize points, isize depth, const isize* dims,
                      isize slice, const void* x, const Index* index, void* y) {
  using namespace gather_detail;
  Verdict verdict{context};
  isize block = volume(dims, depth);
  if (slice == 0) return true;
  context.parallel(
      batch * points,
      [&](isize begin, isize end, int) {
        for (isize unit = begin; unit < end; ++unit) {
          isize offset;
          if (!tuple_offset(index + unit * depth, depth, dims, &offset, &verdict) && block == 0) return;
          isize from = (unit / points * block + offset) * slice;
          copy_bytes(static_cast<char*>(y) + unit * slice * ElemBytes,
                     static_cast<const char*>(x) + from * ElemBytes, slice * ElemBytes);
        }
      },
      grain(slice * ElemBytes));
  return verdict();
}

// How scattered values join what is there.

struct Assign {
  template <class T>
  static T join(T, T x) {
    return x;
  }
};
struct Add {
  template <class T>
  static T join(T a, T x) {
    return plus(a, x);
  }
};
struct Multiply {
  template <class T>
  static T join(T a, T x) {
    return times(a, x);
  }
};
struct Smaller {
  template <class T>
  static T join(T a, T x) {
    return a != a || a < x ? a : x;
  }
};
struct Larger {
  template <class T>
  static T join(T a, T x) {
    return a != a || a > x ? a : x;
  }
};

/**
 * y = x, then y[index[point, 0..depth)][:] joins updates[point, :] in order of the points;
 * x and y [dims.., slice]. x may be y.
 */
template <class Join, class T, class Index>
inline bool scatter_nd(Context& context, isize points, isize depth, const isize* dims, isize slice,
                       const T* x, const Index* index, const T* updates, T* y) {
  using namespace gather_detail;
  Verdict verdict{context};
  isize block = volume(dims, depth);
  if (x != y) copy_bytes(y, x, block * slice * isize(sizeof(T)));
  if (block == 0) return points == 0 || slice == 0;
  context.parallel(
      slice,
      [&](isize begin, isize end, int) {
        for (isize point = 0; point < points; ++point) {
          isize offset;
          if (!tuple_offset(index + point * depth, depth, dims, &offset, &verdict)) continue;
          T* to = y + offset * slice;
          const T* from = updates + point * slice;
          for (isize i = begin; i < end; ++i) to[i] = Join::join(to[i], from[i]);
        }
      },
      grain(points * isize(sizeof(T))));
  return verdict();
}

/**
 * y = x, then y[.., index[.., i, ..], ..] joins updates[.., i, ..] along `axis`, in order;
 * updates have the shape of the index. x may be y.
 */
template <class Join, class T, class Index>
inline bool scatter_elements(Context& context, int rank, const isize* index_dims, const isize* data_dims,
                             int axis, const T* x, const Index* index, const T* updates, T* y) {
  using namespace gather_detail;
  Along a = along(rank, index_dims, data_dims, axis);
  Verdict verdict{context};
  if (x != y) copy_apart(context, y, x, volume(data_dims, rank) * isize(sizeof(T)));
  const isize rows = copying::product(a.rows), each = isize(sizeof(T) + sizeof(Index));
  const auto run = [&](const Part& part) {
    each_element(a, index, part, &verdict, [&](isize element, isize offset) {
      y[offset] = Join::join(y[offset], updates[element]);
    });
  };
  if (axis == rank - 1)
    context.parallel(
        rows, [&](isize begin, isize end, int) { run({begin, end, 0, a.width}); },
        grain(a.width * each));
  else
    context.parallel(
        a.width, [&](isize begin, isize end, int) { run({0, rows, begin, end}); },
        grain(rows * each));
  return verdict();
}

}  // namespace infuse
