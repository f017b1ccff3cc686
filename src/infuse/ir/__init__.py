"""The intermediate representation: graphs, types, symbolic dimensions."""

from infuse.ir.graph import Graph, Node, Use, Value, constant, known_ints
from infuse.ir.types import (
    DataFormat,
    MapType,
    OptionalType,
    SequenceType,
    Shape,
    TensorType,
    Type,
    tensor,
)

__all__ = [
    "DataFormat",
    "Graph",
    "MapType",
    "Node",
    "OptionalType",
    "SequenceType",
    "Shape",
    "TensorType",
    "Type",
    "Use",
    "Value",
    "constant",
    "known_ints",
    "tensor",
]
