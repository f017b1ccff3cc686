// Strided copies: transposes, slices, broadcasts, fills.
#pragma once
#include "threads.hpp"
#include "transpose.hpp"

namespace infuse {

constexpr int MOST_DIMS = 16;
constexpr isize COPY_GRAIN = 32768;  // bytes that are worth a thread

template <int Bytes>
struct Element;
template <>
struct Element<1> {
  typedef uint8_t type;
};
template <>
struct Element<2> {
  typedef uint16_t type;
};
template <>
struct Element<4> {
  typedef uint32_t type;
};
template <>
struct Element<8> {
  typedef uint64_t type;
};
template <>
struct Element<16> {
  typedef uint64_t type __attribute__((vector_size(16)));
};

namespace copying {

/** Loop dimensions, outermost first, with the element strides of source and destination. */
struct Dims {
  int rank;
  isize size[MOST_DIMS], from[MOST_DIMS], to[MOST_DIMS];
};

// ---------------------------------------------------------------- making loops simple

inline void append(Dims* dims, isize size, isize from, isize to) {
  int at = dims->rank++;
  for (; at > 0 && dims->to[at - 1] < to; --at) {
    dims->size[at] = dims->size[at - 1];
    dims->from[at] = dims->from[at - 1];
    dims->to[at] = dims->to[at - 1];
  }
  dims->size[at] = size;
  dims->from[at] = from;
  dims->to[at] = to;
}

inline void merge_neighbours(Dims* dims) {
  int kept = 0;
  for (int i = 1; i < dims->rank; ++i) {
    bool joined = dims->from[kept] == dims->size[i] * dims->from[i] &&
                  dims->to[kept] == dims->size[i] * dims->to[i];
    if (joined) {
      dims->size[kept] *= dims->size[i];
    } else {
      ++kept;
      dims->size[kept] = dims->size[i];
    }
    dims->from[kept] = dims->from[i];
    dims->to[kept] = dims->to[i];
  }
  dims->rank = kept + 1;
}

inline void remove(Dims* dims, int at) {
  for (int i = at; i + 1 < dims->rank; ++i) {
    dims->size[i] = dims->size[i + 1];
    dims->from[i] = dims->from[i + 1];
    dims->to[i] = dims->to[i + 1];
  }
  --dims->rank;
}

/** Sizes of one removed, destination strides positive and falling, neighbours merged; false when
 * empty. */
inline bool simplify(int rank, const isize* size, const isize* from, const isize* to, Dims* dims,
                     isize* from_start, isize* to_start) {
  dims->rank = 0;
  *from_start = *to_start = 0;
  for (int i = 0; i < rank; ++i) {
    if (size[i] == 0) return false;
    if (size[i] == 1) continue;
    bool back = to[i] < 0;
    if (back) {
      *from_start += (size[i] - 1) * from[i];
      *to_start += (size[i] - 1) * to[i];
    }
    append(dims, size[i], back ? -from[i] : from[i], back ? -to[i] : to[i]);
  }
  if (dims->rank == 0) append(dims, 1, 1, 1);
  merge_neighbours(dims);
  return true;
}

/** Where an index of the outer loops lies in source and destination. */
struct Walk {
  const Dims* dims;
  isize at[MOST_DIMS];
  isize from, to;

  Walk(const Dims* loops, isize index) : dims(loops), from(0), to(0) {
    for (int i = dims->rank - 1; i >= 0; --i) {
      const isize size = dims->size[i] > 0 ? dims->size[i] : 1;
      at[i] = index % size;
      index /= size;
      from += at[i] * dims->from[i];
      to += at[i] * dims->to[i];
    }
  }

