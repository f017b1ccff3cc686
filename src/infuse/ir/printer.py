"""The text form of a graph: readable, the same for the same graph, and read back by `parser`.

    graph "resnet" (%input: float32[batch, 3, 224, 224]) {
      $w0: float32[64, 3, 7, 7]#1f3a5b7c9d0e1f2a
      %conv1: float32[batch, 64, 112, 112] = Conv(%input, $w0, kernel_shape=(7, 7), strides=(2, 2))
      %y: float32[batch, 64, 112, 112] = Mul(%conv1, float32[]{0.5})
      return output = %y
    }

Attributes with their default value are left out, absent inputs are `_`. Constants that are small
and read once stand where they are read; others are declared before their first reader, big ones by
a hash of their content. What is known of the elements of a computed value follows its type:
`%shape: int64[2]{batch, 3}`. Bodies stand in braces behind their node. An input with a default has
its elements behind the type: `%w: float32[2] = float32[2]{1, 2}`.

Inputs and outputs keep their names exactly. Other values keep theirs as far as it is made of
letters, digits and `_./-`, and is unique. Node names, origins, documentation, metadata and opsets
are not in the text: the .infuse file keeps them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

from infuse.errors import GraphError
from infuse.ir.equality import same_attribute
from infuse.ir.graph import Array, Graph, Node, Value
from infuse.ir.nesting import room_for
from infuse.ir.text import (
    DOTTED,
    NOT_IN_VALUE_NAMES,
    array_text,
    attribute_text,
    content_hash,
    content_text,
    quote,
    type_text,
    word,
)

INLINE = 8
"""Constants of at most so many elements are written out."""
HASHED = 16
"""Constants of more elements than this are written as a hash."""


def print_graph(graph: Graph, *, hashes: bool = True) -> str:
    """The text of `graph`. Without `hashes`, the content of big constants is not read, and the text
    says `#?`.
    """
    with room_for(graph):
        return "".join(_Printer(graph, hashes).parts)


def big_constants(graph: Graph) -> dict[str, Array]:
    """The arrays that the text of `graph` only names, by that name: what `parser.parse` needs
    besides the text.
    """
    with room_for(graph):
        return _Printer(graph, hashes=False).big


def changed_attributes(node: Node) -> dict[str, Any]:
    """The attributes of a node that differ from the defaults of its operator, in declared order."""
    declared = getattr(type(node.op), "__dataclass_fields__", {})
    defaults = {name: field.default for name, field in declared.items()}
    return {
        k: v
        for k, v in node.op.attributes().items()
        if not same_attribute(v, defaults.get(k, dataclasses.MISSING))
    }


def _constant_reads(graph: Graph) -> Counter[Value]:
    """How often each constant is read in `graph` and its bodies."""
    reads: Counter[Value] = Counter()
    for inner in graph.all_graphs():
        reads.update(v for v in inner.outputs if v.is_const)
        for node in inner.unordered_nodes:
            reads.update(v for v in node.operands() if v.is_const)
    return reads


class _Names:
    """Unique names, each as close to the wanted one as the text form allows."""

    def __init__(self) -> None:
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.counters: dict[str, int] = {}

    def __contains__(self, value: Value) -> bool:
        return value in self.names

    def __getitem__(self, value: Value) -> str:
        return self.names[value]

    def give(self, value: Value) -> str:
        base = NOT_IN_VALUE_NAMES.sub("_", value.name)
        sigil = "$" if value.is_const else "%"
        name = f"{sigil}{base}"
        if not base or name in self.taken:
            stem = f"{name}_" if base else name
            name = next(n for n in self.numbered(stem) if n not in self.taken)
        self.taken.add(name)
        self.names[value] = name
        return name

    def numbered(self, stem: str) -> Iterator[str]:
        while True:
            count = self.counters.get(stem, 0 if len(stem) == 1 else 1)
            self.counters[stem] = count + 1
            yield f"{stem}{count}"


class _Printer:
    def __init__(self, graph: Graph, hashes: bool) -> None:
        self.hashes = hashes
        self.names = _Names()
        self.parts: list[str] = []
        self.big: dict[str, Array] = {}
        self.reads = _constant_reads(graph)
        self.graph(graph, "")

    def graph(self, graph: Graph, indent: str) -> None:
        inputs = ", ".join(map(self.input, graph.inputs))
        self.parts.append(f"graph {quote(graph.name)} ({inputs}) {{\n")
        inner = f"{indent}  "
        for node in graph.nodes:
            self.node(node, inner)
        outputs = [
            f"{word(n)} = {self.read(v, inner)}" for n, v in zip(graph.output_names, graph.outputs)
        ]
        self.parts.append(f"{inner}return {', '.join(outputs)}".rstrip(" ") + f"\n{indent}}}\n")

    def input(self, value: Value) -> str:
        name = self.names.give(value)
        exact = "" if name[1:] == value.name else f" {quote(value.name)}"
        text = f"{name}{exact}: {type_text(value.type)}{content_text(value)}"
        return (
            text
            if value.default is None
            else f"{text} = {self.elements(name, value, value.default)}"
        )

    def elements(self, key: str, value: Value, array: Array) -> str:
        """The elements of a value, by their hash where they are many; `key` is what names such an
        array.
        """
        written = array_text(array, value.dtype) if array.size <= HASHED else None
        if written is None:
            self.big[key] = array
            digest = content_hash(array, value.dtype) if self.hashes else "?"
            written = f"{type_text(value.type)}#{digest}"
        return written

    def node(self, node: Node, indent: str) -> None:
        arguments = ["_" if v is None else self.read(v, indent) for v in node.inputs]
        try:
            arguments += [
                f"{word(k)}={attribute_text(v)}" for k, v in changed_attributes(node).items()
            ]
        except GraphError as error:
            error.within(f"{node.kind} node {node.name!r}")
            raise
        domain = f"{word(node.op.domain, DOTTED)}::" if node.op.domain else ""
        call = f"{domain}{word(node.kind)}({', '.join(arguments)})"
        results = ", ".join(
            f"{self.names.give(v)}: {type_text(v.type)}{content_text(v)}" for v in node.outputs
        )
        self.parts.append(f"{indent}{results} = {call}" if results else f"{indent}{call}")
        if node.subgraphs:
            self.parts.append(" {\n")
            for name, body in node.subgraphs.items():
                self.parts.append(f"{indent}  {word(name)} = ")
                self.graph(body, f"{indent}  ")
            self.parts.append(f"{indent}}}")
        self.parts.append("\n")

    def read(self, value: Value, indent: str) -> str:
        """How an operand is written; declares a constant that is met first."""
        if value in self.names:
            return self.names[value]
        if value.const is None:
            raise GraphError(
                f"value {value.name!r} is read but not made before", hint="verify(graph) says more"
            )
        array = value.const
        if array.size <= INLINE and self.reads[value] == 1:
            written = array_text(array, value.dtype)
            if written is not None:
                return written
        name = self.names.give(value)
        self.parts.append(f"{indent}{name}: {self.elements(name[1:], value, array)}\n")
        return name
