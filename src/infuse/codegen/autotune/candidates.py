"""C++ that calls the candidates of choices as a model would: the same steps, on memory of the same
sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from infuse import dtypes
from infuse.codegen.autotune.selector import Choice, usual
from infuse.codegen.program import Number, Program, SizeResult, Step
from infuse.codegen.tensors import Buffer, Tensor
from infuse.codegen.units import all_sizes, distinct, end, preamble
from infuse.codegen.weights import Array
from infuse.ir.dims import Dim
from infuse.ops.core.feeds import default_size
from infuse.targets.cpu.emit.formulas import literal
from infuse.targets.cpu.emit.sizes import struct_text, symbol_field

REGIONS: Final = ("zeros", "floats", "written")
"""Parts of the memory of trials: integers that are read, floats that are read, and what is written.
"""
_COUNTS: Final = (dtypes.int32, dtypes.int64)
_ALIGN: Final = 64
_SLACK: Final = 4096


@dataclass
class Trial:
    """One candidate of one choice: the steps that it becomes, and where their buffers lie in each
    region.
    """

    choice: Choice
    program: Program
    steps: list[Step]
    places: dict[int, tuple[str, int]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REGIONS, 0))
    warm: list[tuple[str, int, int]] = field(default_factory=list)
    """Region, offset and bytes of what a run of the model would have in its caches: all but
    weights.
    """

    def integer_weights(self) -> list[tuple[str, int, Array]]:
        """Region, offset and elements of constant integers, which may tell a kernel how much there
        is to do.
        """
        buffers = {
            id(a.buffer): a.buffer
            for step in self.steps
            for a in step.arguments
            if isinstance(a, Tensor) and a.buffer.kind == "weight" and a.dtype.is_integer
        }
        weights = self.program.weights
        return [
            (*self.places[key], weights.at(b.position)) for key, b in buffers.items() if b.bytes
        ]


def trials_of(program: Program) -> list[Trial]:
    """The choices of a program, with the steps of each; those that cannot be called alone are left
    out.
    """
    trials: dict[int, Trial] = {}
    for step in program.steps:
        if step.choice is not None:
            trial = trials.setdefault(id(step.choice), Trial(step.choice, program, []))
            trial.steps.append(step)
    independent = [
        trial for trial in trials.values() if not any(map(_depends_on_the_run, trial.steps))
    ]
    for trial in independent:
        _place(trial)
    return independent


def _depends_on_the_run(step: Step) -> bool:
    """Whether a step cannot be called alone: it runs bodies, finds sizes, needs memory that the run
    reserves, or reads computed integers that may tell how much there is to do.
    """
    if step.function.is_control or step.scratch:
        return True
    return any(
        isinstance(a, SizeResult)
        or (isinstance(a, Tensor) and a.dtype in _COUNTS and a.buffer.kind != "weight")
        for a in step.arguments
    )


def _place(trial: Trial) -> None:
    """Give every buffer its place: weights after all others."""
    tensors = [a for step in trial.steps for a in step.arguments if isinstance(a, Tensor)]
    written = {id(buffer) for step in trial.steps for buffer in step.writes}
    bytes: dict[int, int] = {}
    buffers: dict[int, tuple[Buffer, str]] = {}
    for tensor in tensors:
        buffer = tensor.buffer
        region = (
            "written" if id(buffer) in written else "floats" if tensor.dtype.is_float else "zeros"
        )
        buffers.setdefault(id(buffer), (buffer, region))
        bytes[id(buffer)] = max(bytes.get(id(buffer), usual(buffer.bytes)), _extent(tensor))
    for number, (buffer, region) in sorted(
        buffers.items(), key=lambda item: item[1][0].kind == "weight"
    ):
        start, size = trial.sizes[region], bytes[number]
        trial.places[number] = region, start
        trial.sizes[region] = start + -(-size // _ALIGN) * _ALIGN
        if buffer.kind != "weight":
            trial.warm.append((region, start, size))


def _extent(tensor: Tensor) -> int:
    """Bytes from the start of its buffer to the end of a tensor."""
    steps = sum(
        max(usual(n) - 1, 0) * max(usual(s), 0) for n, s in zip(tensor.shape, tensor.strides)
    )
    return (usual(tensor.offset) + steps + 1) * tensor.dtype.bytes


def print_trials(trials: Sequence[Trial]) -> dict[str, str]:
    """File names and C++ texts of a library that runs trials by their numbers (`trials_open`, _run,
    _close).
    """
    programs = list({id(t.program): t.program for t in trials}.values())
    functions = distinct((s for trial in trials for s in trial.steps), programs, apart=True)
    names = functions.names
    scratch = list(dict.fromkeys(text for program in programs for text in program.scratch))
    headers = {"model.h", "platform.hpp"}.union(*(program.call_includes for program in programs))
    starts, total = _regions(trials)
    main = [preamble(programs, functions.in_main, more=sorted(headers)), _RANGE]
    main += functions.text()
    main += [_trial_text(number, trial, starts, names) for number, trial in enumerate(trials)]
    sizes = "".join(f"  d.{symbol_field(s)} = {default_size(s)}L;\n" for s in all_sizes(programs))
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


def contents(trials: Sequence[Trial]) -> list[list[tuple[int, Array]]]:
    """For each trial the places in the memory of all trials, in bytes, of its constant integers,
    and these.
    """
    starts, _ = _regions(trials)
    return [
        [(starts[region] + start, array) for region, start, array in trial.integer_weights()]
        for trial in trials
    ]


def _regions(trials: Iterable[Trial]) -> tuple[dict[str, int], int]:
    """Where each region starts, as large as the largest trial needs it; and the bytes of all."""
    starts, total = {}, 0
    for region in REGIONS:
        starts[region] = total
        total += max((trial.sizes[region] for trial in trials), default=0) + _SLACK
    return starts, total


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
                kind = parameter.rsplit(" ", 1)[0]
                arguments.append(
                    f"({kind})(m + {starts[region] + start}L) + {usual(argument.offset)}L"
                )
            elif isinstance(argument, Number):
                arguments.append(literal(argument.value, argument.dtype))
            elif isinstance(argument, tuple):
                arguments.append(struct_text(argument, _usual_text))
            else:
                assert not isinstance(argument, SizeResult)
                arguments.append(_usual_text(argument))
        lines.append(
            f"  if (int failed = {names[step.function.text()]}({', '.join(arguments)})) return "
            "failed;"
        )
    body = "\n".join(lines)
    return f"""// {trial.choice.key}: {trial.choice.chosen}
