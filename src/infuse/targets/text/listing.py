"""A lowered program as text: what is called with which tensors and sizes, and where these lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from infuse.ir.dims import Expr
from infuse.lowering.memory import Plan
from infuse.lowering.program import Argument, Function, Number, Program, SizeResult, Step
from infuse.lowering.tensors import Buffer, Tensor, natural
from infuse.targets import Target
from infuse.targets.text.language import Language


def listing(
    program: Program,
    plan: Plan,
    target: Target,
    threads: int,
    functions: Mapping[str, Function],
    language: Language,
) -> str:
    """The program and its bodies, steps first, then the functions that they call, by name.

    A step names the nodes that it computes. A tensor is where it lies (`input 0`, `weights at 640`,
    `arena 3 at 4096`), its type, the order of its axes in memory unless that is the natural one,
    and its strides where elements are not side by side.
    """
    names = {language.text_of(function): name for name, function in functions.items()}
    lines = [f"# {program.name} for {target.name}, {threads} thread{'s' * (threads != 1)}"]
    lines += [f"# {remark}" for remark in target.remarks]
    for one, own in zip((program, *program.bodies), (plan, *plan.bodies)):
        lines += _Listing(one, own, names, language).lines()
    for name, function in functions.items():
        parameters = ", ".join(map(language.parameter_text, function.parameters))
        lines += ["", f"function {name}({parameters})"]
        lines += [f"  {line}" for line in language.body_of(function)]
    return "\n".join(lines) + "\n"


class _Listing:
    """One program as text. `functions`: the names of functions by their text."""

    def __init__(
        self, program: Program, plan: Plan, functions: Mapping[str, str], language: Language
    ) -> None:
        self.program, self.plan, self.functions = program, plan, functions
        self.language = language
        self.offsets = dict(zip(plan.buffers, plan.offsets or ()))
        places = program.places.items()
        self.names = {(t.buffer, t.offset): v.name for v, t in places if v.name}

    def lines(self) -> Iterator[str]:
        """What the program takes and gives, then its steps."""
        program, plan = self.program, self.plan
        number = program.number
        yield f"body {number} {program.name}" if number else f"program {program.name}"
        if program.symbols:
            yield f"  sizes {', '.join(program.symbols)}"
        if program.late_sizes:
            yield f"  sizes of results {', '.join(program.late_sizes)}"
        for kind, entries in (("input", program.inputs), ("output", program.outputs)):
            for number, (name, dtype, shape) in enumerate(entries):
                yield f"  {kind} {number} {name!r}: {dtype}{_sizes(shape)}"
        for _, message in program.checks:
            yield f"  check {message}"
        place = "planned at run time" if plan.offsets is None else f"{plan.total:,} bytes"
        yield f"  arena {place}, weights {program.weights.bytes:,} bytes"
        for number, step in enumerate(program.steps):
            yield from self._step(number, step)

    def _step(self, number: int, step: Step) -> Iterator[str]:
        nodes = list(dict.fromkeys(name for name in step.nodes if name))
        chosen = f", {step.choice.chosen} by {step.choice.by}" if step.choice and nodes else ""
        yield ""
        yield f"  step {number}: {step.label}" + (
            f"  [{', '.join(nodes)}{chosen}]" if nodes else ""
        )
        yield f"    {self.functions[self.language.text_of(step.function)]}"
        for parameter, argument in zip(step.function.parameters, step.arguments, strict=True):
            yield f"      {self.language.parameter_text(parameter)} = {self._argument(argument)}"

    def _argument(self, argument: Argument) -> str:
        if isinstance(argument, Tensor):
            return self._tensor(argument)
        if isinstance(argument, SizeResult):
            return f"the size {argument.symbol}"
        if isinstance(argument, Number):
            return f"{argument.value:g}"
        if isinstance(argument, (int, Expr)):
            return str(argument)
        return self.language.call_sizes(argument, str)

    def _tensor(self, tensor: Tensor) -> str:
        value = self.names.get((tensor.buffer, tensor.offset))
        name = f"{value!r} " if value is not None else ""
        order = "" if tensor.order == natural(tensor.rank) else f" axes {_sizes(tensor.order)}"
        strides = "" if tensor.is_dense() else f" strides {_sizes(tensor.strides)}"
        place = self._place(tensor)
        return f"{name}{place}: {tensor.dtype}{_sizes(tensor.shape)}{order}{strides}"

    def _place(self, tensor: Tensor) -> str:
        """Where the first element of a tensor lies."""
        offset = f" + {tensor.offset}" if tensor.offset != 0 else ""
        if tensor.buffer.either is not None:
            size, direct, copy = tensor.buffer.either
            places = f"{self._place(direct)} if {size} = 0, else {self._place(copy)}"
            return f"({places}){offset}"
        return f"{self._buffer(tensor.buffer)}{offset}"

    def _buffer(self, buffer: Buffer) -> str:
        root = buffer.root()
        if root.kind == "weight":
            return f"weights at {root.position}"
        if root.kind != "arena":
            return f"{root.kind} {root.number}"
        if root in self.plan.late:
            return f"block {self.plan.late[root]}"
        at = f" at {self.offsets[root]}" if root in self.offsets else ""
        return f"arena {root.number}{at}"


def _sizes(sizes: Sequence[object]) -> str:
    return f"[{', '.join(map(str, sizes))}]"
