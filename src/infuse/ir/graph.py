"""The graph: values and nodes with explicit use-def edges, made of objects and never of names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import GraphError
from infuse.ir.expression import Expression
from infuse.ir.html import network
from infuse.ir.operator import SERIALS, Operator
from infuse.ir.ordering import topological_order
from infuse.ir.types import Shape, StateType, TensorType, Type, UnknownRank

Array = npt.NDArray[Any]


class Use(NamedTuple):
    """One place where a value is read: input `index` of a node, or output `index` of a graph."""

    user: Node | Graph
    index: int  # type: ignore[assignment]


_use: Callable[[tuple[Any, int]], Use] = partial(tuple.__new__, Use)
"""A use, without the detour by keywords."""


class Value(Expression):
    """A tensor (or sequence) that flows: made by a node, fed from outside, or constant.

    `const` holds the elements of a constant. `content` holds what is known of the elements of a
    small integer tensor, as an object array of dimensions: that is how symbolic sizes travel
    through shape arithmetic. `default` holds the elements of an input that need not be given.
    """

    __slots__ = ("const", "content", "default", "index", "name", "producer", "type", "uses")

    def __init__(self, type: Type, name: str = "", const: Array | None = None) -> None:
        self.type = type
        self.name = name
        self.const = const
        self.content: Array | None = None
        self.default: Array | None = None
        self.producer: Node | None = None
        self.index = 0
        self.uses: dict[Use, None] = {}

    @property
    def tensor(self) -> TensorType:
        """The tensor type, also of a state; GraphError for a sequence or optional."""
        if isinstance(self.type, StateType):
            return self.type.element
        if not isinstance(self.type, TensorType):
            raise GraphError(f"value {self.name!r} is a {self.type} where a tensor is needed")
        return self.type

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    @property
    def shape(self) -> Shape:
        """The shape; UnknownRank when not even the rank is known."""
        shape = self.tensor.shape
        if shape is None:
            raise UnknownRank(f"the rank of value {self.name!r} is not known")
        return shape

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_const(self) -> bool:
        return self.const is not None

    @property
    def is_graph_output(self) -> bool:
        return any(isinstance(use.user, Graph) for use in self.uses)

    def users(self) -> Iterator[Node]:
        """The nodes that read this value, each once, in the order in which they came."""
        users = [user for user, _ in self.uses if isinstance(user, Node)]
        return iter(users if len(users) < 2 else dict.fromkeys(users))

    def replace_by(self, other: Value) -> None:
        """Let everyone who reads this value read `other`."""
        for use in list(self.uses):
            self.move_use(use, other)

    def move_use(self, use: Use, other: Value) -> None:
        """Let `other` be read where this value is, at one of its uses."""
        user, index = use
        if isinstance(user, Node):
            user.inputs[index] = other
            if user.graph is not None:
                user.graph.reorder()
        else:
            user.outputs[index] = other
            user.reorder()
        del self.uses[use]
        other.uses[use] = None

    def __reduce__(self) -> Any:
        raise _not_alone(f"value {self.name!r}")

    def __repr__(self) -> str:
        return f"%{self.name or id(self)}: {self.type}"


class Node:
    """One operation. Bodies of control flow are `subgraphs`; they may read values of the graphs
    around them.

    `serial` is a number that no other node of the process has, but for its copies in clones of its
    graph.
    """

    __slots__ = (
        "doc",
        "graph",
        "inputs",
        "metadata",
        "name",
        "op",
        "origin",
        "outputs",
        "serial",
        "subgraphs",
    )

    def __init__(
        self,
        op: Operator,
        inputs: Iterable[Value | None],
        outputs: Iterable[Value],
        *,
        name: str = "",
        origin: tuple[str, ...] = (),
        subgraphs: Mapping[str, Graph] | None = None,
    ) -> None:
        self.op = op
        self.serial = next(SERIALS)
        self.name = name
        self.origin = origin or ((name,) if name else ())
        self.doc = ""
        self.metadata: dict[str, str] = {}
        self.graph: Graph | None = None
        self.inputs: list[Value | None] = []
        self.outputs = list(outputs)
        self.subgraphs = dict(subgraphs or {})
        for index, value in enumerate(self.outputs):
            value.producer, value.index = self, index
        for body in self.subgraphs.values():
            body.parent = self
        self.set_inputs(inputs)

    @property
    def is_read(self) -> bool:
        """Whether anybody reads a result."""
        outputs = self.outputs
        return bool(outputs[0].uses) if len(outputs) == 1 else any(v.uses for v in outputs)

    @property
    def kind(self) -> str:
        """The operator's name."""
        return self.op.name

    @property
    def output(self) -> Value:
        """The only (or first) output."""
        return self.outputs[0]

    def input(self, index: int) -> Value | None:
        """Input `index`, None when it is absent."""
        return self.inputs[index] if index < len(self.inputs) else None

    def set_operand(self, index: int, value: Value | None) -> None:
        old = self.inputs[index]
        use = _use((self, index))
        if old is not None:
            old.uses.pop(use, None)
        self.inputs[index] = value
        if value is not None:
            value.uses[use] = None
        if self.graph is not None:
            self.graph.reorder()

    def set_inputs(self, values: Iterable[Value | None]) -> None:
        """Read these values from now on; absent ones at the end are dropped."""
        for index, old in enumerate(self.inputs):
            if old is not None:
                old.uses.pop(_use((self, index)), None)
        self.inputs = inputs = list(values)
        while inputs and inputs[-1] is None:
            inputs.pop()
        for index, value in enumerate(inputs):
            if value is not None:
                value.uses[_use((self, index))] = None
        if self.graph is not None:
            self.graph.reorder()

    def copied(
        self,
        inputs: list[Value | None],
        outputs: list[Value],
        subgraphs: Mapping[str, Graph],
    ) -> Node:
        """A node with all that this one has, its serial number too, but for the values."""
        copy = Node.__new__(Node)
        copy.op, copy.serial, copy.graph = self.op, self.serial, None
        copy.name, copy.origin, copy.doc = self.name, self.origin, self.doc
        copy.metadata, copy.subgraphs = dict(self.metadata), dict(subgraphs)
        copy.inputs, copy.outputs = inputs, outputs
        for index, value in enumerate(outputs):
            value.producer, value.index = copy, index
        for index, operand in enumerate(inputs):
            if operand is not None:
                operand.uses[_use((copy, index))] = None
        for body in subgraphs.values():
            body.parent = copy
        return copy

    def renumber(self) -> None:
        """Give the node a serial number of its own, in place of that of what it is a copy of or
        stands for.
        """
        self.serial = next(SERIALS)

    def operands(self) -> Iterator[Value]:
        """All values read by this node itself (not by its subgraphs)."""
        return (v for v in self.inputs if v is not None)

    def __reduce__(self) -> Any:
        raise _not_alone(f"node {self.name!r}")

    def __repr__(self) -> str:
        return f"{self.kind}({self.name})"


