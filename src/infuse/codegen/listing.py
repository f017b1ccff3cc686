"""A lowered program as text: what is called with which tensors and sizes, and where these lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from infuse.codegen.memory import Plan
from infuse.codegen.program import Argument, Program, SizeResult, Step
from infuse.codegen.source import distinct
from infuse.codegen.tensors import Buffer, Tensor, natural
from infuse.ir.dims import Dim, Expr
from infuse.targets import Target

Names = Mapping[tuple[int, Dim], str]
"""Values by their buffers and the offsets in these."""


def listing(program: Program, plan: Plan, target: Target, threads: int) -> str:
    """The program and its bodies, steps first, then the functions that they call.

    A step names the nodes that it computes. A tensor is where it lies (`input 0`, `weights + 640`,
    `arena 3 at 4096`), its type, the order of its axes in memory unless that is the natural one,
    and its strides where elements are not side by side.
    """
    programs = list(zip((program, *program.bodies), (plan, *plan.bodies)))
    functions, names = distinct(step for one, _ in programs for step in one.steps)
    lines = [f"# {program.name} for {target.name}, {threads} thread{'s' * (threads != 1)}"]
    for one, own in programs:
        lines += _program(one, own, names)
    for function in functions:
        lines += ["", f"function {names[function.text()]}({', '.join(function.parameters)})"]
        lines += [f"  {line}" for line in function.lines]
    return "\n".join(lines) + "\n"


def _program(program: Program, plan: Plan, functions: Mapping[str, str]) -> Iterator[str]:
    yield f"body {program.number} {program.name}" if program.number else f"program {program.name}"
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
    names = {(id(t.buffer), t.offset): v.name for v, t in program.places.items() if v.name}
    for number, step in enumerate(program.steps):
        yield ""
        yield f"  step {number}: {step.label}{_nodes(step)}"
        yield f"    {functions[step.function.text()]}"
        for parameter, argument in zip(step.function.parameters, step.arguments, strict=True):
            yield f"      {parameter} = {_argument(argument, plan, names)}"


def _nodes(step: Step) -> str:
    nodes = list(dict.fromkeys(name for name in step.nodes if name))
    chosen = f", {step.choice.chosen} by {step.choice.by}" if step.choice and nodes else ""
    return f"  [{', '.join(nodes)}{chosen}]" if nodes else ""


def _argument(argument: Argument, plan: Plan, names: Names) -> str:
    if isinstance(argument, Tensor):
        return _tensor(argument, plan, names)
    if isinstance(argument, SizeResult):
        return f"the size {argument.symbol}"
    if isinstance(argument, (int, Expr)):
        return str(argument)
    fields = zip(argument._fields, argument, strict=True)  # type: ignore[attr-defined]
    return f"{type(argument).__name__}({', '.join(f'{name}={value}' for name, value in fields)})"


def _tensor(tensor: Tensor, plan: Plan, names: Names) -> str:
    value = names.get((id(tensor.buffer), tensor.offset))
    name = f"{value!r} " if value is not None else ""
    place = _place(tensor, plan)
    order = "" if tensor.order == natural(tensor.rank) else f" axes {_sizes(tensor.order)}"
    strides = "" if tensor.is_dense() else f" strides {_sizes(tensor.strides)}"
    return f"{name}{place}: {tensor.dtype}{_sizes(tensor.shape)}{order}{strides}"


def _place(tensor: Tensor, plan: Plan) -> str:
    """Where the first element of a tensor lies."""
    offset = f" + {tensor.offset}" if tensor.offset != 0 else ""
    if tensor.buffer.either is not None:
        size, direct, copy = tensor.buffer.either
        return f"({_place(direct, plan)} if {size} = 0, else {_place(copy, plan)}){offset}"
    return f"{_buffer(tensor.buffer, plan)}{offset}"


def _buffer(buffer: Buffer, plan: Plan) -> str:
    root = buffer.root()
    if root.kind == "weight":
        return f"weights at {root.position}"
    if root.kind != "arena":
        return f"{root.kind} {root.number}"
    if root in plan.late:
        return f"block {plan.late[root]}"
    at = "" if plan.offsets is None else f" at {plan.offsets[plan.slot(root)]}"
    return f"arena {root.number}{at}"


def _sizes(sizes: Sequence[object]) -> str:
    return f"[{', '.join(map(str, sizes))}]"
