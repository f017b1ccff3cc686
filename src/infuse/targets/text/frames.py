"""The C of one program of a model: what it keeps between runs, its memory plan, and its list of
calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Final

from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.lowering.memory import Plan
from infuse.lowering.program import Number, Program, SizeResult, Step
from infuse.lowering.tensors import Buffer, Tensor
from infuse.targets.text.language import Language
from infuse.targets.text.names import comment, string
from infuse.targets.text.plan import buffer_sizes
from infuse.targets.text.sizes import RunSizes, estimate_text, fields_in, size_text, symbol_field

Recorded = Callable[[int, int, str, Sequence[str]], list[str]]
"""The lines of a step that is recorded: of a program, its number, what it is called, its lines."""
_MOST_NAMES: Final = 4  # of nodes, in the comment of a call
_MOST_CALLS: Final = 500  # in a function: what compiling one takes grows with their square


class ProgramText:
    """A program and its plan, as text. The names in it end in the program's number."""

    def __init__(
        self, program: Program, plan: Plan, language: Language, recorded: Recorded | None = None
    ) -> None:
        """`recorded`: what lets a step leave a record of when it ran, where each does."""
        self.program, self.plan, self.number = program, plan, program.number
        self.language, self.recorded = language, recorded
        self._slots = {id(b): i for i, b in enumerate(plan.buffers)}
        self._late_fields = {symbol_field(s) for s in program.late_sizes}
        self._sizes: RunSizes | None = None

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
  long key[{len(self.key) + 1}];
  long offsets[{len(plan.buffers) + 1}];
  long bytes;
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
        obtained: set[object] = set()
        present = "".join(f"d->{name}, " for name in self.key)
        results = [f"  f->results[{k}] = {self._result(k)};" for k in self.owned]
        steps = list(enumerate(self.program.steps))
        parts = [
            self._calls(steps[i : i + _MOST_CALLS], names, obtained)
            for i in range(0, len(steps), _MOST_CALLS)
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
  const long key[] = {{{present}0}};
  if (f->planned && memcmp(key, f->key, sizeof key) == 0) return 0;
  f->planned = false;
  const char* wrong = misfit_{n}(d);
  if (wrong) {{
    m->error = wrong;
    return DIFFERENT_SIZES;
  }}
  f->bytes = place_{n}(d, f->offsets);
  if (f->bytes < 0 || !context_reserve(m->pool, scratch_bytes_{n}(d)) ||
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

    def _calls(
        self, steps: Sequence[tuple[int, Step]], names: Mapping[str, str], obtained: set[object]
    ) -> list[str]:
        """Some of the calls, after the sizes that they share."""
        self._sizes = RunSizes(self.program.late_sizes) if self._keeps_sizes else None
        lines = [line for i, step in steps for line in self._step(i, step, names, obtained)]
        return [f"  {line}" for line in [*(self._sizes.lines if self._sizes else ()), *lines]]

    def _frame_text(self) -> str:
        """What calls name."""
        return f"""  Frame_{self.number}* f = &m->f{self.number};
  Context* c = m->pool;
  Sizes* d = &m->d;
  const long* at = f->offsets;
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

    def _step(
        self, number: int, step: Step, names: Mapping[str, str], obtained: set[object]
    ) -> list[str]:
        """A call, after what it needs of memory that could not be planned."""
        where = string(
            step.label
            + (f" {step.nodes[-1]!r}" if step.nodes and step.nodes[-1] not in step.label else "")
        )
        lines = []
        for buffer in (*step.reads, *step.writes):
            root = buffer.root()
            block = self.plan.late.get(root)
            if block is not None and root.first == number and root not in obtained:
                obtained.add(root)
                lines.append(self._obtain(f"f->late + {block}", root.bytes, where))
            if (
                buffer.kind == "output"
                and buffer.number in self.owned
                and buffer.number not in obtained
            ):
                obtained.add(buffer.number)
                _, dtype, shape = self.program.outputs[buffer.number]
                lines.append(
                    self._obtain(f"own + {buffer.number}", dims.product(shape) * dtype.bytes, where)
                )
        lines += [
            f"if (!context_reserve(c, {bytes_})) return fail(m, NO_MEMORY, {where});"
            for bytes_ in map(self.language.scratch, step.scratch)
        ]
        lines.append(self._call(step, names, where))
        return self.recorded(self.number, number, where, lines) if self.recorded else lines

    def _obtain(self, block: str, size: Dim, where: str) -> str:
        limit = f"{estimate_text(size)} < TOO_LARGE && " if isinstance(size, dims.Expr) else ""
        return (
            f"if (!({limit}obtain({block}, {self._size(size)}))) "
            f"return fail(m, NO_MEMORY, {where});"
        )

    def _call(self, step: Step, names: Mapping[str, str], where: str) -> str:
        control = step.function.is_control
        arguments = ["m"] if control else [self.language.given, "d"]
        for argument, parameter in zip(step.arguments, step.function.parameters):
            if isinstance(argument, SizeResult):
                arguments.append(f"&d->{symbol_field(argument.symbol)}")
            elif isinstance(argument, Tensor):
                arguments.append(self._place(argument, self.language.pointer_type(parameter)))
            elif isinstance(argument, Number):
                arguments.append(self.language.literal(argument.value, argument.dtype))
            elif isinstance(argument, tuple):
                arguments.append(self.language.call_sizes(argument, self._size))
            else:
                arguments.append(self._size(argument))
        call = f"{names[self.language.text_of(step.function)]}({', '.join(arguments)})"
        statement = f"{call};"
        if step.checks or control:
            statement = f"if ((failed = {call}) != 0) return fail(m, failed, {where});"
        return f"{self._unless_empty(step)}{statement}  // {comment(_computed(step))}"

    def _unless_empty(self, step: Step) -> str:
        """The condition under which a step has something to write, where symbolic sizes leave that
        open.
        """
        if step.function.is_control or any(isinstance(a, SizeResult) for a in step.arguments):
            return ""
        pairs = zip(step.arguments, step.function.parameters)
        written = [a.size for a, p in pairs if isinstance(a, Tensor) and p.is_written]
        open_ = [self._size(s) for s in dict.fromkeys(written) if isinstance(s, dims.Expr)]
        certain = any(isinstance(size, int) and size > 0 for size in written)
        return "" if certain or not open_ else f"if ({' + '.join(open_)} > 0) "

    def _size(self, size: Dim) -> str:
        """A size in the list of calls."""
        return size_text(size) if self._sizes is None else self._sizes.text(size)

    @property
    def _keeps_sizes(self) -> bool:
        """Whether sizes stay as they are while the calls run: bodies of control flow set theirs."""
        return self.number == 0 and not self.program.bodies

    def _place(self, tensor: Tensor, pointer: str) -> str:
        """The address of the first element of a tensor, as a pointer of this type."""
        offset = "" if tensor.offset == 0 else f" + {self._size(tensor.offset)}"
        return f"({pointer})({self._base(tensor.buffer)}){offset}"

    def _base(self, buffer: Buffer) -> str:
        root = buffer.root()
        match buffer.kind:
            case "either":
                assert buffer.either is not None
                size, *tensors = buffer.either
                named = ((t, self.language.element_type(t.dtype)) for t in tensors)
                first, second = (f"(void*)({self._place(t, f'{name}*')})" for t, name in named)
                return f"{self._size(size)} == 0 ? {first} : {second}"
            case "arena" if root in self.plan.late:
                return f"f->late[{self.plan.late[root]}].data"
            case "arena":
                return f"f->arena.data + at[{self._slots[id(root)]}]"
            case "weight":
                return f"m->weights + {buffer.position}L"
            case "block":
                return f"f->left[{buffer.number}].data"
            case "output" if buffer.number in self.owned:
                return f"own[{buffer.number}].data"
        return f"{'in' if buffer.kind == 'input' else 'out'}[{buffer.number}]"

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

    def close_text(self) -> str:
        """What frees the frame's memory."""
        f = f"m->f{self.number}"
        lines = [f"  close_blocks({f}.{name}, {count});" for name, count in self._blocks.items()]
        return "\n".join([f"  memory_close({f}.arena.own);", *lines])

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
    const long limit = m->pool->index_limit;
    if (failure == BAD_INDEX && limit >= 0 && used > 0 && used < (int)sizeof m->text)
      snprintf(m->text + used, sizeof m->text - (size_t)used, ": %ld of %ld elements",
               m->pool->bad_index, limit);
    m->error = m->text;
  }}
  return failure;
}}

{runs}
"""


def _computed(step: Step) -> str:
    """What a call computes, for the reader: its label and the nodes."""
    names = [name for name in step.nodes if name and name not in step.label]
    more = [f"{len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
    return step.label + (f": {', '.join([*names[:_MOST_NAMES], *more])}" if names else "")
