"""Control flow of traced programs: what Python's if, while and for are outside of a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import TypeMismatchError
from infuse.frontends.arrays.array import Array, importer, lifted, source_line, tracing
from infuse.frontends.importer import Importer
from infuse.ir.types import TensorType

State = tuple[Any, ...]


def cond(
    predicate: Array,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:
    """What one of two functions returns for the operands, as the predicate says at run time. Both
    return as many arrays, of the same types; one array alone or a tuple.
    """
    g = importer()
    arrays = [lifted(operand) for operand in operands]
    bodies, results = {}, []
    for name, function in (("then_branch", if_true), ("else_branch", if_false)):
        body = g.body(name)
        with tracing(body):
            results.append(function(*arrays))
            _outputs(body, _listed(results[-1]))
        bodies[name] = body
    types = [[v.dtype for v in body.graph.outputs] for body in bodies.values()]
    if types[0] != types[1]:
        raise TypeMismatchError(
            f"one branch returns {_names(types[0])}, the other {_names(types[1])}",
            where=source_line(),
        )
    flag = lifted(predicate).astype(np.bool_).value
    with g.scope(source=source_line()):
        made = g.control(len(types[0]), "If", flag, bodies=bodies)
    return _like(results[0], [Array(value) for value in made])


def loop(
    condition: Callable[..., Any], body: Callable[..., Any], state: Sequence[Any]
) -> tuple[Array, ...]:
    """`while condition(*state): state = body(*state)`, at run time; the last state. Sizes of the
    state may change from round to round: the body is traced again where they do.
    """
    g = importer()
    first = [lifted(entry) for entry in state]

    def traced(types: list[TensorType]) -> tuple[Importer, list[Array]]:
        inner = g.body("body")
        inner.typed_input("number", TensorType(dtypes.int64, ()))
        inner.typed_input("going", TensorType(dtypes.bool_, ()))
        entries = _inputs(inner, types)
        with tracing(inner):
            after = [lifted(entry) for entry in _listed(body(*entries))]
            _same_types(first, after, "the body of a loop")
            _outputs(inner, [lifted(condition(*after)).astype(np.bool_), *after])
        return inner, after

    inner = _settled(g, first, traced)
    start = lifted(condition(*first)).astype(np.bool_)
    with g.scope(source=source_line()):
        values = [entry.value for entry in first]
        made = g.control(len(first), "Loop", None, start.value, *values, bodies={"body": inner})
    return tuple(Array(value) for value in made)


def scan(
    body: Callable[..., Any], state: Sequence[Any], sequences: Sequence[Array]
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """`body(state, entries)` for the entries of sequences along their first axes, one after the
    other; it returns the next state and what is put together. Gives the last state and these. Sizes
    of the state may change as those of a loop.
    """
    g = importer()
    first, rows = [lifted(entry) for entry in state], [lifted(s) for s in sequences]
    collected: list[Any] = []

    def traced(types: list[TensorType]) -> tuple[Importer, list[Array]]:
        inner = g.body("body")
        entries = _inputs(inner, types)
        parts = []
        for number, row in enumerate(rows):
            type = TensorType(row.value.dtype, row.value.shape[1:])
            parts.append(Array(inner.typed_input(f"entry_{number}", type)))
        with tracing(inner):
            after, together = body(tuple(entries), tuple(parts))
            collected[:] = _listed(together)
            arrays = [lifted(entry) for entry in _listed(after)]
            _same_types(first, arrays, "the body of a scan")
            _outputs(inner, [*arrays, *collected])
        return inner, arrays

    inner = _settled(g, first, traced)
    values = [array.value for array in (*first, *rows)]
    count = len(first) + len(collected)
    with g.scope(source=source_line()):
        made = g.control(count, "Scan", *values, bodies={"body": inner}, num_scan_inputs=len(rows))
    arrays = tuple(Array(value) for value in made)
    return arrays[: len(first)], arrays[len(first) :]


def _settled(
    g: Importer,
    first: Sequence[Array],
    traced: Callable[[list[TensorType]], tuple[Importer, list[Array]]],
) -> Importer:
    """The body of a loop on a state whose sizes are unknown where a round changes them; `traced`
    gives a body for a state of these types, and the state after it.
    """
    types = [entry.value.tensor for entry in first]
    unknown: set[tuple[int, int]] = set()
    while True:
        inner, after = traced(types)
        changed = {
            (number, axis)
            for number, (before, entry) in enumerate(zip(types, after))
            for axis, (size, new) in enumerate(_paired(before, entry.value.tensor))
            if size != new and (number, axis) not in unknown
        }
        if not changed:
            return inner
        for number, axis in sorted(changed):
            sizes = list(types[number].shape or ())
            sizes[axis] = g.sizes.unnamed(f"state_{number}", axis)
            types[number] = TensorType(types[number].dtype, tuple(sizes))
        unknown |= changed


def _paired(before: TensorType, after: TensorType) -> list[tuple[Any, Any]]:
    """The sizes of a state before and after a round; TypeMismatchError where its rank changes."""
    if before.shape is None or after.shape is None:
        return []
    if len(before.shape) != len(after.shape):
        raise TypeMismatchError(
            f"the body of a loop makes an array of {len(after.shape)} axes of one of "
            f"{len(before.shape)}",
            where=source_line(),
        )
    return list(zip(before.shape, after.shape))


def _inputs(inner: Importer, types: Sequence[TensorType]) -> list[Array]:
    """Inputs of a body for a state of these types."""
    entries = enumerate(types)
    return [Array(inner.typed_input(f"state_{number}", type)) for number, type in entries]


def _outputs(body: Importer, results: Sequence[Any]) -> None:
    for number, result in enumerate(results):
        value = lifted(result).value
        # What is around a body, and an input of it, becomes its result by a node.
        body.output(f"output_{number}", body("Identity", value))


def _same_types(before: Sequence[Array], after: Sequence[Any], what: str) -> None:
    old, new = [a.dtype for a in before], [lifted(a).dtype for a in after]
    if old != new:
        raise TypeMismatchError(
            f"{what} makes {_names(new)} of a state of {_names(old)}",
            where=source_line(),
            hint="use astype where types differ",
        )


def _names(types: Sequence[Any]) -> str:
    return ", ".join(map(str, types)) or "nothing"


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def _like(results: Any, arrays: list[Array]) -> Any:
    return tuple(arrays) if isinstance(results, (tuple, list)) else arrays[0]
