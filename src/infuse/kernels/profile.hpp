// What a model that was compiled for profiling keeps of a run: when every step began and ended.
#pragma once
#include "blocks.h"
#include "platform.hpp"

namespace infuse {

constexpr isize MOST_RECORDS = isize(1) << 17;

/** One step that ran: of which program, which one, its times in nanoseconds, and the symbols' values after it. */
template <int SIZES>
struct Record {
  int64_t program, step, begin, end;
  int64_t sizes[SIZES];
};

template <>
struct Record<0> {
  int64_t program, step, begin, end;
};

/** The records of a run, in the order in which the steps ended; those beyond MOST_RECORDS are only counted. */
template <int SIZES>
struct Records {
  Block rows;
  isize count, lost;
};

/** Keeps that a step has run since `begin`; `sizes` are SIZES longs. False when out of memory. */
template <int SIZES>
inline bool note(Records<SIZES>& records, int program, int step, long long begin, const void* sizes) {
  Record<SIZES> row{};
  row.end = now_ns();
  if (records.count == MOST_RECORDS) {
    ++records.lost;
    return true;
  }
  row.program = program;
  row.step = step;
  row.begin = begin;
  if constexpr (SIZES > 0)
    for (int i = 0; i < SIZES; ++i) row.sizes[i] = static_cast<const isize*>(sizes)[i];
  (void)sizes;
  const isize size = static_cast<isize>(sizeof row);
  return append(&records.rows, records.count++ * size, &row, size);
}

}  // namespace infuse
