"""What nodes of MindIR make besides tensors: numbers, text, tuples, functions and monads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infuse import dtypes
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter

Item = Any
"""A value, a number, text, None, an element type, a list of items, or one of the classes here."""


class Monad:
    """What orders nodes with side effects; it has no elements."""


MONAD: Final = Monad()


@dataclass(frozen=True)
class Closure:
    """A graph with its first arguments, and the frame whose values it may read."""

    graph: str
    items: tuple[Item, ...]
    frame: Any


@dataclass(frozen=True)
class Choice:
    """One of two closures, as a condition says."""

    condition: Item
    holds: Closure
    fails: Closure


@dataclass(frozen=True)
class Again:
    """The next round of the loop that this graph is."""

    graph: str
    items: tuple[Item, ...]


_SCALARS: Final = {bool: dtypes.bool_, int: dtypes.int64, float: dtypes.float32}


def tensor(g: TorchImporter, item: Item) -> Value:
    """A tensor, or a number as one."""
    if isinstance(item, Value):
        return item
    dtype = _SCALARS.get(type(item))
    if dtype is None:
        raise ModelFileError(f"a tensor is needed where {describe(item)} is")
    return g.number(item, dtype)


def describe(item: Item) -> str:
    """What an item is, for errors."""
    if isinstance(item, list):
        return "a tuple"
    if isinstance(item, (Closure, Choice, Again)):
        return "a function"
    return "nothing" if item is None or item is MONAD else f"a {type(item).__name__}"


def leaves(g: TorchImporter, items: Sequence[Item]) -> list[Value]:
    """All tensors and numbers of these items, in order."""
    return [tensor(g, leaf) for item in items for leaf in _leaves(item)]


def _leaves(item: Item) -> Iterator[Item]:
    if isinstance(item, (list, tuple)):
        for part in item:
            yield from _leaves(part)
    elif isinstance(item, Value) or type(item) in _SCALARS:
        yield item
    elif isinstance(item, (Again, Closure)):
        yield from _leaves(item.items)
    elif isinstance(item, Choice):
        raise UnsupportedOperatorError("a choice of functions that is itself chosen")


def rebuilt(items: Sequence[Item], values: Sequence[Value]) -> list[Item]:
    """Items of this structure, with other tensors."""
    rest = iter(values)
    return [_rebuilt(item, rest) for item in items]


def _rebuilt(item: Item, values: Iterator[Value]) -> Item:
    if isinstance(item, (list, tuple)):
        return type(item)(_rebuilt(part, values) for part in item)
    if isinstance(item, Value) or type(item) in _SCALARS:
        return next(values)
    if isinstance(item, Again):
        return Again(item.graph, _rebuilt(item.items, values))
    if isinstance(item, Closure):
        return Closure(item.graph, _rebuilt(item.items, values), item.frame)
    return item


def structure(item: Item) -> Any:
    """What has to be the same of two items of which one is chosen."""
    if isinstance(item, (list, tuple)):
        return [structure(part) for part in item]
    if isinstance(item, Value) or type(item) in _SCALARS:
        return "tensor"
    if isinstance(item, (Again, Closure)):
        return [type(item).__name__, item.graph, structure(item.items)]
    return describe(item) if item is None or item is MONAD else item
