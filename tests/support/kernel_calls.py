"""The calls of kernels in a lowered program, done in NumPy by what their families mean.

What that shows is all that stands between a node and its kernel: how weights are packed, sizes,
strides, and where pointers begin, for any target.
"""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

import numpy as np

from infuse.immutable import replace
from infuse.ir.graph import Array, Node
from infuse.lowering.kernel_table import kernels_of
from infuse.lowering.program import Step
from infuse.lowering.statements import KernelCall, Work
from infuse.lowering.tensors import Tensor
from infuse.targets.cpu.families.base import FILES, MEANINGS, Arguments
from infuse.testing.compare import is_near
from tests.support.epilogues import Done, check_work, sink_of
from tests.support.function_values import Inner, apart, scope_of
from tests.support.kernel_results import Made, result_of
from tests.support.step_memory import Memory

FILES.import_all()
TOLERANCES = {
    "bf16(?!x2)": 4e-2,
    "Pairs": 4e-2,
    "fp16": 1e-2,
    "Halves": 1e-2,
    "nbits_rounded": 4e-2,
}
"""How far what a node means may be from what its kernel is given, relative to the largest element,
by a pattern of what the kernel or what it is specialized for is called after: bfloat16 has 8 bits,
halves have 11, rounded rows have 7 beside the largest element of a block, and transformed filters
are rounded after the transform.
"""
ROUNDING = 1e-4


class KernelError(AssertionError):
    """A kernel is called so that it does not compute its node."""


def check_calls(step: Step, memory: Memory) -> int:
    """How many calls of kernels that hand their results to a sink were done, and agree with what
    the step's nodes mean; and so does what the sink makes of them.

    KernelError where a call gives something else.
    """
    calls = [s for s in step.function.statements if isinstance(s, KernelCall)]
    node = anchor_of(step)
    if node is None or len(calls) != 1 or calls[0].kernel not in MEANINGS:
        return 0
    (call,) = calls
    *_, sink = apart(call)
    name = sink if isinstance(sink, str) else ""
    is_told = _tells_places(step, name)
    expected = None if is_told else expected_of(node, call, step, memory)
    if expected is None and not is_told:
        return 0
    try:
        each = scope_of(step, memory).run(step.function.statements)
        results = [
            MEANINGS[call.kernel](_with_rows(names.all_of(call), step, node, memory))
            for call, names in each
        ]
    except (IndexError, ValueError) as error:
        raise KernelError(f"{described(call, step, node)} leaves its operands: {error}") from error
    if not results or results[0] is None:
        return 0
    if expected is not None:
        compare(call, step, node, results[0], expected)
    check_sink(name, call, step, results[0], memory)
    return 1


def _tells_places(step: Step, sink: str) -> bool:
    """Whether the rows and columns of a kernel are not those of the result of its nodes."""
    work = sink_of(step, sink)
    return work is not None and (work.makes_part or work.blocks is not None)


def _with_rows(arguments: Arguments, step: Step, node: Node, memory: Memory) -> Arguments:
    """The arguments of a call, rows that elementwise work makes of the node's first operand in
    place of a function that gives them.

    EpilogueError where the work stores something else than its nodes mean.
    """
    value = node.input(0)
    assert value is not None
    sizes = [memory.number(size) for size in value.shape] or [1]
    shape = math.prod(sizes[:-1]), sizes[-1]

    def made(argument: Any) -> Any:
        inner = argument.define if isinstance(argument, Inner) else None
        work = inner.work if isinstance(inner, Work) else None
        if work is None or work.result is None:
            return argument
        check_work(work, step, None, shape, memory, ROUNDING)
        rows = Done(work, step, None, shape, memory).elements(work.result)
        return SimpleNamespace(type="Loader", items=(rows.reshape(-1), shape[1]))

    return replace(arguments, arguments=tuple(map(made, arguments.arguments)))


def anchor_of(step: Step) -> Node | None:
    """The node of a step that has a kernel, where there is just one."""
    kernels = kernels_of(None)
    anchors = [n for n in step.sources if kernels.has_kernel(n.op.domain, n.kind)]
    return anchors[0] if len(anchors) == 1 else None


def expected_of(node: Node, call: KernelCall, step: Step, memory: Memory) -> Array | None:
    """What a kernel hands on for a node, if that is stated and finite."""
    tensors = [a for a in step.arguments if isinstance(a, Tensor)]
    expected = result_of(Made(node, call.kernel, memory.values, tensors))
    return None if expected is None or not np.isfinite(expected).all() else expected


def described(call: KernelCall, step: Step, node: Node) -> str:
    """A call, for messages."""
    return f"{call.kernel} in step {step.label} of {node.kind} node {node.name!r}"


def compare(call: KernelCall, step: Step, node: Node, result: Array, expected: Array) -> None:
    """KernelError where a result is not what is expected."""
    if not _agree(result, expected, _tolerance(call)):
        what = described(call, step, node)
        raise KernelError(f"{what} is given other operands than those of the node")


def check_sink(name: str, call: KernelCall, step: Step, result: Array, memory: Memory) -> None:
    """EpilogueError where the sink of this name makes something else of a result."""
    work = sink_of(step, name)
    if work is not None and result.ndim == 2:
        check_work(work, step, result, result.shape, memory, _tolerance(call))


def _tolerance(call: KernelCall) -> float:
    text = " ".join((call.kernel, *call.template))
    return max((t for name, t in TOLERANCES.items() if re.search(name, text)), default=ROUNDING)


def _agree(result: Array, expected: Array, tolerance: float) -> bool:
    """Whether results agree; in rows of as many columns, unless there is one for each row or rows
    take in several.
    """
    if result.size != expected.size:
        return False
    columns, own = result.shape[-1:], expected.shape[-1:]
    if columns not in (own, (1,), ()) and (own == (0,) or columns[0] % math.prod(own)):
        return False
    return is_near(result.reshape(expected.shape), expected, tolerance)
