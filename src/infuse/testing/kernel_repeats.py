"""Kernels that a step calls again and again, each time for other rows of one result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from infuse.codegen.kernel_table import has_kernel
from infuse.codegen.program import Step
from infuse.ir.graph import Array, Value
from infuse.targets.cpu.emit.statements import KernelCall, Repeat
from infuse.targets.cpu.families.base import MEANINGS, Arguments
from infuse.testing.function_values import Inner, Pointer, Scope, scope_of
from infuse.testing.kernel_calls import KernelError, product_of
from infuse.testing.kernel_writes import Memory


def check_repeated(step: Step, values: Mapping[Value, Array], memory: Memory) -> int:
    """How many calls were done and agree with what the step's node means, if the step repeats one.

    KernelError where they give something else.
    """
    statements = step.function.statements
    repeated = [s for s in statements if isinstance(s, Repeat)]
    inside = [s for r in repeated for s in r.body if isinstance(s, KernelCall)]
    anchors = [n for n in step.sources if has_kernel(n.op.domain, n.kind)]
    if len(anchors) != 1 or len(repeated) != 1 or len(inside) != 1:
        return 0
    (node,), (call,) = anchors, inside
    expected = product_of(node, values) if call.kernel in MEANINGS else None
    if expected is None:
        return 0

    def elements(pointer: Pointer) -> Array:
        return memory.elements(pointer.tensor)[pointer.start :]

    result = np.full((int(np.prod(expected.shape[:-1])), expected.shape[-1]), np.nan)
    what = f"{call.kernel} in step {step.label} of {node.kind} node {node.name!r}"
    count = 0
    try:
        for each, names in scope_of(step, memory.number, elements, memory.sizes).run(statements):
            first, rows = _handed(each, names, memory.lanes)
            result[first : first + len(rows)] = rows
            count += 1
    except (IndexError, ValueError) as error:
        raise KernelError(f"{what} leaves its operands: {error}") from error
    if not np.array_equal(result, expected.reshape(result.shape)):
        raise KernelError(f"{what} is given other operands than those of the node")
    return count


def _handed(call: KernelCall, names: Scope, lanes: int) -> tuple[int, Array]:
    """What a call hands to its sink, and as which row of the result."""
    arguments = names.shown(call)
    result = MEANINGS[call.kernel](Arguments(None, (), (), (), call.template, lanes, arguments))
    sink: Any = arguments[-1]
    if result is None or not isinstance(sink, Inner):
        raise ValueError("no rows and place of rows")
    ((_, (_, first, *_)),) = sink.calls(acc=0, row=0, col=0, lanes=0)
    return first, result
