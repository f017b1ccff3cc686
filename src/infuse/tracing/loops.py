"""Loops and branches over items: bodies, states whose sizes vary, lists that begin empty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import TensorType, Type
from infuse.tracing.importer import Importer
from infuse.tracing.items import Elements, Item, alike, flat

Body = Callable[[Importer, list[Item]], list[Item]]
"""Makes results of operands, with an importer."""
_ATTEMPTS: Final = 4
"""How often a body is built until the types of its states hold for every round."""


def close(g: Importer, values: Sequence[Value]) -> None:
    """Let these be the outputs of a body."""
    for number, value in enumerate(values):
        g.output(f"output_{number}", g("Identity", value))


def truth(g: Importer, item: Item) -> Value:
    """A condition as one truth value; numbers hold unless they are zero."""
    if not isinstance(item, Value):
        raise ModelFileError("a condition is not a tensor")
    value = item if item.dtype.is_bool else g.cast(item, dtypes.bool_)
    return value if value.tensor.shape == () else g("Reshape", value, g.ints())


def branch(g: Importer, condition: Value, then: Body, other: Body, items: list[Item]) -> list[Item]:
    """The results of one body where a condition holds, else of another."""
    if condition.const is not None:
        return (then if bool(condition.const.reshape(())) else other)(g, items)
    bodies: dict[str, Importer] = {}
    results = []
    for name, body in (("then_branch", then), ("else_branch", other)):
        inner = bodies[name] = g.body(name)
        results.append(body(inner, items))
        close(inner, flat(results[-1]))
    if len(results[0]) != len(results[1]):
        raise ModelFileError("its branches have different numbers of results")
    if not results[0]:
        return []
    return alike(results[0], g.control(len(results[0]), "If", condition, bodies=bodies))


def repeat(g: Importer, start: list[Item], condition: Body, body: Body) -> list[Item]:
    """What a body makes of a state again and again, while a condition of it holds."""
    start = _begun(g, start, body)
    values = flat(start)
    types = [value.type for value in values]
    varying: set[tuple[int, int]] = set()
    for _ in range(_ATTEMPTS):
        inner = g.body("body")
        inner.typed_input("iteration", TensorType(dtypes.int64, ()))
        inner.typed_input("going", TensorType(dtypes.bool_, ()))
        states = [inner.typed_input(f"state_{i}", type) for i, type in enumerate(types)]
        results = body(inner, alike(start, states))
        _check(start, results)
        going = truth(inner, condition(inner, results)[0])
        close(inner, [going, *flat(results)])
        first = truth(g, condition(g, start)[0])
        made = g.control(len(values), "Loop", None, first, *values, bodies={"body": inner})
        changed = _changed(types, [value.type for value in states])
        if changed <= varying:
            return alike(start, made)
        # Sizes that a round changes are symbols now, which what was built does not know.
        varying |= changed
        types = [value.type for value in states]
        node = made[0].producer
        assert node is not None
        g.graph.remove(node)
    raise UnsupportedOperatorError("a loop whose states change ever more sizes is not supported")


def _changed(before: Sequence[Type], after: Sequence[Type]) -> set[tuple[int, int]]:
    """The states and axes whose sizes are others."""
    changed = set()
    for number, (old, new) in enumerate(zip(before, after)):
        shapes = [type.shape if isinstance(type, TensorType) else None for type in (old, new)]
        if old != new and (shapes[0] is None or shapes[1] is None):
            raise UnsupportedOperatorError(
                "a loop that changes the rank of its state is not supported"
            )
        pairs = zip(shapes[0] or (), shapes[1] or ())
        changed |= {(number, axis) for axis, (a, b) in enumerate(pairs) if a != b}
    return changed


def _check(before: Sequence[Item], after: Sequence[Item]) -> None:
    if len(before) != len(after):
        raise ModelFileError(f"its body makes {len(after)} of {len(before)} states")
    for old, new in zip(before, after):
        if type(old) is not type(new):
            raise ModelFileError("its body makes a state of another kind")


# -- lists that begin empty ------------------------------------------------------------------------


def _begun(g: Importer, start: list[Item], body: Body) -> list[Item]:
    """States in which lists have elements: zeros of the sizes that the body writes."""
    if not any(isinstance(item, Elements) and item.value is None for item in start):
        return start
    trial = g.body("trial")
    states: list[Item] = []
    for number, item in enumerate(start):
        if isinstance(item, Elements) and item.value is None:
            states.append(item)
        else:
            (value,) = flat([item])
            states += alike([item], [trial.typed_input(f"state_{number}", value.type)])
    results = body(trial, states)
    _check(start, results)
    others = [v for item in start if not _empty(item) for v in flat([item])]
    begun: list[Item] = []
    for item, result in zip(start, results):
        if isinstance(item, Elements) and item.value is None:
            assert isinstance(result, Elements)
            shape = item.shape if result.value is None else result.value.shape[1:]
            begun.append(item.of(zeros(g, item, shape, others)))
        else:
            begun.append(item)
    trial.graph.clear()
    return begun


def _empty(item: Item) -> bool:
    return isinstance(item, Elements) and item.value is None


def zeros(
    g: Importer, item: Elements, shape: Sequence[Dim | None] | None, others: Sequence[Value]
) -> Value:
    """The tensor of a list of zeros, whose elements have this shape; sizes that are symbols are
    read off other values.
    """
    if shape is None:
        raise UnsupportedOperatorError("a list of tensors of unknown rank is not supported")
    sizes = [_extent(g, size, others) for size in shape]
    count = item.count
    listed = g("Concat", g("Reshape", count, g.ints(1)), g.ints(*sizes), axis=0)
    zero = g.constant(np.zeros((), item.dtype.numpy))
    return g("Expand", zero, listed)


def _extent(g: Importer, size: Dim | None, others: Sequence[Value]) -> Any:
    if isinstance(size, int):
        return size
    for value in [*others, *g.graph.inputs]:
        shape = value.tensor.shape if isinstance(value.type, TensorType) else None
        for axis, other in enumerate(shape or ()):
            if size is not None and other == size:
                return g.size_of(value, axis)
    raise UnsupportedOperatorError(
        f"a list of tensors of a size ({size}) that only its elements tell is not supported"
    )
