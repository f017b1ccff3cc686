"""Kernels that a step calls again and again, each time for other rows of one result."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.ir.graph import Array
from infuse.lowering.program import Step
from infuse.lowering.statements import KernelCall, Repeat
from infuse.targets.cpu.families.base import MEANINGS
from tests.support.function_values import Inner, Scope, scope_of
from tests.support.kernel_calls import (
    KernelError,
    anchor_of,
    check_sink,
    compare,
    described,
    expected_of,
)
from tests.support.step_memory import Memory


def check_repeated(step: Step, memory: Memory) -> int:
    """How many calls were done and agree with what the step's node means, if the step repeats one.

    KernelError where they give something else.
    """
    statements, node = step.function.statements, anchor_of(step)
    repeated = [s for s in statements if isinstance(s, Repeat)]
    inside = [s for r in repeated for s in r.body if isinstance(s, KernelCall)]
    if node is None or len(repeated) != 1 or len(inside) != 1 or inside[0].kernel not in MEANINGS:
        return 0
    (call,) = inside
    expected = expected_of(node, call, step, memory)
    if expected is None:
        return 0
    result = np.full((int(np.prod(expected.shape[:-1])), expected.shape[-1]), np.nan)
    count, sink = 0, ""
    try:
        for each, names in scope_of(step, memory).run(statements):
            sink, first, rows = _handed(each, names)
            result[first : first + len(rows)] = rows
            count += 1
    except (IndexError, ValueError) as error:
        raise KernelError(f"{described(call, step, node)} leaves its operands: {error}") from error
    compare(call, step, node, result, expected)
    check_sink(sink, call, step, result, memory)
    return count


def _handed(call: KernelCall, names: Scope) -> tuple[str, int, Array]:
    """What a call hands on, to which sink, and as which row of the result."""
    arguments = names.all_of(call)
    result = MEANINGS[call.kernel](arguments)
    inner: Any = arguments.arguments[-1]
    if result is None or not isinstance(inner, Inner):
        raise ValueError("no rows and place of rows")
    ((sink, (_, first, *_)),) = inner.calls(acc=0, row=0, col=0, lanes=0)
    return sink.kernel, first, result
