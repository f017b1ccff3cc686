"""What the graph needs to know of an operator, and the numbers of its nodes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from infuse.ir.types import Type


class _Serials:
    """Serial numbers of nodes, each given out once in this process."""

    def __init__(self) -> None:
        self._count = itertools.count()

    def __next__(self) -> int:
        return next(self._count)

    def reserve(self, last: int) -> None:
        """From now on, give out numbers after `last`, which came from elsewhere."""
        self._count = itertools.count(max(last + 1, next(self._count)))


SERIALS = _Serials()


@runtime_checkable
class Operator(Protocol):
    """What the graph needs to know of an operator: its name, its domain and its attributes.

    `node` is the `Node` that applies it.
    """

    @property
    def name(self) -> str: ...

    @property
    def domain(self) -> str: ...

    def attributes(self) -> Mapping[str, Any]:
        """Attribute values by name; hashable."""
        ...

    def infer_types(self, node: Any) -> Sequence[Type]:
        """Types of the outputs of `node`; ShapeError or TypeMismatchError when it is ill-typed."""
        ...

    def infer_node(self, node: Any) -> None:
        """Set types and contents of the outputs of `node`."""
        ...
