// Elementwise work that is data: one block of columns of one row.
#include <stdlib.h>
#include <string.h>

#include "interpreted.hpp"

namespace infuse {

namespace {

/** Quotients and remainders of what is not negative; 0 where a program divides by nothing. */
inline isize quotient(isize a, isize b) { return b > 0 ? a / b : 0; }
inline isize remainder(isize a, isize b) { return b > 0 ? a % b : 0; }

/** Elements before those of a row. */
inline isize offset(const PlaceCode& place, const Slot* a, isize row) {
  isize at = 0;
  for (int i = 0; i < place.row_count; ++i) {
    const RowCode& step = place.rows[i];
    isize index = step.below == NOT_THERE ? row : quotient(row, a[step.below].i);
    if (step.size != NOT_THERE) index = remainder(index, a[step.size].i);
    at += step.stride == NOT_THERE ? index : index * a[step.stride].i;
  }
  return at;
}

template <class T>
inline void fill(void* to, const void* from, isize n) {
  T value;
  memcpy(&value, from, sizeof value);
  for (isize i = 0; i < n; ++i) ((T*)to)[i] = value;
}

/** Stores the element at `from` n times. */
inline void repeat(void* to, const void* from, int bytes, isize n) {
  switch (bytes) {
    case 1: return fill<uint8_t>(to, from, n);
    case 2: return fill<uint16_t>(to, from, n);
    case 4: return fill<uint32_t>(to, from, n);
  }
  fill<uint64_t>(to, from, n);
}

template <class T>
inline void pick(void* to, const void* from, isize step, isize n) {
  for (isize i = 0; i < n; ++i) ((T*)to)[i] = ((const T*)from)[i * step];
}

inline void gather(void* to, const void* from, isize step, int bytes, isize n) {
  switch (bytes) {
    case 1: return pick<uint8_t>(to, from, step, n);
    case 2: return pick<uint16_t>(to, from, step, n);
    case 4: return pick<uint32_t>(to, from, step, n);
  }
  pick<uint64_t>(to, from, step, n);
}

/** Makes row and column of a kernel those of the result; false where they are outside of it. */
bool placed(const WorkCode& code, const Slot* a, isize* row, isize* col) {
  const isize columns = a[code.columns].i;
  isize pixel = quotient(*col, columns), block = *row, result = 0, steps = 1, count = 1;
  *col = remainder(*col, columns);
  for (int i = 0; i < code.axis_count; ++i) {
    steps *= code.axes[i].step;
    count *= a[code.axes[i].count].i;
  }
  result = quotient(block, count);
  block = remainder(block, count);
  for (int i = 0; i < code.axis_count; ++i) {
    const BlockAxisCode& axis = code.axes[i];
    steps /= axis.step;
    count = quotient(count, a[axis.count].i);
    const isize at = quotient(block, count) * axis.step + pixel / steps - axis.cut, size = a[axis.size].i;
    if (at < 0 || at >= size) return false;
    block = remainder(block, count);
    pixel %= steps;
    result = result * size + at;
  }
  *row = result;
  return true;
}

typedef vf (*VectorFunction)(vf, vf, vf);

inline float* start(const VectorPlace& place, const Slot* a, isize row, isize col) {
  float* from = (float*)a[place.pointer].p + col;
  if (place.stride == ONE_ROW) return from;
  return from + (place.stride == NOT_THERE ? row : row * a[place.stride].i);
}

template <class L>
inline vf simple_vector(const SimpleCode& code, const Slot* a, isize row, isize col, L lanes,
                        vf handed) {
  vf x[3] = {handed, handed, handed};
  for (int i = 0; i < code.operand_count; ++i)
    if (code.operands[i].pointer != NOT_THERE)
      x[i] = load(start(code.operands[i], a, row, col), lanes);
  const vf made = code.vector ? ((VectorFunction)code.vector)(x[0], x[1], x[2]) : x[0];
  if (code.puts) store(start(code.put, a, row, col), made, lanes);
  return made;
}

/** The work of one vector, whose registers are the processor's. */
template <class L>
vf vector_work(const WorkCode& code, const Slot* a, isize row, isize col, L lanes, vf handed) {
  if (code.simple) return simple_vector(*code.simple, a, row, col, lanes, handed);
  vf r[MOST_VECTORS];
  r[0] = handed;
  for (int k = 0; k < code.count; ++k) {
    const Instruction& each = code.instructions[k];
    switch (each.kind) {
      case LOAD: {
        const float* from = (const float*)a[each.place.pointer].p + offset(each.place, a, row);
        r[each.target] = each.place.column == REPEATED ? splat(*from) : load(from + col, lanes);
        break;
      }
      case SPLAT: r[each.target] = splat(*(const float*)&a[each.argument]); break;
      case APPLY: {
        const int* of = each.operands;
        const vf x0 = r[of[0]], x1 = each.operand_count > 1 ? r[of[1]] : x0;
        const vf x2 = each.operand_count > 2 ? r[of[2]] : x0;
        r[each.target] = ((VectorFunction)each.vector)(x0, x1, x2);
        break;
      }
      case PUT:
        store((float*)a[each.place.pointer].p + offset(each.place, a, row) + col, r[each.target],
              lanes);
        break;
    }
  }
  return code.result < 0 ? handed : r[code.result];
}

}  // namespace

vf work_vector(const WorkCall& work, isize row, isize col, int n, vf handed) {
  const WorkCode& code = *work.code;
  const Slot* a = work.slots;
  if (code.columns != NOT_THERE && !placed(code, a, &row, &col)) return handed;
  if (n == LANES) return vector_work(code, a, row, col, Full{}, handed);
  return vector_work(code, a, row, col, Tail{n}, handed);
}

void work_block(const WorkCall& work, isize row, isize col, int n, const void* handed, void* result,
                bool* found_zero) {
  const WorkCode& code = *work.code;
  const Slot* a = work.slots;
  if (code.columns != NOT_THERE && !placed(code, a, &row, &col)) return;
  const isize stride = (n * isize(8) + 63) / 64 * 64;
  char* room = (char*)__builtin_alloca_with_align(size_t(code.registers * stride + 64), 512);
  const void** registers = (const void**)__builtin_alloca(sizeof(void*) * size_t(code.registers + 1));
  for (int k = 0; k < code.registers; ++k) registers[k] = room + k * stride;
  if (handed) registers[0] = handed;
  for (int k = 0; k < code.count; ++k) {
    const Instruction& each = code.instructions[k];
    char* own = room + each.target * stride;
    switch (each.kind) {
      case LOAD: {
        const PlaceCode& place = each.place;
        const isize bytes = place.bytes;
        const char* from = (const char*)a[place.pointer].p + offset(place, a, row) * bytes;
        if (place.column == REPEATED) {
          repeat(own, from, int(bytes), n);
        } else if (place.column != NOT_THERE) {
          const isize step = a[place.column].i;
          gather(own, from + col * step * bytes, step, int(bytes), n);
        } else if (each.argument) {
          registers[each.target] = from + col * bytes;
          continue;
        } else {
          memcpy(own, from + col * bytes, size_t(n * bytes));
        }
        registers[each.target] = own;
        break;
      }
      case SPLAT:
        repeat(own, &a[each.argument], code.widths[each.target], n);
        registers[each.target] = own;
        break;
      case APPLY: {
        const void* in[MOST_OPERANDS];
        for (int i = 0; i < each.operand_count; ++i) in[i] = registers[each.operands[i]];
        each.function(own, in, n, found_zero);
        registers[each.target] = own;
        break;
      }
      case PUT: {
        const PlaceCode& place = each.place;
        char* to = (char*)a[place.pointer].p + (offset(place, a, row) + col) * place.bytes;
        const void* from = registers[each.target];
        if (each.function)
          each.function(to, &from, n, found_zero);
        else
          memcpy(to, from, size_t(n * place.bytes));
        break;
      }
    }
  }
  if (result) memcpy(result, registers[code.result], size_t(n * code.widths[code.result]));
}

}  // namespace infuse
