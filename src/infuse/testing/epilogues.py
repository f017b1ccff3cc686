"""The elementwise work of a lowered program, done in NumPy as its data say: what is loaded where,
by which formulas, and where the result goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from infuse.codegen.program import Step
from infuse.codegen.tensors import Tensor
from infuse.ir.graph import Array
from infuse.targets.cpu.emit.elementwise import Elementwise, Place, Source
from infuse.targets.cpu.emit.statements import Define, MapCall, Statement
from infuse.testing.compare import is_near
from infuse.testing.formulas import interpret
from infuse.testing.function_values import scope_of
from infuse.testing.step_memory import Memory, strided


class EpilogueError(AssertionError):
    """Elementwise work does not make what its nodes mean, or leaves it elsewhere."""


def check_work(
    work: Elementwise,
    step: Step,
    start: Array | None,
    shape: tuple[int, int],
    memory: Memory,
    tolerance: float,
) -> None:
    """EpilogueError unless the work leaves the result of the step's nodes where that lies, or the
    part of it that it says that it makes.

    `start`: what the kernel hands over, rows × columns. `tolerance`: relative to the largest
    element.
    """
    value = step.sources[-1].output
    what = f"step {step.label} of {value.name!r}"
    try:
        target, places, elements = stored(work, step, start, shape, memory)
    except IndexError as error:
        raise EpilogueError(f"{what} reads outside of its operands: {error}") from error
    meant = memory.values[value].astype(target.dtype.numpy)
    if work.makes_part:
        whole = memory.places[value]
        places = places + memory.number(target.offset) - memory.number(whole.offset)
        target = whole
        memory.parts.setdefault(value, []).append(places.reshape(-1))
    expected, where = meant.reshape(-1), strided(target, memory.number).reshape(-1)
    if not _are_the_places(places, where, in_part=work.makes_part):
        raise EpilogueError(f"{what} leaves elements elsewhere than in its result")
    order = np.argsort(where, kind="stable")
    ours = order[np.searchsorted(where[order], places.reshape(-1))]
    result = elements.reshape(-1).astype(target.dtype.numpy)
    if not _near(result, expected[ours], tolerance):
        raise EpilogueError(f"{what} makes something else than its nodes mean")


def _are_the_places(places: Array, where: Array, *, in_part: bool) -> bool:
    """Whether elements were stored in all places of a result, or in some of it."""
    if in_part:
        return bool(np.isin(places, where).all())
    return bool(np.array_equal(np.sort(places, axis=None), np.sort(where)))


def _near(a: Array, b: Array, tolerance: float) -> bool:
    """Whether elements are equal up to a part of the largest one, or one unit of a type of 16 bits
    and fewer; whole numbers up to one, as they are rounded from floats that differ.
    """
    if a.dtype == np.bool_:
        return bool(np.mean(a != b) <= tolerance) if a.size else True
    if a.dtype.kind in "iu":
        return bool((np.abs(a.astype(np.float64) - b.astype(np.float64)) <= 1).all())
    if a.dtype.itemsize <= 2:
        step = float(ml_dtypes.finfo(a.dtype).eps)  # type: ignore[no-untyped-call]
        wide, other = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(invalid="ignore"):
            wide = np.where(np.abs(wide - other) <= step * np.abs(other), other, wide)
        return is_near(wide, other, tolerance)
    return is_near(a, b, tolerance)


def sink_of(step: Step, name: str) -> Elementwise | None:
    """The work that a function of this name inside of a step does; None without one."""
    for statement in step.function.statements:
        if isinstance(statement, Define) and statement.name == name:
            return _work(statement.body)
    return None


def mapped(step: Step) -> tuple[Elementwise, tuple[str, str]] | None:
    """The work of a step that does nothing else, and the names of its rows and columns."""
    for statement in step.function.statements:
        if isinstance(statement, MapCall):
            work, (rows, columns) = _work(statement.body), statement.arguments
            return None if work is None else (work, (rows, columns))
    return None


def _work(body: tuple[Statement, ...]) -> Elementwise | None:
    return next((s for s in body if isinstance(s, Elementwise)), None)


def stored(
    work: Elementwise, step: Step, start: Array | None, shape: tuple[int, int], memory: Memory
) -> tuple[Tensor, Array, Array]:
    """The tensor that work stores its result in, the places there from its first element on, and
    the elements, both flat.

    `start`: what the kernel hands over. IndexError where an operand is read outside of its memory.
    """
    assert work.target is not None
    names = scope_of(step, memory).names
    made: list[Array] = []
    rows, columns, inside = _handed(work, shape, memory)

    def value(source: Source) -> Array:
        if isinstance(source, int):
            return made[source]
        assert start is not None
        return start[inside]

    for definition in work.definitions:
        if isinstance(definition, Place):
            tensor = names[definition.pointer].tensor
            made.append(memory.elements(tensor)[_places(definition, names, rows, columns, memory)])
        else:
            leaves = {number: value(source) for number, source in definition.leaves.items()}
            operands = [leaves.get(i, np.zeros(())) for i in range(max(leaves, default=-1) + 1)]
            made.append(interpret(definition.term, operands))
    target = names[work.target.pointer].tensor
    places = _places(work.target, names, rows, columns, memory)
    return target, places, np.broadcast_to(value(work.result), places.shape)


def _handed(
    work: Elementwise, shape: tuple[int, int], memory: Memory
) -> tuple[Array, Array, Array]:
    """The rows and columns of the result that a kernel hands over, and which of its own they
    are.
    """
    if work.blocks is None:
        rows, columns = np.indices(shape)
        inside = np.ones(shape, bool)
    else:
        rows, columns, inside = work.blocks.places(*shape, memory.number)
    return rows[inside], columns[inside], inside


def _places(
    place: Place, names: Mapping[str, Any], rows: Array, columns: Array, memory: Memory
) -> Array:
    offsets = np.zeros_like(rows)
    for part in place.rows:
        index = rows // memory.number(part.below)
        if part.size is not None:
            index = index % memory.number(part.size)
        offsets = offsets + index * _step(part.stride, names)
    return np.asarray(offsets + columns * _step(place.column, names))


def _step(stride: str, names: Mapping[str, Any]) -> int:
    """A stride that is one, none, or what a name stands for."""
    size: int = {"1": 1, "": 0}[stride] if stride in ("1", "") else names[stride]
    return size
