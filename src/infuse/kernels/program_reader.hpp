// Reads programs that are data, and checks that everything in them lies within its limits.
#pragma once
#include "program_checks.hpp"
#include "script_reader.hpp"

namespace infuse {

inline void read_terms(Reader& r) {
  Program* p = r.p;
  const int count = r.count();
  Term* terms = r.make<Term>(count);
  for (int k = 0; k < count && !r.wrong; ++k) {
    terms[k].late = r.flag();
    terms[k].length = r.count();
    terms[k].code = r.raw(terms[k].length);
    int depth = 0;
    for (int i = 0; i < terms[k].length && !r.wrong; ++i) {
      const int64_t kind = terms[k].code[i];
      if (kind == CONST || kind == SYMBOL) {
        if (++i >= terms[k].length || ++depth > MOST_DEPTH) r.fail("a term is broken");
        else if (kind == SYMBOL && (terms[k].code[i] < 0 || terms[k].code[i] >= p->symbols))
          r.fail("a term has no such symbol");
      } else if (kind < 0 || kind >= TERM_KINDS || --depth < 1) {
        r.fail("a term is broken");
      }
    }
    if (depth != 1) r.fail("a term is broken");
  }
  p->term = terms;
  p->terms = r.wrong ? 0 : count;
}

inline PlaceCode read_place(Reader& r, int arguments) {
  PlaceCode place = {};
  place.pointer = r.number(0, arguments);
  place.bytes = r.number(1, 9);
  place.column = r.number(REPEATED, arguments);
  place.row_count = r.count();
  RowCode* rows = r.make<RowCode>(place.row_count);
  for (int i = 0; i < place.row_count && !r.wrong; ++i) {
    rows[i].below = r.number(NOT_THERE, arguments);
    rows[i].size = r.number(NOT_THERE, arguments);
    rows[i].stride = r.number(NOT_THERE, arguments);
  }
  place.rows = rows;
  return place;
}

/** The function of an instruction; none for the number NOT_THERE. */
inline const NamedElement* read_element(Reader& r, const NamedElement* const* elements, int least,
                                        Instruction* each) {
  const int number = r.number(least, r.p->elements);
  if (number < 0 || r.wrong) return nullptr;
  each->function = elements[number]->call;
  each->vector = elements[number]->vector;
  return elements[number];
}

/** Whether elementwise work can be done a vector at a time: floats and masks alone, and no more
 * registers than MOST_VECTORS. */
inline bool fits_vectors(const WorkCode& code) {
  bool fits = code.registers <= MOST_VECTORS;
  for (int i = 0; i < code.count && fits; ++i) {
    const Instruction& each = code.instructions[i];
    const bool is_float = code.widths[each.target] == 4;
    switch (each.kind) {
      case LOAD: fits = is_float && each.place.column < 0; break;
      case SPLAT: fits = is_float; break;
      case APPLY: fits = each.vector && each.operand_count <= 3; break;
      case PUT: fits = is_float && !each.function; break;
    }
  }
  return fits && (code.result < 0 || code.widths[code.result] == 4);
}

/** Whether a place is that of a vector: rows at one distance, or one row for all. */
inline bool vector_place(const PlaceCode& place, VectorPlace* of) {
  of->pointer = place.pointer;
  of->stride = ONE_ROW;
  if (place.column != NOT_THERE || place.row_count > 1) return false;
  if (place.row_count == 1) {
    const RowCode& row = place.rows[0];
    if (row.below != NOT_THERE || row.size != NOT_THERE) return false;
    of->stride = row.stride;
  }
  return true;
}

/** Where the vector in a register is before any function; false where it is nowhere. */
inline bool vector_of(const WorkCode& code, int target, VectorPlace* of) {
  *of = {NOT_THERE, ONE_ROW};
  for (int i = 0; i < code.count; ++i) {
    const Instruction& each = code.instructions[i];
    if (each.kind == PUT || each.target != target) continue;
    return each.kind == LOAD && vector_place(each.place, of);
  }
  return target == 0;
}

/** Work of vectors that is one function, or none, and one store, or none. */
inline bool read_simple(const WorkCode& code, SimpleCode* simple) {
  const Instruction *apply = nullptr, *put = nullptr;
  for (int i = 0; i < code.count; ++i) {
    const Instruction& each = code.instructions[i];
    const bool is_second = (each.kind == APPLY && apply) || (each.kind == PUT && put);
    if (is_second || each.kind == SPLAT) return false;
    if (each.kind == APPLY) apply = &each;
    if (each.kind == PUT) put = &each;
  }
  const int made = apply ? apply->target : put ? put->target : code.result;
  if ((put && put->target != made) || (code.result >= 0 && code.result != made)) return false;
  simple->operand_count = apply ? apply->operand_count : 1;
  for (int i = 0; i < simple->operand_count; ++i)
    if (!vector_of(code, apply ? apply->operands[i] : made, &simple->operands[i])) return false;
  simple->vector = apply ? apply->vector : nullptr;
  simple->puts = put;
  return !put || vector_place(put->place, &simple->put);
}

inline void read_work(Reader& r, WorkCode* code, const NamedElement* const* elements) {
  const List widths = r.list(1, 9);
  if (widths.count > MOST_REGISTERS) r.fail("elementwise work has too many registers");
  code->registers = widths.count;
  code->widths = widths.items;
  code->result = r.number(NOT_THERE, widths.count);
  code->arguments = r.number(0, 1 << 20);
  code->columns = r.number(NOT_THERE, code->arguments);
  code->axis_count = r.count();
  BlockAxisCode* axes = r.make<BlockAxisCode>(code->axis_count);
  for (int i = 0; i < code->axis_count && !r.wrong; ++i) {
    axes[i].count = r.number(0, code->arguments);
    axes[i].step = r.number(1, 1 << 20);
    axes[i].cut = r.number(-(1 << 20), 1 << 20);
    axes[i].size = r.number(0, code->arguments);
  }
  code->axes = axes;
  code->count = r.count();
  Instruction* list = r.make<Instruction>(code->count);
  for (int i = 0; i < code->count && !r.wrong; ++i) {
    Instruction& each = list[i];
    each.kind = r.number(LOAD, PUT + 1);
    each.target = r.number(0, widths.count);
    const NamedElement* element = nullptr;
    if (each.kind == LOAD) {
      each.argument = r.flag();
      each.place = read_place(r, code->arguments);
    } else if (each.kind == SPLAT) {
      each.argument = r.number(0, code->arguments);
    } else if (each.kind == APPLY) {
      element = read_element(r, elements, 0, &each);
      const List operands = r.list(0, widths.count);
      each.operand_count = operands.count;
      each.operands = operands.items;
      if (operands.count > MOST_OPERANDS) r.fail("a function of elements has too many operands");
    } else {
      element = read_element(r, elements, NOT_THERE, &each);
      each.place = read_place(r, code->arguments);
    }
    if (!r.wrong && !fits_element(*code, each, element))
      r.fail("elements have other sizes than their function's");
  }
  code->instructions = list;
  code->in_vectors = !r.wrong && fits_vectors(*code);
  if (!code->in_vectors) return;
  SimpleCode* simple = r.make<SimpleCode>(1);
  if (!r.wrong && read_simple(*code, simple)) code->simple = simple;
}

inline Site read_site(Reader& r) {
  Program* p = r.p;
  Site site = {};
  site.base = r.number(IN_INPUT, IN_BLOCK + 1);
  const ProgramPart* q = r.part;
  const int64_t limits[] = {q->inputs,  q->outputs,     q->outputs,     p->weight_bytes + 1,
                            q->buffers, q->late_blocks, q->left_blocks};
  const int64_t number = r.next();
  if (number < 0 || number >= limits[site.base]) r.fail("a tensor lies nowhere");
  else if (site.base == IN_OUTPUT || site.base == IN_OWN) check_output(r, int(number), site.base);
  site.number = isize(number);
  site.offset = r.number(NOT_THERE, p->terms);
  site.bytes = r.number(1, 17);
  return site;
}

inline Call read_call(Reader& r) {
  Program* p = r.p;
  Call call = {};
  const bool is_script = r.flag();
  const int number = r.number(0, is_script ? p->scripts : p->functions);
  if (!r.wrong && is_script) call.script = p->script + number;
  if (!r.wrong && !is_script) call.function = p->called[number]->call;
  call.slot_count = r.number(0, 1 << 20);
  if (call.script && call.slot_count < call.script->slots) r.fail("a script has too few slots");
  if (call.slot_count > r.part->most_slots) r.part->most_slots = call.slot_count;
  call.fill_count = r.count();
  Fill* fills = r.make<Fill>(call.fill_count);
  for (int i = 0; i < call.fill_count && !r.wrong; ++i) {
    Fill& each = fills[i];
    each.kind = r.number(SIZE, LIST + 1);
    each.slot = r.number(0, call.slot_count);
    switch (each.kind) {
      case SIZE:
      case ESTIMATE: each.value = r.term(); break;
      case BITS: each.value = r.next(); break;
      case FOUND: each.value = r.number(0, p->symbols); break;
      case TENSOR: each.sites[0] = read_site(r); break;
      case EITHER:
        each.value = r.term();
        each.sites[0] = read_site(r);
        each.sites[1] = read_site(r);
        each.offset = r.number(NOT_THERE, p->terms);
        each.bytes = r.number(1, 17);
        break;
      case LIST: each.extra = r.number(0, call.slot_count + 1); break;
      case WORK:
        each.value = r.number(0, p->works);
        each.extra = r.number(0, call.slot_count + 1);
        if (!r.wrong && (each.slot + 1 >= call.slot_count ||
                         each.extra + p->work[each.value].arguments > call.slot_count))
          r.fail("elementwise work has too few arguments");
        break;
    }
  }
  call.fills = fills;
  if (!r.wrong && !is_script) check_call(r, call, kinds_of(p->called[number]));
  return call;
}

inline const Call* read_calls(Reader& r, int* count) {
  *count = r.count();
  Call* calls = r.make<Call>(*count);
  for (int i = 0; i < *count && !r.wrong; ++i) calls[i] = read_call(r);
  return calls;
}

inline void read_interface(Reader& r) {
  const Program* p = r.p;
  ProgramPart* q = r.part;
  q->inputs = r.count();
  int64_t* defaults = r.make<int64_t>(q->inputs);
  for (int i = 0; i < q->inputs && !r.wrong; ++i) {
    defaults[i] = r.next();
    if (defaults[i] < -1 || defaults[i] > p->weight_bytes) r.fail("a default lies nowhere");
    if (defaults[i] >= 0) q->has_defaults = true;
  }
  q->defaults = defaults;
  q->outputs = r.count();
  Output* outputs = r.make<Output>(q->outputs);
  for (int i = 0; i < q->outputs && !r.wrong; ++i) {
    outputs[i].owned = r.flag();
    outputs[i].alias = r.number(NOT_THERE, q->inputs);
    outputs[i].sizes = r.list(0, p->terms);
  }
  q->output = outputs;
  q->before_run = r.list(0, p->terms);
  q->checks = r.count();
  Check* checks = r.make<Check>(q->checks);
  for (int i = 0; i < q->checks && !r.wrong; ++i) {
    checks[i].term = r.term();
    checks[i].message = r.text();
  }
  q->check = checks;
}

inline void read_memory(Reader& r) {
  const Program* p = r.p;
  ProgramPart* q = r.part;
  const int count = r.count();
  int *terms = r.make<int>(count), *first = r.make<int>(count), *last = r.make<int>(count);
  for (int i = 0; i < count && !r.wrong; ++i) {
    terms[i] = r.term();
    first[i] = r.number(-1, 1 << 30);
    last[i] = r.number(-1, 1 << 30);
  }
  q->buffer_terms = terms, q->first = first, q->last = last;
  q->buffers = r.wrong ? 0 : count;
  q->total = isize(r.next());
  if (q->total >= 0) {
    const int known = r.count();
    if (known != count) r.fail("its buffers have no places");
    const int64_t* words = r.raw(known);
    isize* offsets = r.make<isize>(count);
    for (int i = 0; i < count && !r.wrong; ++i) {
      offsets[i] = isize(words[i]);
      if (offsets[i] < 0 || offsets[i] > q->total) r.fail("a buffer lies nowhere");
    }
    q->offsets = offsets;
  } else {
    q->attempts = r.count();
    if (!r.wrong && q->attempts > (p->word_count + 1) / (count + 1)) r.fail("it ends too early");
    int* orders = r.make<int>(r.wrong ? 1 : isize(q->attempts) * count);
    for (int k = 0; k < q->attempts && !r.wrong; ++k) {
      const List order = r.list(0, count);
      if (!r.wrong && !is_permutation(order, count)) r.fail("an order of buffers is broken");
      for (int i = 0; i < count && !r.wrong; ++i) orders[isize(k) * count + i] = order.items[i];
    }
    q->orders = orders;
  }
  q->late_blocks = r.number(0, p->word_count + 1);
  q->left_blocks = r.number(0, p->word_count + 1);
  q->scratch = read_calls(r, &q->scratch_count);
  for (int i = 0; i < q->scratch_count && !r.wrong; ++i) check_without_tensors(r, q->scratch[i]);
}

inline void read_steps(Reader& r) {
  const Program* p = r.p;
  ProgramPart* q = r.part;
  q->steps = r.count();
  ProgramStep* steps = r.make<ProgramStep>(q->steps);
  for (int k = 0; k < q->steps && !r.wrong; ++k) {
    ProgramStep& step = steps[k];
    step.where = r.text();
    step.checks = r.flag();
    step.written = r.list(0, p->terms);
    step.room_count = r.count();
    Room* rooms = r.make<Room>(step.room_count);
    for (int i = 0; i < step.room_count && !r.wrong; ++i) {
      rooms[i].output = r.flag();
      rooms[i].number = r.number(0, rooms[i].output ? q->outputs : q->late_blocks);
      rooms[i].term = r.term();
      rooms[i].estimated = r.flag();
    }
    step.rooms = rooms;
    step.scratch = read_calls(r, &step.scratch_count);
    step.call = read_call(r);
  }
  q->step = steps;
}

/** The entry `in` the model's own table, or else in that of this library; fails without one. */
template <class In>
auto known(Reader& r, const char* name, const In& in) -> decltype(in(LIBRARY_TABLE)) {
  const auto own = r.own ? in(*r.own) : nullptr;
  const auto entry = own ? own : in(LIBRARY_TABLE);
  if (!entry) r.name = name, r.fail("this library has no function");
  return entry;
}

inline void read_program(Reader& r) {
  Program* p = r.p;
  p->input_symbols = r.number(0, 1 << 20);
  p->symbols = r.number(p->input_symbols, 1 << 20);
  p->functions = r.count();
  const NamedFunction** functions = r.make<const NamedFunction*>(p->functions);
  for (int i = 0; i < p->functions && !r.wrong; ++i) {
    const char* name = r.text();
    const auto in = [name](const FunctionTable& table) {
      return entry_of(table.functions, table.function_count, name);
    };
    functions[i] = known(r, name, in);
  }
  p->called = functions;
  p->elements = r.count();
  const NamedElement** elements = r.make<const NamedElement*>(p->elements);
  for (int i = 0; i < p->elements && !r.wrong; ++i) {
    const char* name = r.text();
    const auto in = [name](const FunctionTable& table) {
      return entry_of(table.elements, table.element_count, name);
    };
    elements[i] = known(r, name, in);
  }
  read_terms(r);
  p->works = r.count();
  WorkCode* works = r.make<WorkCode>(p->works);
  for (int i = 0; i < p->works && !r.wrong; ++i) read_work(r, works + i, elements);
  p->work = works;
  read_scripts(r);
  p->parts = r.number(1, MOST_PARTS);
  ProgramPart* parts = r.make<ProgramPart>(r.wrong ? 1 : p->parts);
  p->part = parts;
  for (int i = 0; i < p->parts && !r.wrong; ++i) {
    r.part = parts + i;
    read_interface(r);
    read_memory(r);
    read_steps(r);
  }
  if (!r.wrong) check_scripts(r);
}

inline void close_program(Program* p) {
  for (int i = 0; i < p->owned_count; ++i) free(p->owned[i]);
  free(p->owned);
  free(p->words);
  free(p->texts);
  free(p);
}

/** A program of these bytes, which `why` tells what is wrong with; null then. `own`: functions that
 * only this model has, or null. */
inline Program* load_program(const char* content, int64_t bytes, const void* weights,
                             int64_t weight_bytes, const FunctionTable* own, char* why, isize room) {
  int64_t head[4];
  why[0] = 0;
  if (bytes < (int64_t)sizeof head) return snprintf(why, size_t(room), "it ends too early"), nullptr;
  memcpy(head, content, sizeof head);
  if (head[0] != MAGIC) return snprintf(why, size_t(room), "it is no program"), nullptr;
  if (head[1] != VERSION)
    return snprintf(why, size_t(room), "it has version %lld, and this library reads %lld",
                    (long long)head[1], (long long)VERSION), nullptr;
  const int64_t rest = bytes - (int64_t)sizeof head;
  if (head[2] < 0 || head[2] > rest / 8 || head[3] < 1 || head[3] != rest - head[2] * 8)
    return snprintf(why, size_t(room), "its length is not what it says"), nullptr;
  Program* p = (Program*)calloc(1, sizeof(Program));
  if (!p) return snprintf(why, size_t(room), "there is not enough memory"), nullptr;
  p->word_count = head[2], p->text_bytes = head[3];
  p->words = (int64_t*)malloc(size_t(head[2] * 8 + 8));
  p->texts = (char*)malloc(size_t(head[3]));
  p->weights = (const char*)weights, p->weight_bytes = weight_bytes;
  Reader reader(p, own);
  if (!p->words || !p->texts) {
    reader.fail("there is not enough memory");
  } else {
    memcpy(p->words, content + sizeof head, size_t(head[2] * 8));
    memcpy(p->texts, content + sizeof head + head[2] * 8, size_t(head[3]));
    p->texts[head[3] - 1] = 0;
    read_program(reader);
  }
  if (!reader.wrong) return p;
  snprintf(why, size_t(room), "%s%s%s", reader.wrong, reader.name[0] ? " " : "", reader.name);
  close_program(p);
  return nullptr;
}

}  // namespace infuse
