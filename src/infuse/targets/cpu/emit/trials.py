"""C++ that calls the candidates of choices as a model would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from infuse.ir.dims import Dim
from infuse.lowering.choice import usual
from infuse.lowering.program import Number, SizeResult, all_sizes
from infuse.lowering.tensors import Tensor
from infuse.lowering.trials import Trial, regions_of
from infuse.ops.core.feeds import default_size
from infuse.targets.cpu.emit.functions import call_headers
from infuse.targets.cpu.emit.language import CPP
from infuse.targets.cpu.emit.units import distinct, end, preamble
from infuse.targets.text.sizes import symbol_field


def print_trials(trials: Sequence[Trial]) -> dict[str, str]:
    """File names and C++ texts of a library that runs trials by their numbers (`trials_open`, _run,
    _close).
    """
    programs = list({id(t.program): t.program for t in trials}.values())
    functions = distinct((s for trial in trials for s in trial.steps), programs, apart=True)
    names = functions.names
    scratch = list(
        dict.fromkeys(CPP.scratch(each) for program in programs for each in program.scratch)
    )
    headers = {"model.h", "platform.hpp"}.union(*map(call_headers, programs))
    starts, total = regions_of(trials)
    main = [preamble(programs, functions.in_main, more=sorted(headers)), _RANGE]
    main += functions.text()
    main += [_trial_text(number, trial, starts, names) for number, trial in enumerate(trials)]
    sizes = "".join(f"  d->{symbol_field(s)} = {default_size(s)}L;\n" for s in all_sizes(programs))
    main.append(
        _DRIVER
        % {
            "total": total,
            "floats": starts["floats"],
            "written": starts["written"],
            "runs": ", ".join(
                f"{{trial_{n}, warm_{n}, {len(t.warm)}}}" for n, t in enumerate(trials)
            ),
            "sizes": sizes,
            "scratch": "".join(f"  if ({text} > most) most = {text};\n" for text in scratch),
        }
    )
    return functions.files("\n".join([*main, end()]))


def _trial_text(number: int, trial: Trial, starts: dict[str, int], names: Mapping[str, str]) -> str:
    ranges = (
        ", ".join(f"{{{starts[region] + start}L, {size}L}}" for region, start, size in trial.warm)
        or "{0L, 0L}"
    )
    lines = []
    for step in trial.steps:
        arguments = ["c", "d"]
        for argument, parameter in zip(step.arguments, step.function.parameters):
            if isinstance(argument, Tensor):
                region, start = trial.places[id(argument.buffer)]
                kind = CPP.pointer_type(parameter)
                arguments.append(
                    f"({kind})(m + {starts[region] + start}L) + {usual(argument.offset)}L"
                )
            elif isinstance(argument, Number):
                arguments.append(CPP.literal(argument.value, argument.dtype))
            elif isinstance(argument, tuple):
                arguments.append(CPP.call_sizes(argument, _usual_text))
            else:
                assert not isinstance(argument, SizeResult)
                arguments.append(_usual_text(argument))
        call = f"{names[CPP.text_of(step.function)]}({', '.join(arguments)})"
        lines.append(f"  if (int failed = {call}) return failed;")
    body = "\n".join(lines)
    return f"""// {trial.choice.key}: {trial.choice.chosen}
static int trial_{number}(Context& c, const Sizes* d, char* m) {{
{body}
  return 0;
}}
static const Range warm_{number}[] = {{{ranges}}};
"""


def _usual_text(size: Dim) -> str:
    return f"{usual(size)}L"


_RANGE: Final = """struct Range {
  isize begin, bytes;
};
"""

_DRIVER: Final = """
struct Trial {
  int (*run)(Context&, const Sizes*, char*);
  const Range* warm;
  int ranges;
};

static const Trial trials[] = {%(runs)s};

// What trials share: `other` stands for the memory that the rest of a model passes through the
// caches.
struct Bench {
  Context* context;
  char *memory, *other;
  isize other_bytes;
  Sizes d;
  isize seen[MOST_THREADS * 16];
};

static void pass(Bench& b, const char* from, isize bytes) {
  b.context->parallel(bytes / 64, [&](isize begin, isize end, int worker) {
    isize sum = 0;
    for (isize i = begin; i < end; ++i) sum += from[i * 64];
    b.seen[worker * 16] += sum;
  });
}

// Nanoseconds: of one thread those in which it ran, as others may keep the processor from it
// meanwhile.
static long long clock_ns(const Context& c) {
#if defined(CLOCK_THREAD_CPUTIME_ID)
  timespec now;
  if (c.threads == 1 && clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0)
    return now.tv_sec * 1000000000LL + now.tv_nsec;
#endif
  return now_ns();
}

extern "C" {

INFUSE_API void trials_close(void* bench) {
  Bench* b = (Bench*)bench;
  if (!b) return;
  memory_close(nullptr, b->other);
  memory_close(nullptr, b->memory);
  context_close(b->context);
  memory_close(nullptr, (char*)b);
}

// Null when there is not enough memory.
INFUSE_API void* trials_open(int threads, int64_t other_bytes) {
  Bench* b = (Bench*)memory_open(nullptr, sizeof(Bench));
  if (!b) return nullptr;
  memset((void*)b, 0, sizeof(Bench));
  Sizes* d = &b->d;
  (void)d;
%(sizes)s  isize most = 64;
%(scratch)s  b->context = context_open(threads);
  b->memory = memory_open(nullptr, %(total)dL);
  b->other = memory_open(nullptr, (isize)other_bytes + 64);
  b->other_bytes = (isize)other_bytes;
  if (!b->context || !b->memory || !b->other || !b->context->reserve(most)) {
    trials_close(b);
    return nullptr;
  }
  memset(b->memory, 0, %(total)dL);
  memset(b->other, 0, (size_t)other_bytes + 64);
  for (isize i = %(floats)dL; i < %(written)dL; i += 4) *(float*)(b->memory + i) = 0.5f;
  return b;
}

// Where the regions of trials lie.
INFUSE_API void* trials_memory(void* bench) { return ((Bench*)bench)->memory; }

// Seconds of one call of a trial, what it reads but for weights being in the caches; negative when
// it fails.
INFUSE_API double trials_run(void* bench, int number) {
  Bench& b = *(Bench*)bench;
  const Trial& t = trials[number];
  const FlushSubnormals flush;
  pass(b, b.other, b.other_bytes);
  for (int i = 0; i < t.ranges; ++i) pass(b, b.memory + t.warm[i].begin, t.warm[i].bytes);
  const long long begin = clock_ns(*b.context);
  const int failed = t.run(*b.context, &b.d, b.memory);
  return failed ? -1.0 : double(clock_ns(*b.context) - begin) * 1e-9;
}

}  // extern "C"
"""
