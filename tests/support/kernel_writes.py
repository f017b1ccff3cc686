"""The calls of kernels that write to memory themselves, done there in NumPy by what their families
mean, one after another.

What that shows is the same as in `kernel_calls`; what a step packs or computes for another one is
there when that one is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Array
from infuse.lowering import statements as cpp
from infuse.lowering.program import Step
from infuse.lowering.statements import KernelCall, Statement
from infuse.targets.cpu.families.base import WRITINGS, Written
from infuse.testing.compare import is_near
from tests.support.function_values import Pointer, Scope, scope_of
from tests.support.kernel_calls import KernelError
from tests.support.step_memory import Memory

_ROUNDING = {dtypes.bfloat16: 4e-2, dtypes.float16: 4e-3, dtypes.float64: 1e-9}
"""How far elements may be from what a node means, relative to the largest one."""


_TELLING = cpp.Constant, cpp.Assign, cpp.Require
"""What a step consists of that does nothing but tell sizes."""


def is_stated(step: Step) -> bool:
    """Whether all that a step does is to tell sizes, and to call kernels of which it is stated what
    they write.
    """
    statements = step.function.statements
    called = _called(statements)
    if not called:
        return all(isinstance(statement, _TELLING) for statement in statements)
    return all(call.kernel in WRITINGS for call in called)


def _called(statements: list[Statement] | tuple[Statement, ...]) -> list[KernelCall]:
    calls = [s for s in statements if isinstance(s, KernelCall)]
    repeated = [s.body for s in statements if isinstance(s, cpp.Repeat)]
    return [*calls, *(call for body in repeated for call in _called(body))]


def perform(step: Step, memory: Memory) -> int | None:
    """Do the calls of a step that is stated; how many there were, None where one of them is in a
    form that is not, or there are none.

    KernelError where a call leaves its operands, or what it writes.
    """
    scope = scope_of(step, memory)
    count = 0
    for call, names in scope.run(step.function.statements):
        count += 1
        what = f"{call.kernel} in step {step.label} of {', '.join(step.nodes)}"
        try:
            written = WRITINGS[call.kernel](names.all_of(call))
            if written is None:
                return None
            for place, elements in written.items():
                if place == "result":
                    names.names[call.result] = int(np.asarray(elements))
                    continue
                _put(_target(call, names, place), elements, memory)
        except (IndexError, ValueError) as error:
            raise KernelError(f"{what} leaves its operands: {error}") from error
    _note(step, scope.told, memory)
    return count if _called(step.function.statements) else None


def _note(step: Step, told: Mapping[str, int], memory: Memory) -> None:
    """Keep the sizes that a step tells; KernelError where the graph has others."""
    for name, size in told.items():
        if memory.sizes.setdefault(name, size) != size:
            raise KernelError(f"step {step.label} tells {size} for {memory.sizes[name]}")


def _target(call: KernelCall, names: Scope, place: int | str) -> Pointer:
    arguments = names.arguments(call)
    struct = next((a for a in arguments if isinstance(a, SimpleNamespace)), None)
    pointer: Any = arguments[place] if isinstance(place, int) else getattr(struct, place)
    if not isinstance(pointer, Pointer) or not pointer.is_written:
        raise ValueError(f"argument {place} is not a place to write to")
    return pointer


def _put(pointer: Pointer, written: Written, memory: Memory) -> None:
    places, elements = written if isinstance(written, tuple) else (None, written)
    flat = elements.reshape(-1)
    at = np.arange(flat.size) if places is None else places.reshape(-1)
    memory.put(pointer.tensor, at + pointer.start, flat)


def agrees(actual: Array, expected: Array, dtype: dtypes.DType) -> bool:
    """Whether what kernels made is what a node means."""
    if actual.shape != expected.shape:
        return False
    if not dtype.is_float:
        return np.array_equal(actual, expected)
    return is_near(actual, expected, _ROUNDING.get(dtype, 1e-4))
