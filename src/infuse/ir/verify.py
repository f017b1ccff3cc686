"""The verifier: whether a graph is well formed, in time linear in its size."""

from __future__ import annotations

from collections.abc import Sequence

from infuse import dtypes
from infuse.errors import GraphError, InfuseError, UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.dims import Expr
from infuse.ir.graph import Graph, Node, Use, Value, execution_order
from infuse.ir.nesting import room_for
from infuse.ir.states import check_states
from infuse.ir.types import (
    HOLDERS,
    UNKNOWN,
    MapType,
    OptionalType,
    SequenceType,
    StateType,
    TensorType,
    Type,
)


def verify(graph: Graph, *, infer: bool = True) -> None:
    """GraphError, naming node and value, unless `graph` and its bodies are well formed.

    Checked are: use-def edges from both ends, every value made once and before it is read, captured
    values from enclosing graphs only, no cycle, states changed by one node after the other, types
    possible in themselves, constants that are what their types say, and, with `infer`, types that
    agree with what the operators infer now (where both are known; storage formats aside).
    """
    verifier = _Verifier(graph)
    for inner in verifier.collect(graph):
        verifier.graph(inner)
    if infer:
        with room_for(graph):
            for inner in verifier.enclosing:
                for node in () if _never_runs(inner) else inner.unordered_nodes:
                    _check_inferred(node, _place(inner, node))


class _Verifier:
    def __init__(self, graph: Graph) -> None:
        self.owner: dict[Value, Graph] = {}
        self.enclosing: dict[Graph, frozenset[Graph]] = {}
        self.outer: set[Graph] = set()
        self.root = graph
        self.checked: set[Value] = set()
        while self.root.parent is not None and self.root.parent.graph is not None:
            self.root = self.root.parent.graph
            if self.root is graph or self.root in self.outer:
                raise GraphError("a graph is the body of a node inside itself", where=graph.name)
            self.outer.add(self.root)
            self.define(self.root)

    def collect(self, graph: Graph) -> list[Graph]:
        """All graphs inside, outermost first; who makes which value."""
        pending = [(graph, frozenset(self.outer))]
        while pending:
            inner, around = pending.pop()
            if inner in self.enclosing:
                raise GraphError("a graph is the body of two nodes", where=inner.name)
            self.enclosing[inner] = around | {inner}
            self.define(inner)
            for node in inner.unordered_nodes:
                for name, body in node.subgraphs.items():
                    if body.parent is not node:
                        raise GraphError(
                            f"body {name!r} belongs to another node", where=_place(inner, node)
                        )
                    pending.append((body, self.enclosing[inner]))
        return list(self.enclosing)

    def define(self, graph: Graph) -> None:
        for index, value in enumerate(graph.inputs):
            self.own(value, graph, f"{graph.name}: input {index}")
            if value.producer is not None:
                raise GraphError(
                    f"value {value.name!r} is an input and the output of a node", where=graph.name
                )
        for node in graph.unordered_nodes:
            place = _place(graph, node)
            if node.graph is not graph:
                raise GraphError("the node believes to be in another graph", where=place)
            for index, value in enumerate(node.outputs):
                self.own(value, graph, place)
                if value.producer is not node or value.index != index:
                    raise GraphError(
                        f"output {index}, value {value.name!r}, names another producer", where=place
                    )

    def own(self, value: Value, graph: Graph, place: str) -> None:
        if value in self.owner:
            raise GraphError(f"value {value.name!r} is made twice", where=place)
        if value.is_const:
            raise GraphError(
                f"value {value.name!r} has elements like a constant but is made here", where=place
            )
        self.owner[value] = graph

    def graph(self, graph: Graph) -> None:
        for value in graph.inputs:
            self.value(value, f"{graph.name}: input {value.name!r}")
            if value.default is not None and (
                value.tensor.shape != value.default.shape
                or value.dtype != dtypes.by_numpy(value.default.dtype)
            ):
                raise GraphError(
                    f"input {value.name!r} is {value.type}, its default is not", where=graph.name
                )
        if len(graph.outputs) != len(graph.output_names):
            raise GraphError(
                f"there are {len(graph.outputs)} outputs with {len(graph.output_names)} names",
                where=graph.name,
            )
        for index, value in enumerate(graph.outputs):
            self.read(
                value,
                Use(graph, index),
                graph,
                f"{graph.name}: output {graph.output_names[index]!r}",
            )
        for node in graph.unordered_nodes:
            place = _place(graph, node)
            for value in node.outputs:
                self.value(value, place)
            for index, operand in enumerate(node.inputs):
                if operand is not None:
                    self.read(operand, Use(node, index), graph, place)
        check_states(graph)
        execution_order(graph)

    def read(self, value: Value, use: Use, graph: Graph, place: str) -> None:
        """Check that `value` may be read in `graph` and knows that it is."""
        if use not in value.uses:
            raise GraphError(
                f"value {value.name!r} does not know that it is read here (as {use.index})",
                where=place,
            )
        if value.is_const:
            if value.producer is not None:
                raise GraphError(f"constant {value.name!r} has a producer", where=place)
            return self.value(value, place)
        owner = self.owner.get(value)
        if owner is None:
            raise GraphError(f"value {value.name!r} is not made in this graph", where=place)
        if owner not in self.enclosing[graph]:
            raise GraphError(
                f"value {value.name!r} is made in graph {owner.name!r}, which does not enclose "
                "this one",
                where=place,
            )
        return None

    def value(self, value: Value, place: str) -> None:
        """Check the type and the readers of a value, once."""
        if value in self.checked:
            return
        self.checked.add(value)
        _check_type(value.type, f"{place}: value {value.name!r}")
        if value.is_const:
            _check_constant(value, place)
        for user, index in value.uses:
            read = user.inputs if isinstance(user, Node) else user.outputs
            if index >= len(read) or read[index] is not value:
                raise GraphError(
                    f"value {value.name!r} believes that {user!r} reads it as {index}", where=place
                )
            if not self.inside(user):
                raise GraphError(
                    f"value {value.name!r} is read by {user!r}, outside of this graph", where=place
                )

    def inside(self, user: Node | Graph) -> bool:
        graph = user.graph if isinstance(user, Node) else user
        if graph is None or (isinstance(user, Node) and user not in graph):
            return False
        if graph in self.enclosing or graph in self.outer:
            return True
        # A body that is verified alone may share constants with other bodies of the outermost
        # graph.
        while self.outer and graph.parent is not None and graph.parent.graph is not None:
            graph = graph.parent.graph
        return bool(self.outer) and graph is self.root


