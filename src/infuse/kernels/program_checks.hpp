// Checks of programs: that calls and elementwise work have the kinds of arguments that the library's
// functions take.
#pragma once
#include "word_reader.hpp"

namespace infuse {

/** Whether an instruction has to do with elements of such sizes. `element`: its function, or null. */
inline bool fits_element(const WorkCode& code, const Instruction& each,
                         const NamedElement* element) {
  const int own = code.widths[each.target];
  if (each.kind == SPLAT) return true;
  if (!element) return each.place.bytes == own;
  const char* widths = kinds_of(element);
  const int takes = int(strlen(widths)) - 1, gives = widths[takes] - '0';
  if (each.kind == PUT)
    return takes == 1 && widths[0] - '0' == own && gives == each.place.bytes;
  bool fits = takes == each.operand_count && gives == own;
  for (int i = 0; i < takes && fits; ++i)
    fits = code.widths[each.operands[i]] == widths[i] - '0';
  return fits;
}

/** Notes for each slot what fills it last, as `NamedFunction` calls it; 'b' for bits,
 * '-' for none, which are a pointer that leads nowhere, too. */
inline void note_filled(const Program* p, const Call& call, char* filled) {
  for (int i = 0; i < call.fill_count; ++i) {
    const Fill& each = call.fills[i];
    char& kind = filled[each.slot];
    switch (each.kind) {
      case SIZE: kind = 'i'; break;
      case BITS: kind = each.value ? 'b' : '-'; break;
      case ESTIMATE: kind = 'f'; break;
      case FOUND: kind = 'o'; break;
      case TENSOR:
      case EITHER: kind = 't'; break;
      case LIST: kind = 'l'; break;
      case WORK: {
        const WorkCode& code = p->work[each.value];
        kind = 'w';
        filled[each.slot + 1] = code.result < 0 ? '0' : char('0' + code.widths[code.result]);
        break;
      }
    }
  }
}

/** Whether tensors stand where elementwise work has them. */
inline bool has_tensors(const WorkCode& code, const char* filled) {
  for (int i = 0; i < code.count; ++i) {
    const Instruction& each = code.instructions[i];
    if ((each.kind == LOAD || each.kind == PUT) && filled[each.place.pointer] != 't') return false;
  }
  return true;
}

inline bool fills_slots(const Program* p, const Call& call, const char* slots,
                        const char* filled) {
  for (int i = 0; slots[i]; ++i) {
    const bool is_number = slots[i] == 'i' || slots[i] == 'f';
    const bool is_bits = (filled[i] == 'b' || filled[i] == '-') && is_number;
    const bool is_null = filled[i] == '-' && slots[i] == 't';
    const bool is_ignored = slots[i] == '0' && i && slots[i - 1] == 'w' && filled[i - 1] == 'w';
    if (filled[i] != slots[i] && !is_bits && !is_null && !is_ignored) return false;
  }
  for (int i = 0; i < call.fill_count; ++i) {
    const Fill& each = call.fills[i];
    if (each.kind == WORK && !has_tensors(p->work[each.value], filled + each.extra)) return false;
  }
  return true;
}

/** Fails where a function is called with other things than it takes. */
inline void check_call(Reader& r, const Call& call, const char* slots) {
  if (int(strlen(slots)) > call.slot_count) {
    r.fail("a call has too few slots");
    return;
  }
  char* filled = (char*)calloc(size_t(call.slot_count) + 1, 1);
  if (!filled) {
    r.fail("there is not enough memory");
    return;
  }
  note_filled(r.p, call, filled);
  if (!fills_slots(r.p, call, slots, filled)) r.fail("a call has other arguments than its function");
  free(filled);
}

/** Fails where a call that comes before any memory is there has to do with tensors. */
inline void check_without_tensors(Reader& r, const Call& call) {
  bool has_any = call.script;
  for (int i = 0; i < call.fill_count; ++i)
    has_any |= call.fills[i].kind == TENSOR || call.fills[i].kind == EITHER;
  if (has_any) r.fail("a number of bytes depends on a tensor");
}

/** Fails where an output is not in memory of the caller, which bodies have none of, or of the
 * program's own. */
inline void check_output(Reader& r, int number, int base) {
  const bool is_own = r.part->output[number].owned, is_body = r.part != r.p->part;
  if (base == IN_OWN ? !is_own : is_own || is_body) r.fail("an output lies elsewhere");
}

/** Whether an order has every buffer once. */
inline bool is_permutation(const List& order, int count) {
  char* seen = (char*)calloc(size_t(count) + 1, 1);
  bool whole = seen && order.count == count;
  for (int i = 0; i < count && whole; ++i) whole = !seen[order.items[i]]++;
  free(seen);
  return whole;
}

}  // namespace infuse
