"""Control flow of traced programs: what Python's if, while and for are outside of a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import TypeMismatchError
from infuse.ir.types import TensorType
from infuse.tracing.arrays.array import Array, Complex, importer, lifted, source_line, tracing
from infuse.tracing.importer import Importer

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
    bodies, results, types = {}, [], []
    for name, function in (("then_branch", if_true), ("else_branch", if_false)):
        body = g.body(name)
        with tracing(body):
            results.append(function(*arrays))
            made = [lifted(result) for result in _listed(results[-1])]
            types.append([array.dtype for array in made])
            _outputs(body, _parts(made))
        bodies[name] = body
    if types[0] != types[1]:
        raise TypeMismatchError(
            f"one branch returns {_names(types[0])}, the other {_names(types[1])}",
            where=source_line(),
        )
    flag = lifted(predicate).astype(np.bool_).value
    with g.scope(source=source_line()):
        values = g.control(len(body.graph.outputs), "If", flag, bodies=bodies)
    return _like(results[0], _joined(types[0], [Array(value) for value in values]))


def loop(
    condition: Callable[..., Any], body: Callable[..., Any], state: Sequence[Any]
) -> tuple[Array, ...]:
    """`while condition(*state): state = body(*state)`, at run time; the last state. Sizes of the
    state may change from round to round: the body is traced again where they do.
    """
    g = importer()
    first = [lifted(entry) for entry in state]
    types = [entry.dtype for entry in first]

    def traced(sizes: list[TensorType]) -> tuple[Importer, list[Array]]:
        inner = g.body("body")
        inner.typed_input("number", TensorType(dtypes.int64, ()))
        inner.typed_input("going", TensorType(dtypes.bool_, ()))
        entries = _joined(types, _inputs(inner, sizes))
        with tracing(inner):
            after = [lifted(entry) for entry in _listed(body(*entries))]
            _same_types(first, after, "the body of a loop")
            going_on = lifted(condition(*after)).astype(np.bool_)
            _outputs(inner, [going_on, *_parts(after)])
        return inner, _parts(after)

    inner = _settled(g, _parts(first), traced)
    start = lifted(condition(*first)).astype(np.bool_)
    with g.scope(source=source_line()):
        values = [entry.value for entry in _parts(first)]
        made = g.control(len(values), "Loop", None, start.value, *values, bodies={"body": inner})
    return tuple(_joined(types, [Array(value) for value in made]))


def scan(
    body: Callable[..., Any], state: Sequence[Any], sequences: Sequence[Array]
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """`body(state, entries)` for the entries of sequences along their first axes, one after the
    other; it returns the next state and what is put together. Gives the last state and these. Sizes
    of the state may change as those of a loop.
    """
    g = importer()
    first, rows = [lifted(entry) for entry in state], [lifted(s) for s in sequences]
    scanned, collected = _parts(rows), list[Array]()

    def traced(sizes: list[TensorType]) -> tuple[Importer, list[Array]]:
        inner = g.body("body")
        entries = _joined([entry.dtype for entry in first], _inputs(inner, sizes))
        parts = []
        for number, row in enumerate(scanned):
            type = TensorType(row.value.dtype, row.value.shape[1:])
            parts.append(Array(inner.typed_input(f"entry_{number}", type)))
        with tracing(inner):
            entry = tuple(_joined([row.dtype for row in rows], parts))
            after, together = body(tuple(entries), entry)
            arrays = [lifted(array) for array in _listed(after)]
            collected[:] = [lifted(array) for array in _listed(together)]
            _same_types(first, arrays, "the body of a scan")
            _outputs(inner, _parts([*arrays, *collected]))
        return inner, _parts(arrays)

    inner = _settled(g, _parts(first), traced)
    values = [array.value for array in (*_parts(first), *scanned)]
    count, width = len(inner.graph.outputs), len(scanned)
    with g.scope(source=source_line()):
        made = g.control(count, "Scan", *values, bodies={"body": inner}, num_scan_inputs=width)
    types = [array.dtype for array in (*first, *collected)]
    arrays = tuple(_joined(types, [Array(value) for value in made]))
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


def _parts(arrays: Iterable[Array]) -> list[Array]:
    """Arrays with complex ones as their parts, one behind the other."""
    result = []
    for array in arrays:
        if isinstance(array, Complex):
            result += [array.real_part, array.imag_part]
        else:
            result.append(array)
    return result


def _joined(types: Sequence[np.dtype[Any]], parts: Sequence[Array]) -> list[Array]:
    """Arrays of these types from such parts."""
    left = iter(parts)
    return [Complex(next(left), next(left)) if t.kind == "c" else next(left) for t in types]


def _outputs(body: Importer, results: Sequence[Array]) -> None:
    for number, result in enumerate(results):
        # What is around a body, and an input of it, becomes its result by a node.
        body.output(f"output_{number}", body("Identity", result.value))


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
