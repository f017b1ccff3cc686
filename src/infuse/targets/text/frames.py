"""The C of one program of a model: what it keeps between runs, its memory plan, and its list of
calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Final

from infuse.lowering.memory import Plan
from infuse.lowering.program import Program
from infuse.targets.text.calls import CallWriter, Recorded
from infuse.targets.text.language import Language
from infuse.targets.text.names import comment
from infuse.targets.text.plan import buffer_sizes
from infuse.targets.text.sizes import fields_in, size_text, symbol_field

SMALL_ARENA: Final = """  if (f->arena.lent && f->bytes > f->arena.capacity) {
    snprintf(m->text, sizeof m->text, "the arena has %lld bytes, and these sizes need %lld",
             (long long)f->arena.capacity, (long long)f->bytes);
    m->error = m->text;
    return NO_MEMORY;
  }
"""
"""Refuses memory of the host that is too small."""
_MOST_CALLS: Final = 500  # in a function: what compiling one takes grows with their square


class ProgramText:
    """A program and its plan, as text. The names in it end in the program's number."""

    def __init__(
        self, program: Program, plan: Plan, language: Language, recorded: Recorded | None = None
    ) -> None:
        """`recorded`: what lets a step leave a record of when it ran, where each does."""
        self.program, self.plan, self.number = program, plan, program.number
        self.language, self.recorded = language, recorded
        self._late_fields = {symbol_field(s) for s in program.late_sizes}

    @cached_property
    def owned(self) -> dict[int, None]:
        """Outputs in memory of the frame's own, in order: of bodies, and those whose sizes the run
        finds out.
        """
        late = self.program.is_late
        outputs = enumerate(self.program.outputs)
        return {n: None for n, (_, _, shape) in outputs if self.number or any(map(late, shape))}

    @cached_property
    def key(self) -> list[str]:
        """Fields of the sizes on which the plan depends."""
        if not self.number:
            return [symbol_field(s) for s in self.program.symbols]
        texts = [
            *buffer_sizes(self.plan),
            *(self.language.text(test) for test, _ in self.program.checks),
            *map(self.language.scratch, self.program.scratch),
        ]
        return sorted(set().union(*map(fields_in, texts)) - self._late_fields)

    def struct_text(self) -> str:
        """What the frame keeps."""
        outputs, plan = len(self.program.outputs), self.plan
        return f"""typedef struct Frame_{self.number} {{  // {comment(self.program.name)}
  bool planned;
  isize key[{len(self.key) + 1}];
  isize offsets[{len(plan.buffers) + 1}];
  isize bytes;
  Block arena;
  Block late[{plan.blocks + 1}];             // tensors whose sizes the run finds out
  Block left[{self.program.blocks + 1}];             // what bodies left behind
  Block own[{2 * outputs + 1}];
  const char* results[{outputs + 1}];
  int turn;
}} Frame_{self.number};
"""

    def run_text(self, names: Mapping[str, str]) -> str:
        """The calls in order."""
        n = self.number
        writer = CallWriter(
            self.program, self.plan, self.owned, self.language, names, self.recorded
        )
        present = "".join(f"d->{name}, " for name in self.key)
        results = [f"  f->results[{k}] = {self._result(k)};" for k in self.owned]
        steps = list(enumerate(self.program.steps))
        parts = [
            writer.lines(steps[i : i + _MOST_CALLS]) for i in range(0, len(steps), _MOST_CALLS)
        ]
        apart = parts if len(parts) > 1 else []
        lines = [
            f"  if ((failed = part_{n}_{k}(m, in, out)) != 0) return failed;"
            for k in range(len(apart))
        ]
        turn = [f"  m->f{n}.turn ^= 1;"] if n else []
        return f"""// Plans anew where sizes changed.
static int prepare_{n}(Model* m) {{
  Frame_{n}* f = &m->f{n};
  const Sizes* d = &m->d;
  const isize key[] = {{{present}0}};
  if (f->planned && memcmp(key, f->key, sizeof key) == 0) return 0;
  f->planned = false;
  const char* wrong = misfit_{n}(d);
  if (wrong) {{
    m->error = wrong;
    return DIFFERENT_SIZES;
  }}
  f->bytes = place_{n}(d, f->offsets, &m->pool->heap);
{"" if n else SMALL_ARENA}  if (f->bytes < 0 || !context_reserve(m->pool, scratch_bytes_{n}(d)) ||
      !obtain(&f->arena, f->bytes))
    return fail(m, NO_MEMORY, "the working buffers");
  memcpy(f->key, key, sizeof key);
  f->planned = true;
  return 0;
}}

{"".join(self._part_text(k, part) for k, part in enumerate(apart))}\
// Calls the kernels in order; nonzero at the first one that finds something wrong.
static int run_{n}(Model* m, const void* const* in, void* const* out) {{
  int failed = prepare_{n}(m);
  if (failed) return failed;
{chr(10).join([*turn, self._frame_text(), *(lines or chain.from_iterable(parts)), *results])}
  return 0;
}}
"""

    def _frame_text(self) -> str:
        """What calls name."""
        return f"""  Frame_{self.number}* f = &m->f{self.number};
  Context* c = m->pool;
  Sizes* d = &m->d;
  const isize* at = f->offsets;
  Block* own = f->own + f->turn * {len(self.program.outputs)};
  (void)in, (void)out, (void)c, (void)d, (void)at, (void)own;"""

    def _part_text(self, part: int, lines: Sequence[str]) -> str:
        """A function of some of the calls."""
        return f"""{self.language.apart} static int part_{self.number}_{part}(
    Model* m, const void* const* in, void* const* out) {{
  int failed = 0;
  (void)failed;
{self._frame_text()}
{chr(10).join(lines)}
  return 0;
}}

"""

    def _result(self, number: int) -> str:
        alias = self.program.aliases.get(number)
        return f"own[{number}].data" if alias is None else f"(const char*)in[{alias}]"

    def shape_texts(self, number: int) -> list[str]:
        """The sizes of an output."""
        return [size_text(d) for d in self.program.outputs[number][2]]

    @property
    def _blocks(self) -> dict[str, int]:
        """How many blocks of each kind the frame has; of none there is nothing to say."""
        counts = {
            "late": self.plan.blocks,
            "left": self.program.blocks,
            "own": 2 * len(self.program.outputs),
        }
        return {name: count for name, count in counts.items() if count}

    def open_text(self) -> str:
        """What lets the frame's memory come from the context's heap."""
        f = f"m->f{self.number}"
        blocks = {"arena": 1, **self._blocks}
        lines = [
            f"  open_blocks({'&' * (name == 'arena')}{f}.{name}, {count}, &m->pool->heap);"
            for name, count in blocks.items()
        ]
        return "\n".join(lines)

    def close_text(self) -> str:
        """What frees the frame's memory."""
        f = f"m->f{self.number}"
        lines = [f"  close_blocks({f}.{name}, {count});" for name, count in self._blocks.items()]
        return "\n".join([f"  close_blocks(&{f}.arena, 1);", *lines])

    def bytes_text(self) -> str:
        """Bytes that the frame holds."""
        f = f"m->f{self.number}"
        parts = [f" + block_bytes({f}.{name}, {count})" for name, count in self._blocks.items()]
        return f"{f}.bytes{''.join(parts)}"


def model_text(frames: Sequence[ProgramText], extra: str = "") -> str:
    """The struct of an open model, with `extra` fields, and how a run ends that failed."""
    fields = "\n".join(f"  Frame_{frame.number} f{frame.number};" for frame in frames)
    numbers = [frame.number for frame in frames]
    runs = "\n".join(
        f"static int run_{n}(Model* m, const void* const* in, void* const* out);" for n in numbers
    )
    return f"""{"".join(frame.struct_text() for frame in frames)}
typedef struct Model {{
  Context* pool;
  const char* weights;
  Sizes d;
{fields}
{extra}  const char* error;
  char text[512];
}} Model;

// Says what failed where, unless that is known already.
static int fail(Model* m, int failure, const char* where) {{
  if (!m->error) {{
    int used = snprintf(m->text, sizeof m->text, "%s: %s", where, failure_text(failure));
    const isize limit = m->pool->index_limit;
    if (failure == BAD_INDEX && limit >= 0 && used > 0 && used < (int)sizeof m->text)
      snprintf(m->text + used, sizeof m->text - (size_t)used, ": %lld of %lld elements",
               (long long)m->pool->bad_index, (long long)limit);
    m->error = m->text;
  }}
  return failure;
}}

{runs}
"""