class Graph:
    """A network or the body of a control-flow node: inputs, nodes and outputs.

    Outputs keep their own names: `output_names[i]` stays when `outputs[i]` is replaced by another
    value.
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.output_names: list[str] = []
        self.parent: Node | None = None
        self.doc = ""
        self.metadata: dict[str, str] = {}
        self.opsets: dict[str, int] = {}
        self.report: Any = None
        """What an optimization did to this graph (`rewrite.Report`), None before any."""
        self.compression: Any = None
        """What a compression did (`CompressionReport`), None before any."""
        self._nodes: dict[Node, None] = {}
        self._order: list[Node] | None = None
        """The nodes in execution order, None where it is to be found anew."""

    # -- building ----------------------------------------------------------------------------------

    def add_input(self, name: str, type: Type) -> Value:
        value = Value(type, name)
        self.inputs.append(value)
        return value

    def add_node(self, node: Node) -> Node:
        if node.graph is not None:
            node.graph.reorder()
        node.graph = self
        self._nodes[node] = None
        self.reorder()
        return node

    def add_output(self, value: Value, name: str | None = None) -> None:
        self.outputs.append(value)
        self.output_names.append(value.name if name is None else name)
        value.uses[Use(self, len(self.outputs) - 1)] = None
        self.reorder()

    def set_operand(self, index: int, value: Value) -> None:
        """Let output `index` be `value`."""
        self.outputs[index].uses.pop(Use(self, index), None)
        self.outputs[index] = value
        value.uses[Use(self, index)] = None
        self.reorder()

    def remove(self, node: Node) -> None:
        """Take out a node that nobody reads."""
        if node.is_read:
            raise GraphError(f"node {node.name!r} is still read and cannot be removed")
        node.set_inputs(())
        for body in node.subgraphs.values():
            body.clear()
        node.graph = None
        for value in node.outputs:
            if value.producer is node:
                value.producer = None  # else the two keep each other until a search for cycles
        del self._nodes[node]
        self.reorder()

    def clear(self) -> None:
        """Give up all uses, those of captured outer values too; the nodes are in no graph any
        more.
        """
        for index, value in enumerate(self.outputs):
            value.uses.pop(Use(self, index), None)
        for node in list(self._nodes):
            node.set_inputs(())
            node.graph = None
            for body in node.subgraphs.values():
                body.clear()
        self.reorder()

    def reorder(self) -> None:
        """Nodes of this graph, or what they read, are others than before: find an order anew where
        one is asked for, also in the graphs around.
        """
        graph: Graph | None = self
        while graph is not None:
            graph._order = None
            graph = None if graph.parent is None else graph.parent.graph

    # -- reading -----------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[Node]:
        """The nodes, each after those whose values it (or its subgraphs) reads; GraphError on a
        cycle.
        """
        if self._order is None:
            self._order = execution_order(self)
        return list(self._order)

    @property
    def unordered_nodes(self) -> Iterable[Node]:
        """The nodes in no particular order, without any cost."""
        return self._nodes.keys()

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    def constants(self) -> list[Value]:
        """The constant values that nodes of this graph or its outputs read, each once."""
        constants: dict[Value, None] = {}
        for node in self.nodes:
            constants.update((v, None) for v in node.operands() if v.is_const)
        constants.update((v, None) for v in self.outputs if v.is_const)
        return list(constants)

    def all_graphs(self) -> Iterator[Graph]:
        """This graph and all bodies inside, outermost first."""
        pending = [self]
        while pending:
            graph = pending.pop()
            yield graph
            around = [node for node in graph._nodes if node.subgraphs]
            pending.extend(body for node in around for body in node.subgraphs.values())

    def __repr__(self) -> str:
        return f"Graph({self.name!r}, {len(self)} nodes)"

    def _repr_html_(self) -> str:
        """Inputs, outputs and operators, as notebooks show them."""
        weights = {id(v.const): v.const for g in self.all_graphs() for v in g.constants()}
        size = sum(array.nbytes for array in weights.values() if array is not None)
        values = [("input", value.name, value.type) for value in self.inputs]
        values += [("output", n, v.type) for n, v in zip(self.output_names, self.outputs)]
        return network(self.name, count_operators(self), size, values)


def count_operators(graph: Graph) -> Counter[str]:
    """Operators of a graph and its bodies by kind."""
    return Counter(node.kind for g in graph.all_graphs() for node in g.unordered_nodes)


def _not_alone(what: str) -> GraphError:
    return GraphError(
        "it cannot be copied or pickled without its graph", where=what, hint="copy the whole graph"
    )


def captured(node: Node) -> Iterator[Value]:
    """The values that the subgraphs of `node` read or give, inner ones too, some more than once."""
    for body in node.subgraphs.values():
        for graph in body.all_graphs():
            for inner in graph.unordered_nodes:
                yield from inner.operands()
            yield from graph.outputs


def execution_order(graph: Graph) -> list[Node]:
    """Nodes of `graph` in execution order, stable with respect to insertion; linear time.

    GraphError on a cycle.
    """

    def producers(node: Node) -> list[Node]:
        """The nodes of `graph` whose values a node and its bodies read."""
        above = [v.producer for v in node.inputs if v is not None and v.producer is not None]
        if node.subgraphs:
            above += [v.producer for v in captured(node) if v.producer is not None]
        return [producer for producer in above if producer.graph is graph]

    def cycle(node: Node) -> GraphError:
        return GraphError(
            f"the graph has a cycle through {node.kind} node {node.name!r}",
            where=graph.name,
            hint="a value depends on itself; the file is broken or a rewrite built it wrongly",
        )

    return topological_order(graph.unordered_nodes, producers, cycle)


def constant(
    array: Array | float | int | Sequence[Any], name: str = "", dtype: DType | None = None
) -> Value:
    """A constant value of these elements; Python floats become float32, ints int64 unless `dtype`
    says else.
    """
    data = np.asarray(array, dtype=None if dtype is None else dtype.numpy)
    is_python = dtype is None and not isinstance(array, (np.ndarray, np.generic))
    if is_python and data.dtype.kind == "f":
        data = data.astype(np.float32)
    element = dtype or dtypes.by_numpy(data.dtype)
    value = Value(TensorType(element, data.shape), name, data)
    if element.kind in "iu" and data.size <= 64:
        value.content = as_content(data)
    return value


def as_content(data: Array) -> Array:
    """Integers as an object array of dimensions."""
    content = np.empty(data.shape, dtype=object)
    content.reshape(-1)[:] = data.reshape(-1).tolist()
    return content
