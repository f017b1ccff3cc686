"""The tables and structs of infuse.fbs as named tuples: same names, same order, FlatBuffers types
as annotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, NamedTuple, get_type_hints

IDENTIFIER = b"INFU"
ALIGNMENT = 64

Bool = Annotated[bool, "bool"]
Byte = Annotated[int, "ubyte"]
UInt = Annotated[int, "uint"]
Long = Annotated[int, "long"]
ULong = Annotated[int, "ulong"]
Text = Annotated[str, "string"]
Bytes = Annotated[Sequence[int] | bytes, "[ubyte]"]
Ints = Annotated[Sequence[int], "[int]"]
UInts = Annotated[Sequence[int], "[uint]"]
Longs = Annotated[Sequence[int], "[long]"]
Floats = Annotated[Sequence[float], "[double]"]
Texts = Annotated[Sequence[str], "[string]"]


class TypeKind(IntEnum):
    """What a Type is."""

    Tensor = 0
    Unranked = 1
    Sequence = 2
    Optional = 3
    Map = 4
    State = 5


class AttributeKind(IntEnum):
    """What an Attribute holds."""

    Absent = 0
    Bool = 1
    Int = 2
    BigInt = 3
    Float = 4
    Text = 5
    Bytes = 6
    Tuple = 7
    Ints = 8
    Floats = 9
    Texts = 10
    DataType = 11
    DataFormat = 12
    Type = 13
    Dim = 14
    Array = 15


class Symbol(NamedTuple):
    """Struct: size `position` of a list is the expression number `dim`."""

    position: UInt
    dim: UInt


class Span(NamedTuple):
    """Struct: bytes of the weight section."""

    offset: ULong
    length: ULong


class Type(NamedTuple):
    """The type of a value."""

    kind: Annotated[int, "TypeKind"] = 0
    data_type: Annotated[int, "DataType"] = 0
    data_format: Annotated[int, "DataFormat"] = 0
    shape: Longs = ()
    symbols: Annotated[Sequence[Symbol], "[Symbol]"] = ()
    element: UInt = 0


class Content(NamedTuple):
    """What is known of the elements of a value."""

    shape: Longs = ()
    values: Longs = ()
    symbols: Annotated[Sequence[Symbol], "[Symbol]"] = ()


class Tensor(NamedTuple):
    """A value."""

    name: Text = ""
    type: UInt = 0
    weight: UInt = 0
    is_text: Bool = False
    texts: Texts = ()
    content: Annotated[Content | None, "Content"] = None


class Attribute(NamedTuple):
    """An attribute of an operator, or an item of one that is a tuple."""

    name: Text = ""
    kind: Annotated[int, "AttributeKind"] = 0
    integer: Long = 0
    text: Text = ""
    data: Bytes = b""
    ints: Longs = ()
    floats: Floats = ()
    texts: Texts = ()
    items: Annotated[Sequence[Attribute], "[Attribute]"] = ()


class Operator(NamedTuple):
    """An operator with its attributes; many operations may share it."""

    domain: Text = ""
    name: Text = ""
    attributes: Annotated[Sequence[Attribute], "[Attribute]"] = ()


class Entry(NamedTuple):
    """A pair of metadata."""

    key: Text = ""
    value: Text = ""


class Body(NamedTuple):
    """A named body of an operation."""

    name: Text = ""
    graph: UInt = 0


class Op(NamedTuple):
    """An operation."""

    operator: UInt = 0
    name: Text = ""
    inputs: Ints = ()
    outputs: UInts = ()
    bodies: Annotated[Sequence[Body], "[Body]"] = ()
    origin: Texts = ()
    doc: Text = ""
    metadata: Annotated[Sequence[Entry], "[Entry]"] = ()


class Opset(NamedTuple):
    """A version of an operator set."""

    domain: Text = ""
    version: Long = 0


class SubGraph(NamedTuple):
    """The network or a body."""

    name: Text = ""
    inputs: UInts = ()
    outputs: UInts = ()
    output_names: Texts = ()
    ops: Annotated[Sequence[Op], "[Op]"] = ()
    doc: Text = ""
    metadata: Annotated[Sequence[Entry], "[Entry]"] = ()
    opsets: Annotated[Sequence[Opset], "[Opset]"] = ()


class Net(NamedTuple):
    """The whole file but its weights."""

    version: UInt = 0
    producer: Text = ""
    dims: Texts = ()
    types: Annotated[Sequence[Type], "[Type]"] = ()
    operators: Annotated[Sequence[Operator], "[Operator]"] = ()
    tensors: Annotated[Sequence[Tensor], "[Tensor]"] = ()
    weights: Annotated[Sequence[Span], "[Span]"] = ()
    graphs: Annotated[Sequence[SubGraph], "[SubGraph]"] = ()
    coded: UInts = ()


STRUCTS: dict[str, type[tuple[int, ...]]] = {"Symbol": Symbol, "Span": Span}
TABLES: dict[str, type[tuple[object, ...]]] = {
    t.__name__: t
    for t in (Type, Content, Tensor, Attribute, Operator, Entry, Body, Op, Opset, SubGraph, Net)
}
ENUMS = ("TypeKind", "AttributeKind", "DataType", "DataFormat")
SCALARS = {
    "bool": "?",
    "ubyte": "B",
    "int": "i",
    "uint": "I",
    "long": "q",
    "ulong": "Q",
    "double": "d",
}
"""FlatBuffers scalars and their letters in the `struct` module."""


def field_types(record: type[tuple[object, ...]]) -> dict[str, str]:
    """Fields of a table or struct in order, with their FlatBuffers types."""
    hints = get_type_hints(record, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


def storage(type: str) -> str:
    """`type`, with enums as the scalars that store them."""
    return "ubyte" if type in ENUMS else type