static int trial_{number}(Context& c, const Sizes& d, char* m) {{
{body}
  return 0;
}}
static const Range warm_{number}[] = {{{ranges}}};
"""


def _usual_text(size: Dim) -> str:
    return f"{usual(size)}L"


_RANGE: Final = """struct Range {
  long begin, bytes;
};
"""

_DRIVER: Final = """
struct Trial {
  int (*run)(Context&, const Sizes&, char*);
  const Range* warm;
  int ranges;
};

static const Trial trials[] = {%(runs)s};

// What trials share: `other` stands for the memory that the rest of a model passes through the
// caches.
struct Bench {
  Context* context;
  char *memory, *other;
  long other_bytes;
  Sizes d;
  long seen[MOST_THREADS * 16];
};

static void pass(Bench& b, const char* from, long bytes) {
  b.context->parallel(bytes / 64, [&](long begin, long end, int worker) {
    long sum = 0;
    for (long i = begin; i < end; ++i) sum += from[i * 64];
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
  memory_close(b->other);
  memory_close(b->memory);
  context_close(b->context);
  memory_close((char*)b);
}

// Null when there is not enough memory.
INFUSE_API void* trials_open(int threads, int64_t other_bytes) {
  Bench* b = (Bench*)memory_open(sizeof(Bench));
  if (!b) return nullptr;
  memset((void*)b, 0, sizeof(Bench));
  Sizes& d = b->d;
  (void)d;
%(sizes)s  long most = 64;
%(scratch)s  b->context = context_open(threads);
  b->memory = memory_open(%(total)dL);
  b->other = memory_open((long)other_bytes + 64);
  b->other_bytes = (long)other_bytes;
  if (!b->context || !b->memory || !b->other || !b->context->reserve(most)) {
    trials_close(b);
    return nullptr;
  }
  memset(b->memory, 0, %(total)dL);
  memset(b->other, 0, (size_t)other_bytes + 64);
  for (long i = %(floats)dL; i < %(written)dL; i += 4) *(float*)(b->memory + i) = 0.5f;
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
  const int failed = t.run(*b.context, b.d, b.memory);
  return failed ? -1.0 : double(clock_ns(*b.context) - begin) * 1e-9;
}

}  // extern "C"
"""
