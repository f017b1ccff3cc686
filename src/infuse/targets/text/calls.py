"""The calls of a program's steps in C, with what each needs of memory that could not be planned."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final

from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.lowering.memory import Plan
from infuse.lowering.program import Number, Program, SizeResult, Step
from infuse.lowering.tensors import Buffer, Tensor
from infuse.targets.text.language import Language
from infuse.targets.text.names import comment, string
from infuse.targets.text.sizes import RunSizes, estimate_text, size_text, symbol_field

Recorded = Callable[[int, int, str, Sequence[str]], list[str]]
"""The lines of a step that is recorded: of a program, its number, what it is called, its lines."""
_MOST_NAMES: Final = 4  # of nodes, in the comment of a call


class CallWriter:
    """Writes the calls of a program, in its order. `owned`: outputs in memory of the frame's own;
    `names`: those of functions, by their texts.
    """

    def __init__(
        self,
        program: Program,
        plan: Plan,
        owned: Container[int],
        language: Language,
        names: Mapping[str, str],
        recorded: Recorded | None = None,
    ) -> None:
        self._program, self._plan, self._owned = program, plan, owned
        self._language, self._names, self._recorded = language, names, recorded
        self._slots = {id(b): i for i, b in enumerate(plan.buffers)}
        self._obtained: set[object] = set()
        self._sizes: RunSizes | None = None

    def lines(self, steps: Sequence[tuple[int, Step]]) -> list[str]:
        """The calls of some steps, by their numbers, after the sizes that they share."""
        self._sizes = RunSizes(self._program.late_sizes) if self._keeps_sizes else None
        lines = [line for i, step in steps for line in self._step(i, step)]
        return [f"  {line}" for line in [*(self._sizes.lines if self._sizes else ()), *lines]]

    def _step(self, number: int, step: Step) -> list[str]:
        """A call, after what it needs of memory that could not be planned."""
        where = string(
            step.label
            + (f" {step.nodes[-1]!r}" if step.nodes and step.nodes[-1] not in step.label else "")
        )
        lines = []
        for buffer in (*step.reads, *step.writes):
            root = buffer.root()
            block = self._plan.late.get(root)
            if block is not None and root.first == number and root not in self._obtained:
                self._obtained.add(root)
                lines.append(self._obtain(f"f->late + {block}", root.bytes, where))
            if (
                buffer.kind == "output"
                and buffer.number in self._owned
                and buffer.number not in self._obtained
            ):
                self._obtained.add(buffer.number)
                _, dtype, shape = self._program.outputs[buffer.number]
                lines.append(
                    self._obtain(f"own + {buffer.number}", dims.product(shape) * dtype.bytes, where)
                )
        lines += [
            f"if (!context_reserve(c, {bytes_})) return fail(m, NO_MEMORY, {where});"
            for bytes_ in map(self._language.scratch, step.scratch)
        ]
        lines += ["if (cancelled(c)) return CANCELLED;", self._call(step, where)]
        return (
            self._recorded(self._program.number, number, where, lines) if self._recorded else lines
        )

    def _obtain(self, block: str, size: Dim, where: str) -> str:
        limit = f"{estimate_text(size)} < TOO_LARGE && " if isinstance(size, dims.Expr) else ""
        return (
            f"if (!({limit}obtain({block}, {self._size(size)}))) "
            f"return fail(m, NO_MEMORY, {where});"
        )

    def _call(self, step: Step, where: str) -> str:
        control = step.function.is_control
        arguments = ["m"] if control else [self._language.given, "d"]
        for argument, parameter in zip(step.arguments, step.function.parameters):
            if isinstance(argument, SizeResult):
                arguments.append(f"&d->{symbol_field(argument.symbol)}")
            elif isinstance(argument, Tensor):
                arguments.append(self._place(argument, self._language.pointer_type(parameter)))
            elif isinstance(argument, Number):
                arguments.append(self._language.literal(argument.value, argument.dtype))
            elif isinstance(argument, tuple):
                arguments.append(self._language.call_sizes(argument, self._size))
            else:
                arguments.append(self._size(argument))
        call = f"{self._names[self._language.text_of(step.function)]}({', '.join(arguments)})"
        statement = f"{call};"
        if step.checks or control:
            statement = f"if ((failed = {call}) != 0) return fail(m, failed, {where});"
        return f"{self._unless_empty(step)}{statement}  // {comment(_computed(step))}"

    def _unless_empty(self, step: Step) -> str:
        """The condition under which a step has something to write, where symbolic sizes leave that
        open.
        """
        open_ = [self._size(size) for size in step.open_sizes]
        return f"if ({' + '.join(open_)} > 0) " if open_ else ""

    def _size(self, size: Dim) -> str:
        """A size in the list of calls."""
        return size_text(size) if self._sizes is None else self._sizes.text(size)

    @property
    def _keeps_sizes(self) -> bool:
        """Whether sizes stay as they are while the calls run: bodies of control flow set theirs."""
        return self._program.number == 0 and not self._program.bodies

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
                named = ((t, self._language.element_type(t.dtype)) for t in tensors)
                first, second = (f"(void*)({self._place(t, f'{name}*')})" for t, name in named)
                return f"{self._size(size)} == 0 ? {first} : {second}"
            case "arena" if root in self._plan.late:
                return f"f->late[{self._plan.late[root]}].data"
            case "arena":
                return f"f->arena.data + at[{self._slots[id(root)]}]"
            case "weight":
                return f"m->weights + {buffer.position}L"
            case "block":
                return f"f->left[{buffer.number}].data"
            case "output" if buffer.number in self._owned:
                return f"own[{buffer.number}].data"
        return f"{'in' if buffer.kind == 'input' else 'out'}[{buffer.number}]"


def _computed(step: Step) -> str:
    """What a call computes, for the reader: its label and the nodes."""
    names = [name for name in step.nodes if name and name not in step.label]
    more = [f"{len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
    return step.label + (f": {', '.join([*names[:_MOST_NAMES], *more])}" if names else "")
