"""Reads the text form of graphs that `printer` writes and describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from infuse import dtypes
from infuse.errors import GraphError, InfuseError, ModelFileError
from infuse.ir.dims import Dim
from infuse.ir.graph import Array, Graph, Node, Value, constant
from infuse.ir.lexer import Cursor
from infuse.ir.literals import Literals
from infuse.ir.nesting import DEEPEST, room
from infuse.ir.registry import make_operator
from infuse.ir.text import content_hash
from infuse.ir.types import UNKNOWN


def parse(text: str, constants: Mapping[str, Array] | None = None) -> Graph:
    """The graph that `text` describes.

    `constants` holds the arrays that the text only names, by that name without its `$`
    (`printer.big_constants` gives them for a graph). Results without a type get the one that their
    operator infers. ModelFileError, with line and column, where the text is not well formed;
    GraphError where a name is unknown or given twice.
    """
    parser = _Parser(Cursor(text), constants or {})
    with room(DEEPEST):
        graph = parser.graph()
    if parser.cursor.token.kind != "end":
        parser.cursor.fail("expected the end of the text")
    return graph


def parse_dim(text: str) -> Dim:
    """The dimension that `text.dim_text` wrote; ModelFileError for anything else."""
    cursor = Cursor(text)
    with room(DEEPEST):
        dim = Literals(cursor).dim()
    if cursor.token.kind != "end":
        cursor.fail("expected the end of a dimension")
    return dim


class _Parser:
    def __init__(self, cursor: Cursor, arrays: Mapping[str, Array]) -> None:
        self.cursor = cursor
        self.literals = Literals(cursor)
        self.arrays = arrays
        self.constants: dict[str, Value] = {}
        self.scopes: list[dict[str, Value]] = []

    def graph(self) -> Graph:
        cursor = self.cursor
        cursor.expect("graph")
        graph = Graph(cursor.string("the quoted name of the graph"))
        self.scopes.append({})
        cursor.expect("(")
        for _ in cursor.separated(")"):
            graph.inputs.append(self.input())
        cursor.expect("{")
        if len(self.scopes) > DEEPEST + 1:
            cursor.fail(f"graphs are nested more than {DEEPEST} deep")
        while not cursor.accept("return"):
            self.statement(graph)
        self.outputs(graph)
        self.scopes.pop()
        return graph

    def input(self) -> Value:
        name = self.new_name()
        exact = self.cursor.string("a name") if self.cursor.token.kind == "string" else name[1:]
        value = self.typed(exact)
        if self.cursor.accept("="):
            value.default = self.constant(name).const
        self.scopes[-1][name] = value
        return value

    def typed(self, name: str) -> Value:
        """`: TYPE`, perhaps with known elements in braces, as a new value."""
        self.cursor.expect(":")
        value = Value(self.literals.type(), name)
        if self.cursor.at("{"):
            value.content = self.literals.content(value.type)
        return value

    def outputs(self, graph: Graph) -> None:
        cursor = self.cursor
        for _ in cursor.separated("}"):
            name = cursor.name("the name of an output")
            cursor.expect("=")
            graph.add_output(self.operand(), name)

    def statement(self, graph: Graph) -> None:
        cursor = self.cursor
        if cursor.token.text.startswith("$") and cursor.token.kind == "value":
            return self.declaration()
        results: dict[str, Value] = {}
        while cursor.token.kind == "value":
            name = self.new_name()
            if name in results:
                self.reject(f"value {name} is made twice")
            results[name] = self.typed(name[1:]) if cursor.at(":") else Value(UNKNOWN, name[1:])
            if not cursor.accept(","):
                cursor.expect("=")
                break
        untyped = [v for v in results.values() if v.type is UNKNOWN]
        node = self.call(list(results.values()))
        self.scopes[-1].update(results)
        graph.add_node(node)
        if untyped:
            self.infer(node)
        return None

    def new_name(self) -> str:
        name = self.cursor.take("value", "a value such as %x, or 'return'")
        if self.find(name) is not None:
            self.cursor.index -= 1
            self.reject(f"value {name} is made twice")
        return name

    def find(self, name: str) -> Value | None:
        if name in self.constants:
            return self.constants[name]
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def declaration(self) -> None:
        """`$name: TYPE{…}` or `$name: TYPE#HASH`."""
        name = self.new_name()
        self.cursor.expect(":")
        self.constants[name] = self.constant(name[1:])

    def constant(self, name: str) -> Value:
        start = self.cursor.token
        type = self.literals.tensor()
        if self.cursor.token.kind != "hash":
            return constant(self.literals.elements(type), name, type.dtype)
        digest = self.cursor.advance().text[1:]
        array = self.arrays.get(name)
        if array is None:
            self.cursor.fail_at(
                start.position, f"the text has only the hash of ${name}; its array is not given"
            )
        actual = f"{array.dtype}{list(array.shape)}"
        if array.shape != type.shape or dtypes.by_numpy(array.dtype) is not type.dtype:
            self.cursor.fail_at(
                start.position, f"${name} is {type}, the array given for it {actual}"
            )
        if digest not in ("?", content_hash(array, type.dtype)):
            self.cursor.fail_at(
                start.position,
                f"the array given for ${name} has other elements than the text means",
            )
        value = Value(type, name, array)
        value.content = constant(array, dtype=type.dtype).content
        return value

    def operand(self) -> Value:
        cursor = self.cursor
        if cursor.token.kind == "value":
            value = self.find(cursor.token.text)
            if value is None:
                self.reject(f"value {cursor.token.text} is not made before it is read")
            cursor.advance()
            return value
        if cursor.token.kind != "word":
            cursor.fail("expected a value such as %x, or a constant such as int64[]{1}")
        return self.constant("")

    def call(self, results: list[Value]) -> Node:
        cursor = self.cursor
        start = cursor.token
        domain, name = "", cursor.name("an operator")
        if cursor.accept("::"):
            domain, name = name, cursor.name("an operator")
        operands: list[Value | None] = []
        attributes: dict[str, Any] = {}
        cursor.expect("(")
        for _ in cursor.separated(")"):
            if cursor.follows("="):
                key = cursor.name("an attribute")
                cursor.expect("=")
                attributes[key] = self.literals.attribute()
            elif cursor.accept("_"):
                operands.append(None)
            else:
                operands.append(self.operand())
        bodies = self.bodies() if cursor.accept("{") else {}
        try:
            operator = make_operator("" if domain == "ai.onnx" else domain, name, attributes)
        except InfuseError as error:
            error.within(self.place(start.position))
            raise
        return Node(
            operator, operands, results, name=results[0].name if results else "", subgraphs=bodies
        )

    def bodies(self) -> dict[str, Graph]:
        cursor = self.cursor
        bodies: dict[str, Graph] = {}
        while not cursor.accept("}"):
            name = cursor.name("the name of a body")
            cursor.expect("=")
            bodies[name] = self.graph()
        return bodies

    def infer(self, node: Node) -> None:
        declared = [v.type for v in node.outputs]
        node.op.infer_node(node)
        for value, type in zip(node.outputs, declared):
            value.type = value.type if type is UNKNOWN else type

    def place(self, position: int) -> str:
        try:
            self.cursor.fail_at(position, "")
        except ModelFileError as error:
            return error.where or ""

    def reject(self, what: str) -> NoReturn:
        raise GraphError(what, where=self.place(self.cursor.token.position))