def _place(graph: Graph, node: Node) -> str:
    return f"{graph.name}: {node.kind} node {node.name!r}"


def _check_type(type: Type, place: str) -> None:
    while isinstance(type, HOLDERS):
        type = type.element
    if not isinstance(type, TensorType):
        raise GraphError(f"{type!r} is not a type", where=place)
    if type.shape is None:
        return
    for dim in type.shape:
        if not isinstance(dim, (int, Expr)) or (isinstance(dim, int) and dim < 0):
            raise GraphError(f"{dim!r} is not a size", where=place)
    if not type.format.fits(len(type.shape)):
        raise GraphError(
            f"a tensor of rank {len(type.shape)} cannot be stored as {type.format.value}",
            where=place,
        )


def _check_constant(value: Value, place: str) -> None:
    array, type = value.const, value.type
    assert array is not None
    if not isinstance(type, TensorType):
        raise GraphError(f"constant {value.name!r} is a {type}", where=place)
    actual = f"{array.dtype}{list(array.shape)}"
    if array.dtype != type.dtype.numpy and dtypes.by_numpy(array.dtype) is not type.dtype:
        raise GraphError(f"constant {value.name!r} is {type}, its array {actual}", where=place)
    if array.shape != type.shape:
        raise GraphError(f"constant {value.name!r} is {type}, its array {actual}", where=place)


def _never_runs(graph: Graph) -> bool:
    """Whether a graph is, or lies in, a branch that a known condition does not choose: that need
    not be well-typed.
    """
    while graph.parent is not None:
        node = graph.parent
        condition = node.input(0)
        if node.kind == "If" and node.op.domain == "" and condition is not None:
            content = condition.const if condition.const is not None else condition.content
            if content is not None and content.size == 1 and not isinstance(content.item(), Expr):
                chosen = node.subgraphs.get("then_branch" if content.item() else "else_branch")
                if chosen is not graph:
                    return True
        if node.graph is None:
            break
        graph = node.graph
    return False


def _check_inferred(node: Node, place: str) -> None:
    try:
        fresh: Sequence[Type] = node.op.infer_types(node)
    except UnsupportedOperatorError:
        return
    except InfuseError as error:
        raise GraphError(
            f"the types do not fit: {error.what}", where=place, hint=error.hint
        ) from error
    for value, inferred in zip(node.outputs, fresh):
        if not agree(value.type, inferred):
            raise GraphError(
                f"value {value.name!r} is {value.type}, inferred is {inferred}", where=place
            )


def agree(a: Type, b: Type) -> bool:
    """Whether two types can be those of one value: what both say must not contradict; storage
    formats aside.
    """
    if a == UNKNOWN or b == UNKNOWN:
        return True
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        if a.dtype is not b.dtype:
            return False
        if a.shape is None or b.shape is None:
            return True
        return len(a.shape) == len(b.shape) and all(
            x == y or dims.compare("==", x, y) is not False for x, y in zip(a.shape, b.shape)
        )
    if isinstance(a, SequenceType) and isinstance(b, SequenceType):
        return agree(a.element, b.element)
    if isinstance(a, OptionalType) and isinstance(b, OptionalType):
        return agree(a.element, b.element)
    if isinstance(a, StateType) and isinstance(b, StateType):
        return agree(a.element, b.element)
    if isinstance(a, MapType) and isinstance(b, MapType):
        return a.key == b.key and agree(a.element, b.element)
    return False
