// Reads scripts, and checks what they have to do with.
#pragma once
#include "word_reader.hpp"

namespace infuse {

inline void read_scripts(Reader& r) {
  Program* p = r.p;
  p->scripts = r.count();
  Script* scripts = r.make<Script>(p->scripts);
  for (int k = 0; k < p->scripts && !r.wrong; ++k) {
    scripts[k].slots = r.number(1, 1 << 20);
    scripts[k].count = r.count();
    ScriptStep* steps = r.make<ScriptStep>(scripts[k].count);
    for (int i = 0; i < scripts[k].count && !r.wrong; ++i) {
      steps[i].kind = r.number(DO_CONST, SCRIPT_KINDS);
      steps[i].a = r.next(), steps[i].b = r.next(), steps[i].c = r.next(), steps[i].d = r.next();
    }
    scripts[k].steps = steps;
  }
  p->script = scripts;
}

/** Whether the numbers of a script's instruction are slots, places and things that are there. */
inline bool is_sound(const Program* p, const Script& script, const ScriptStep& step) {
  const auto within = [](int64_t value, int64_t limit) { return value >= 0 && value < limit; };
  const auto slot = [&](int64_t value) { return within(value, script.slots); };
  switch (step.kind) {
    case DO_CONST: return slot(step.a);
    case DO_JUMP: return within(step.a, script.count);
    case DO_UNLESS: return slot(step.a) && within(step.b, script.count);
    case DO_END: return within(step.a, 16);
    case DO_CALL:
      return slot(step.a) && within(step.b, p->functions) && slot(step.c) &&
             step.c + int64_t(strlen(kinds_of(p->called[step.b]))) <= script.slots;
    case DO_BODY:
      return within(step.a, p->parts) && step.a > 0 && slot(step.b) &&
             step.b + p->part[step.a].inputs <= script.slots;
    case DO_RESULT:
      return slot(step.a) && within(step.b, p->parts) && within(step.c, p->part[step.b].outputs);
    case DO_BLOCK:
      return slot(step.a) && within(step.b, p->parts) &&
             within(step.c, p->part[step.b].left_blocks);
    case DO_TERM:
    case DO_ESTIMATE: return slot(step.a) && within(step.b, p->terms);
    case DO_GET: return slot(step.a) && within(step.b, p->symbols);
    case DO_SET: return within(step.a, p->symbols) && slot(step.b);
  }
  return slot(step.a) && slot(step.b) && slot(step.c);
}

inline void check_scripts(Reader& r) {
  const Program* p = r.p;
  for (int k = 0; k < p->scripts; ++k) {
    const Script& script = p->script[k];
    bool sound = script.count > 0 && script.steps[script.count - 1].kind == DO_END;
    for (int i = 0; i < script.count && sound; ++i) sound = is_sound(p, script, script.steps[i]);
    if (!sound) r.fail("a script is broken");
  }
  for (int part = 0; part < p->parts && !r.wrong; ++part) {
    for (int k = 0; k < p->part[part].steps && !r.wrong; ++k) {
      const Script* script = p->part[part].step[k].call.script;
      for (int i = 0; script && i < script->count; ++i)
        if (script->steps[i].kind == DO_BODY && script->steps[i].a <= part)
          r.fail("a body runs what it is a part of");
    }
  }
}

}  // namespace infuse
