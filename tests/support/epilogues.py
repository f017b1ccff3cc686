"""The elementwise work of a lowered program, done in NumPy as its data say: what is loaded where,
by which formulas, and where the results go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from infuse.ir.graph import Array, Value
from infuse.lowering.elementwise import Applied, Elementwise, Place, Scalar, Source
from infuse.lowering.program import Step
from infuse.lowering.statements import MapWork, Work
from infuse.lowering.tensors import Tensor
from infuse.testing.compare import is_near
from tests.support.formulas import interpret
from tests.support.function_values import scope_of
from tests.support.step_memory import Memory, strided


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
    """EpilogueError unless the work leaves what it stores of the results of the step's nodes where
    these lie, or the parts of them that it says that it makes.

    `start`: what the kernel hands over, rows × columns. `tolerance`: relative to the largest
    element.
    """
    what = f"step {step.label} of {step.sources[-1].output.name!r}"
    try:
        done = Done(work, step, start, shape, memory)
        stored = [(*done.place(store.place), done.elements(store.source)) for store in work.stores]
    except IndexError as error:
        raise EpilogueError(f"{what} reads outside of its operands: {error}") from error
    made = [value for node in step.sources for value in node.outputs]
    for target, places, elements in stored:
        value = _stored_value(target, made, memory, in_part=work.makes_part)
        if value is None:
            raise EpilogueError(f"{what} stores what none of its nodes makes")
        whole = memory.places[value]
        if work.makes_part:
            places = places + memory.number(target.offset) - memory.number(whole.offset)
            memory.parts.setdefault(value, []).append(places)
        where = strided(whole, memory.number).reshape(-1)
        if not _are_the_places(places, where, in_part=work.makes_part):
            raise EpilogueError(f"{what} leaves elements elsewhere than in its result")
        order = np.argsort(where, kind="stable")
        ours = order[np.searchsorted(where[order], places)]
        expected = memory.values[value].astype(target.dtype.numpy).reshape(-1)[ours]
        if not _near(elements.astype(target.dtype.numpy), expected, tolerance):
            raise EpilogueError(f"{what} makes something else than its nodes mean")


def _stored_value(
    target: Tensor, made: Sequence[Value], memory: Memory, *, in_part: bool
) -> Value | None:
    """The last value that lies in a tensor, or of which that is a part."""
    for value in reversed(made):
        place = memory.places.get(value)
        if place is not None and (
            place == target
            or (in_part and place.buffer is target.buffer and place.dtype == target.dtype)
        ):
            return value
    return None


def _are_the_places(places: Array, where: Array, *, in_part: bool) -> bool:
    """Whether elements were stored in all places of a result, or in some of it."""
    if in_part:
        return bool(np.isin(places, where).all())
    return bool(np.array_equal(np.sort(places), np.sort(where)))


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
        if isinstance(statement, Work) and statement.name == name:
            return statement.work
    return None


def mapped(step: Step) -> tuple[Elementwise, tuple[str, str]] | None:
    """The work of a step that does nothing else, and the names of its rows and columns."""
    for statement in step.function.statements:
        if isinstance(statement, MapWork):
            return statement.work, (statement.rows, statement.columns)
    return None


class Done:
    """Work done on rows × columns, of which it gives flat arrays. `start`: what the kernel hands
    over.

    IndexError where an operand is read outside of its memory.
    """

    def __init__(
        self,
        work: Elementwise,
        step: Step,
        start: Array | None,
        shape: tuple[int, int],
        memory: Memory,
    ) -> None:
        self._start = start
        self._rows, self._columns, self._inside = _handed(work, shape, memory)
        self._names = scope_of(step, memory).names
        self._made: list[Array] = []
        for definition in work.definitions:
            if isinstance(definition, Place):
                tensor, places = self.place(definition)
                self._made.append(memory.take(tensor, places))
            elif isinstance(definition, Scalar):
                self._made.append(np.asarray(self._names[definition.name]))
            else:
                self._made.append(self._applied(definition))

    def _applied(self, definition: Applied) -> Array:
        leaves = {number: self._value(source) for number, source in definition.leaves.items()}
        operands = [leaves.get(i, np.zeros(())) for i in range(max(leaves, default=-1) + 1)]
        return interpret(definition.term, operands)

    def _value(self, source: Source) -> Array:
        if isinstance(source, int):
            return self._made[source]
        assert self._start is not None
        return np.asarray(self._start[self._inside])

    def elements(self, source: Source) -> Array:
        """What a definition gives."""
        return np.broadcast_to(self._value(source), self._rows.shape)

    def place(self, place: Place) -> tuple[Tensor, Array]:
        """A tensor, and the places in it from its first element on."""
        names = self._names
        offsets = np.zeros_like(self._rows)
        for part in place.rows:
            index = self._rows // _divisor(part.below, names)
            if part.size is not None:
                index = index % _divisor(part.size, names)
            offsets = offsets + index * _step(part.stride, names)
        places = offsets + self._columns * _step(place.column, names)
        return names[place.pointer].tensor, np.asarray(places)


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


def _divisor(size: int | str, names: Mapping[str, Any]) -> int:
    """A number, or what a name stands for."""
    number: int = names[size] if isinstance(size, str) else size
    return number


def _step(stride: str, names: Mapping[str, Any]) -> int:
    """A stride that is one, none, or what a name stands for."""
    size: int = {"1": 1, "": 0}[stride] if stride in ("1", "") else names[stride]
    return size
