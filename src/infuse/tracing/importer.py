"""What the readers of all formats build graphs with: named inputs and outputs, constants, calls of
operators inside scopes, bodies of control flow, and one error for all operators that are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import add, mul, sub
from typing import Any, Final, TypeVar

import numpy as np

from infuse.budgets import check_time, spend
from infuse.dtypes import DType, int64
from infuse.errors import GraphError, InfuseError, UnsupportedOperatorError
from infuse.ir.dims import Dim
from infuse.ir.graph import Array, Graph, Node, Value, constant
from infuse.ir.operator import Operator
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN, TensorType, Type
from infuse.ops.core.building import GraphBuilder
from infuse.tracing.sizes import Sizes

Self = TypeVar("Self", bound="Importer")
Entry = TypeVar("Entry")

_CALCULATED: Final[Mapping[str, Callable[[int, int], int]]] = {
    "Add": add,
    "Sub": sub,
    "Mul": mul,
    "Max": max,
    "Min": min,
}
_LISTED = 20
"""Missing operators that an error names."""


class Importer(GraphBuilder):
    """Builds the graph of one foreign model; a body of control flow has an importer of its own.

    Calls add nodes of the newest form of ONNX's operators, whose types are inferred at once:
    `y = importer("Conv", x, weight, bias, strides=(2, 2))`. Nodes are named after the scopes they
    are made in, and errors say where in the foreign model they arose.
    """

    def __init__(self, name: str, sizes: Sizes | None = None) -> None:
        super().__init__(Graph(name or "graph"))
        self.sizes = sizes or Sizes()
        self._scope: tuple[str, ...] = ()
        self._source = ""
        self._numbers: Counter[str] = Counter()
        self._calls = 0

    # -- inputs, outputs, constants ----------------------------------------------------------------

    def input(
        self, name: str, dtype: DType, shape: Sequence[int | str | Dim | None] | None
    ) -> Value:
        """A new input; a size that is text is a symbol of that name, None an unknown one of its
        own.
        """
        if any(value.name == name for value in self.graph.inputs):
            raise GraphError(f"two inputs are called {name!r}")
        sizes: tuple[Dim, ...] | None = None
        if shape is not None:
            sizes = tuple(
                self.sizes.unnamed(name, axis)
                if size is None
                else self.sizes.named(size)
                if isinstance(size, str)
                else size
                for axis, size in enumerate(shape)
            )
        return self.graph.add_input(name, TensorType(dtype, sizes))

    def typed_input(self, name: str, type: Type) -> Value:
        """A new input of a body, of the type of what it is given."""
        return self.graph.add_input(name, type)

    def output(self, name: str, value: Value) -> None:
        """Let `value` be the next output; a value may be several outputs."""
        if name in self.graph.output_names:
            raise GraphError(f"two outputs are called {name!r}")
        self.graph.add_output(value, name)

    def constant(self, elements: Any, name: str = "", dtype: DType | None = None) -> Value:
        """A constant; arrays are not copied, so that mapped weights stay in their file."""
        return constant(np.asarray(elements), name, dtype=dtype)

    # -- nodes -------------------------------------------------------------------------------------

    def apply(
        self,
        op: Operator,
        inputs: Sequence[Value | None],
        count: int = 1,
        bodies: Mapping[str, Graph] | None = None,
    ) -> list[Value]:
        """The outputs of a new node with this operator, and these bodies."""
        self._calls += 1
        if not self._calls & 1023:
            check_time("reading the model")
            spend("nodes", self._calls, "the model has")
        prefix = "/".join((*self._scope, op.name))
        name = f"{prefix}_{self._numbers[prefix]}" if self._numbers[prefix] else prefix
        self._numbers[prefix] += 1
        outputs = [Value(UNKNOWN, f"{name}:{i}" if i else name) for i in range(count)]
        node = Node(op, inputs, outputs, name=name, subgraphs=bodies)
        if self._source:
            node.metadata["source"] = self._source
        self.graph.add_node(node)
        op.infer_node(node)
        return outputs

    def control(
        self,
        count: int,
        kind: str,
        *inputs: Value | None,
        bodies: Mapping[str, Importer],
        **attributes: Any,
    ) -> list[Value]:
        """All `count` outputs of an If, Loop or Scan, whose bodies came from `body`."""
        graphs = {name: importer.graph for name, importer in bodies.items()}
        return self.apply(make_operator("", kind, attributes), inputs, count, graphs)

    def body(self: Self, name: str) -> Self:
        """The importer of a graph inside, of the same class, whose nodes may read values of this
        one.
        """
        inner = type(self)(name, self.sizes)
        inner._scope, inner._source = (*self._scope, name), self._source
        return inner

    @contextmanager
    def scope(self, *names: str, source: str = "") -> Iterator[None]:
        """Within, nodes are made for what the foreign model calls so (a module's path, say), from
        this line of its source; errors say so.
        """
        before = self._scope, self._source
        self._scope = (*self._scope, *filter(None, names))
        self._source = source or self._source
        try:
            yield
        except InfuseError as error:
            place = "/".join(filter(None, names))
            if place or source:
                error.within(f"{place} ({source})" if place and source else place or source)
            raise
        finally:
            self._scope, self._source = before

    # -- sizes and numbers at run time -------------------------------------------------------------

    def ints(self, *values: int | Dim | Value) -> Value:
        """A list of int64 numbers; scalars that are computed are put into it by nodes."""
        if all(isinstance(value, int) for value in values):
            return constant(np.array(values, np.int64))
        parts = [
            self("Reshape", value, self.ints(1))
            if isinstance(value, Value)
            else constant(np.array([value], np.int64))
            for value in values
        ]
        return parts[0] if len(parts) == 1 else self("Concat", *parts, axis=0)

    def size_of(self, value: Value, axis: int) -> int | Value:
        """A size of a tensor: an int, or a scalar int64 that a node reads off the tensor."""
        axis = axis % value.rank if value.rank else axis
        size = value.shape[axis]
        if isinstance(size, int):
            return size
        listed = self("Shape", value, start=axis, end=axis + 1)
        return self("Squeeze", listed, self.ints(0))

    def calculated(self, kind: str, a: int | Value, b: int | Value) -> Any:
        """A sum, difference, product … of whole numbers, some of which nodes compute."""
        if isinstance(a, int) and isinstance(b, int):
            return _CALCULATED[kind](a, b)
        values = (x if isinstance(x, Value) else self.number(x, int64) for x in (a, b))
        return self(kind, *(self.cast(value, int64) for value in values))


def free_name(name: str, used: Container[str]) -> str:
    """A name, with a number behind it where it is used already."""
    if name not in used:
        return name
    count = 2
    while f"{name}_{count}" in used:
        count += 1
    return f"{name}_{count}"


def registered(table: dict[str, Any], names: Iterable[str]) -> Callable[[Entry], Entry]:
    """A decorator that puts what it is given into a reader's table under these names, each once."""

    def register(entry: Entry) -> Entry:
        for name in names:
            assert name not in table, f"{name} has two entries"
            table[name] = entry
        return entry

    return register


def require_all(
    calls: Iterable[tuple[str, str]], table: Container[str], what: str, hint: str
) -> None:
    """UnsupportedOperatorError that names all operators of `calls` (their names, and where they
    are called) that are not in a reader's table, how often each is called, and where first.
    """
    counts: Counter[str] = Counter()
    places: dict[str, str] = {}
    for name, place in calls:
        if name not in table:
            counts[name] += 1
            places.setdefault(name, place)
    if not counts:
        return
    listed = [
        f"{name} ({count} ×{', first at ' + places[name] if places[name] else ''})"
        for name, count in counts.most_common(_LISTED)
    ]
    more = f", and {len(counts) - _LISTED} more" if len(counts) > _LISTED else ""
    number = "an operator" if len(counts) == 1 else f"{len(counts)} operators"
    raise UnsupportedOperatorError(
        f"{what} has {number} that Infuse does not know: {', '.join(listed)}{more}", hint=hint
    )


__all__ = ["Array", "Importer", "free_name", "registered", "require_all"]