  void next() {
    for (int i = dims->rank - 1; i >= 0; --i) {
      from += dims->from[i];
      to += dims->to[i];
      if (++at[i] < dims->size[i]) return;
      from -= dims->size[i] * dims->from[i];
      to -= dims->size[i] * dims->to[i];
      at[i] = 0;
    }
  }
};

inline isize product(const Dims& dims) {
  isize all = 1;
  for (int i = 0; i < dims.rank; ++i) all *= dims.size[i];
  return all;
}

/** A copy whose outer loops are walked, and what is done with one piece [begin, end) of the inner.
 */
struct Job {
  void (*piece)(const Job& job, isize from, isize to, isize begin, isize end);
  const void* from;
  void* to;
  isize from_stride, to_stride;  // of the loop that is cut into pieces
  isize across, across_from;     // of a transpose: the size and source stride of the other loop
};

/** Runs the job for all outer indices and all pieces of [0, n), `bytes` being those of one of n. */
inline void each_piece(Context& context, const Dims& outer, isize n, isize piece, isize bytes,
                       const Job& job) {
  isize pieces = (n + piece - 1) / piece;
  isize cost = (piece < n ? piece : n) * bytes;
  isize grain = (COPY_GRAIN + cost - 1) / cost;
  context.parallel(
      product(outer) * pieces,
      [&](isize first, isize last, int) {
        Walk walk(&outer, first / pieces);
        isize part = first % pieces;
        for (isize unit = first; unit < last; ++unit) {
          isize begin = part * piece, end = begin + piece < n ? begin + piece : n;
          job.piece(job, walk.from, walk.to, begin, end);
          if (++part == pieces) {
            part = 0;
            walk.next();
          }
        }
      },
      grain);
}

// ---------------------------------------------------------------- runs

template <int Bytes>
inline void move(void* to, const void* from) {
  memcpy(to, from, Bytes);
}

/** Copies a run of bytes that do not overlap; short runs without a call. */
inline void copy_run(char* to, const char* from, isize bytes) {
  if (bytes > 256) {
    memcpy(to, from, static_cast<size_t>(bytes));
  } else if (bytes >= isize(sizeof(vf))) {
    constexpr isize STEP = sizeof(vf);
    for (isize i = 0; i < bytes - STEP; i += STEP) move<STEP>(to + i, from + i);
    move<STEP>(to + bytes - STEP, from + bytes - STEP);
  } else if (bytes >= 16) {
    for (isize i = 0; i < bytes - 16; i += 16) move<16>(to + i, from + i);
    move<16>(to + bytes - 16, from + bytes - 16);
  } else if (bytes >= 8) {
    move<8>(to, from);
    move<8>(to + bytes - 8, from + bytes - 8);
  } else if (bytes >= 4) {
    move<4>(to, from);
    move<4>(to + bytes - 4, from + bytes - 4);
  } else {
    for (isize i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

}  // namespace copying

/** Copies bytes that do not overlap; short runs without a call. */
inline void copy_bytes(void* to, const void* from, isize bytes) {
  copying::copy_run(static_cast<char*>(to), static_cast<const char*>(from), bytes);
}

namespace copying {

template <class T>
inline void run_piece(const Job& job, isize from, isize to, isize begin, isize end) {
  copy_bytes(static_cast<T*>(job.to) + to + begin, static_cast<const T*>(job.from) + from + begin,
             (end - begin) * isize(sizeof(T)));
}

/** Short runs of `across` elements. */
template <class T>
inline void runs_piece(const Job& job, isize from, isize to, isize begin, isize end) {
  const T* source = static_cast<const T*>(job.from) + from;
  T* target = static_cast<T*>(job.to) + to;
  const isize bytes = job.across * isize(sizeof(T)), from_step = job.from_stride,
             to_step = job.to_stride;
  for (isize i = begin; i < end; ++i)
    copy_bytes(target + i * to_step, source + i * from_step, bytes);
}

template <class T>
inline void strided_piece(const Job& job, isize from, isize to, isize begin, isize end) {
  const T* source = static_cast<const T*>(job.from) + from + begin * job.from_stride;
  T* target = static_cast<T*>(job.to) + to + begin * job.to_stride;
  if (job.from_stride == 0 && job.to_stride == 1) {
    T value = *source;
    for (isize i = 0; i < end - begin; ++i) target[i] = value;
  } else {
    const isize to_step = job.to_stride, from_step = job.from_stride;
    for (isize i = 0; i < end - begin; ++i) target[i * to_step] = source[i * from_step];
  }
}

// ---------------------------------------------------------------- transposes

template <class T>
inline void weave_piece(const Job& job, isize from, isize to, isize begin, isize end) {
  interleave_any(static_cast<T*>(job.to) + to + begin * job.across,
                 static_cast<const T*>(job.from) + from + begin, job.across_from, end - begin,
                 job.across);
}

template <class T>
inline void part_piece(const Job& job, isize from, isize to, isize begin, isize end) {
  separate_any(static_cast<T*>(job.to) + to + begin, job.to_stride,
               static_cast<const T*>(job.from) + from + begin * job.across, end - begin,
               job.across);
}

/** A block that is cut along the loop that reads its neighbours. */
template <class T>
inline void wide_piece(const Job& job, isize from, isize to, isize begin, isize end) {
  turn_block<T>(static_cast<T*>(job.to) + to + begin * job.to_stride, job.to_stride,
                static_cast<const T*>(job.from) + from + begin, job.across_from, end - begin,
                job.across);
}

/** A block that is cut along the loop that writes its neighbours. */
template <class T>
inline void high_piece(const Job& job, isize from, isize to, isize begin, isize end) {
  turn_block<T>(static_cast<T*>(job.to) + to + begin, job.to_stride,
                static_cast<const T*>(job.from) + from + begin * job.from_stride, job.from_stride,
                job.across, end - begin);
}

/** What copies pieces of elements of so many bytes; no `weave` and `part` for those that have none.
 */
struct Pieces {
  typedef void (*Piece)(const Job& job, isize from, isize to, isize begin, isize end);
  isize bytes;
  Piece run, runs, strided, wide, high, weave, part;
};

template <class T>
inline Pieces pieces_of() {
  Pieces all = {sizeof(T),     run_piece<T>,  runs_piece<T>, strided_piece<T>,
                wide_piece<T>, high_piece<T>, nullptr,       nullptr};
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
    all.weave = weave_piece<T>;
    all.part = part_piece<T>;
  }
  return all;
}

/** The innermost loop writes along `to`, loop `along` reads along `from`. */
inline void transpose(Context& context, const Dims& dims, int along, const Pieces& pieces,
                      const void* from, void* to) {
  int last = dims.rank - 1;
  isize width = dims.size[along], height = dims.size[last], bytes = pieces.bytes;
  isize from_stride = dims.from[last], to_stride = dims.to[along];
  Dims outer = dims;
  remove(&outer, last);
  remove(&outer, along);
  Job wide = {pieces.wide, from, to, 1, to_stride, height, from_stride};
  Job high = {pieces.high, from, to, from_stride, to_stride, width, 1};
  if (pieces.weave && height >= 2 && height <= 4 && to_stride == height) {
    wide.piece = pieces.weave;
    return each_piece(context, outer, width, 4096, height * bytes, wide);
  }
  if (pieces.part && width >= 2 && width <= 4 && from_stride == width) {
    high.piece = pieces.part;
    return each_piece(context, outer, height, 4096, width * bytes, high);
  }
  if (width >= 128)
    each_piece(context, outer, width, 64, height * bytes, wide);
  else
    each_piece(context, outer, height, 512, width * bytes, high);
}

// ---------------------------------------------------------------- choosing

/** True when the innermost run is one wider element for all loops; makes it so. */
inline bool widen(Dims* dims, isize most) {
  int last = dims->rank - 1;
  isize run = dims->size[last];
  if (last == 0 || dims->from[last] != 1 || dims->to[last] != 1 || run > most || (run & (run - 1)))
    return false;
  for (int i = 0; i < last; ++i)
    if (dims->from[i] % run || dims->to[i] % run) return false;
  for (int i = 0; i < last; ++i) {
    dims->from[i] /= run;
    dims->to[i] /= run;
  }
  dims->rank = last;
  return true;
}

inline void copy_dims(Context& context, const Dims& dims, const Pieces& pieces, const void* from,
                      void* to) {
  int last = dims.rank - 1;
  isize count = dims.size[last], from_stride = dims.from[last], to_stride = dims.to[last];
  if (to_stride == 1 && from_stride != 1)
    for (int i = last - 1; i >= 0; --i)
      if (dims.from[i] == 1) return transpose(context, dims, i, pieces, from, to);
  Dims outer = dims;
  outer.rank = last;
  bool run = from_stride == 1 && to_stride == 1;
  if (run && last > 0 && count * pieces.bytes <= 1024) {
    outer.rank = last - 1;
    Job runs = {pieces.runs, from, to, dims.from[last - 1], dims.to[last - 1], count, 0};
    return each_piece(context, outer, dims.size[last - 1], (isize(1) << 14) / count + 1,
                      count * pieces.bytes, runs);
  }
  Job job = {run ? pieces.run : pieces.strided, from, to, from_stride, to_stride, 0, 0};
  each_piece(context, outer, count, isize(1) << 14, pieces.bytes, job);
}

/** Pieces of elements of `bytes` bytes, which are Bytes or a multiple. */
template <int Bytes>
inline Pieces pieces_for(isize bytes) {
  if constexpr (Bytes < 16) {
    if (bytes > Bytes) return pieces_for<2 * Bytes>(bytes);
  }
  return pieces_of<typename Element<Bytes>::type>();
}

}  // namespace copying

/**
 * Copies dims[0] × … × dims[rank-1] elements of ElemBytes (1, 2, 4, 8, 16) from src to dst.
 * Strides count elements and may be negative; a source stride of 0 repeats. src and dst do not
 * overlap.
 */
template <int ElemBytes>
void copy_nd(Context& context, int rank, const isize* dims, const isize* src_strides,
                    const isize* dst_strides, const void* src, void* dst) {
  copying::Dims loops;
  isize from_start, to_start;
  if (!copying::simplify(rank, dims, src_strides, dst_strides, &loops, &from_start, &to_start))
    return;
  const char* from = static_cast<const char*>(src) + from_start * ElemBytes;
  char* to = static_cast<char*>(dst) + to_start * ElemBytes;
  isize run = loops.size[loops.rank - 1] * ElemBytes;
  bool aligned = (reinterpret_cast<intptr_t>(from) | reinterpret_cast<intptr_t>(to)) % run == 0;
  bool wide = aligned && copying::widen(&loops, 16 / ElemBytes);
  const copying::Pieces pieces = copying::pieces_for<ElemBytes>(wide ? run : ElemBytes);
  copying::copy_dims(context, loops, pieces, from, to);
}

/** Writes `value` to count elements. */
template <class T>
inline void fill(Context& context, T* to, isize count, T value) {
  context.parallel(
      count,
      [to, value](isize begin, isize end, int) {
        T* target = to;
        const T own = value;  // as what is stored could lie over what the function refers to
        for (isize i = begin; i < end; ++i) target[i] = own;
      },
      COPY_GRAIN / isize(sizeof(T)));
}

}  // namespace infuse

// Copies of elements of so many bytes, which depend on no model (see gemm_shared.hpp).
#define INFUSE_SHARED_COPY(how, BYTES)                                                     \
  namespace infuse {                                                                       \
  how template void copy_nd<BYTES>(Context&, int, const isize*, const isize*, const isize*,   \
                                   const void*, void*);                                    \
  }
