"""Graphs to the records of an .infuse file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import GraphError
from infuse.ir.coding.narrow import stored_bytes, stored_size
from infuse.ir.dims import Dim, Expr
from infuse.ir.equality import raw_bytes
from infuse.ir.flat import records as r
from infuse.ir.flat.records import AttributeKind, TypeKind
from infuse.ir.graph import Array, Graph, Node, Value
from infuse.ir.nesting import room_for
from infuse.ir.operator import Operator
from infuse.ir.text import dim_text
from infuse.ir.types import (
    HOLDERS,
    DataFormat,
    MapType,
    OptionalType,
    SequenceType,
    StateType,
    TensorType,
    Type,
)

FORMATS = list(DataFormat)
INT64 = range(-(2**63), 2**63)
_END = 4096
"""Bytes at both ends of an array by which those that could be equal to another are told."""


def to_records(graph: Graph, version: int, producer: str) -> tuple[r.Net, list[Array]]:
    """The records of a graph, and the arrays whose bytes its weight spans stand for, in the order
    of the spans.

    Arrays of equal bytes are stored once, whatever their types are. GraphError for attributes that
    have no form in the file.
    """
    collector = _Collector()
    with room_for(graph):
        collector.graph(graph)
    net = r.Net(
        version=version,
        producer=producer,
        dims=list(collector.dims),
        types=collector.types,
        operators=collector.operators,
        tensors=collector.tensors,
        weights=collector.spans,
        graphs=[g for g in collector.graphs if g is not None],
    )
    return net, collector.arrays


class _Collector:
    def __init__(self) -> None:
        self.dims: dict[str, int] = {}
        self.types: list[r.Type] = []
        self.type_index: dict[Type, int] = {}
        self.operators: list[r.Operator] = []
        self.operator_index: dict[str, int] = {}
        self.tensors: list[r.Tensor] = []
        self.tensor_index: dict[Value, int] = {}
        self.graphs: list[r.SubGraph | None] = []
        self.arrays: list[Array] = []
        self.spans: list[r.Span] = []
        self.span_index: dict[tuple[str, int, int, int], int] = {}
        self.alike: dict[tuple[int, bytes], list[int]] = {}
        """The spans of so many bytes that begin and end with these."""
        self.end = 0

    def graph(self, graph: Graph) -> int:
        index = len(self.graphs)
        self.graphs.append(None)
        self.graphs[index] = r.SubGraph(
            name=graph.name,
            inputs=[self.tensor(v) for v in graph.inputs],
            ops=[self.op(node) for node in graph.nodes],
            outputs=[self.tensor(v) for v in graph.outputs],
            output_names=graph.output_names,
            doc=graph.doc,
            metadata=_entries(graph.metadata),
            opsets=[r.Opset(domain, version) for domain, version in graph.opsets.items()],
        )
        return index

    def op(self, node: Node) -> r.Op:
        return r.Op(
            operator=self.operator(node),
            name=node.name,
            inputs=[-1 if v is None else self.tensor(v) for v in node.inputs],
            bodies=[r.Body(name, self.graph(body)) for name, body in node.subgraphs.items()],
            outputs=[self.tensor(v) for v in node.outputs],
            origin=node.origin,
            doc=node.doc,
            metadata=_entries(node.metadata),
        )

    def operator(self, node: Node) -> int:
        op: Operator = node.op
        try:
            attributes = [self.attribute(name, value) for name, value in op.attributes().items()]
        except GraphError as error:
            error.within(f"{op.name} node {node.name!r}")
            raise
        record = r.Operator(op.domain, op.name, attributes)
        index = self.operator_index.setdefault(repr(record), len(self.operators))
        if index == len(self.operators):
            self.operators.append(record)
        return index

    # -- values ------------------------------------------------------------------------------------

    def tensor(self, value: Value) -> int:
        index = self.tensor_index.get(value)
        if index is None:
            index = self.tensor_index[value] = len(self.tensors)
            self.tensors.append(self.tensor_record(value))
        return index

    def tensor_record(self, value: Value) -> r.Tensor:
        type = self.type(value.type)
        array = value.default if value.const is None else value.const
        if array is None:
            return r.Tensor(value.name, type, content=self.content(value))
        if value.dtype.kind == "s":
            return r.Tensor(value.name, type, is_text=True, texts=_texts(array))
        return r.Tensor(value.name, type, weight=self.weight(array) + 1)

    def weight(self, array: Array) -> int:
        """The number of the span that holds the bytes of `array`."""
        length = stored_size(array)
        if array.flags.c_contiguous:
            key = ("address", int(array.__array_interface__["data"][0]), array.nbytes, length)
        else:
            key = ("object", id(array), array.nbytes, length)
        if key not in self.span_index:
            self.span_index[key] = self.span_of_content(array, length)
        return self.span_index[key]

    def span_of_content(self, array: Array, length: int) -> int:
        """The number of a span that has the bytes of `array`, a new one where none has them."""
        content = stored_bytes(array)
        ends = content[:_END].tobytes() + content[-_END:].tobytes()
        numbers = self.alike.setdefault((length, ends), [])
        for number in numbers:
            if np.array_equal(stored_bytes(self.arrays[number]), content):
                return number
        numbers.append(len(self.spans))
        self.spans.append(r.Span(self.end, length))
        self.arrays.append(array)
        self.end += -(-length // r.ALIGNMENT) * r.ALIGNMENT
        return numbers[-1]

    def content(self, value: Value) -> r.Content | None:
        if value.content is None:
            return None
        sizes: list[Dim] = [
            x if isinstance(x, Expr) else int(x) for x in value.content.reshape(-1).tolist()
        ]
        if any(isinstance(x, int) and x not in INT64 for x in sizes):
            return None
        return r.Content(value.content.shape, *self.sizes(sizes))

    def sizes(self, sizes: Sequence[Dim]) -> tuple[list[int], list[r.Symbol]]:
        """Numbers, and at which positions expressions stand instead."""
        numbers = [0 if isinstance(d, Expr) else d for d in sizes]
        return numbers, [
            r.Symbol(i, self.dim(d)) for i, d in enumerate(sizes) if isinstance(d, Expr)
        ]

    def dim(self, dim: Dim) -> int:
        return self.dims.setdefault(dim_text(dim), len(self.dims))

    def type(self, type: Type) -> int:
        index = self.type_index.get(type)
        if index is None:
            record = self.type_record(type)
            index = self.type_index[type] = len(self.types)
            self.types.append(record)
        return index

    def type_record(self, type: Type) -> r.Type:
        if isinstance(type, SequenceType):
            return r.Type(TypeKind.Sequence, element=self.type(type.element))
        if isinstance(type, OptionalType):
            return r.Type(TypeKind.Optional, element=self.type(type.element))
        if isinstance(type, MapType):
            return r.Type(TypeKind.Map, type.key.onnx, element=self.type(type.element))
        if isinstance(type, StateType):
            return r.Type(TypeKind.State, element=self.type(type.element))
        code, format = type.dtype.onnx, FORMATS.index(type.format)
        if type.shape is None:
            return r.Type(TypeKind.Unranked, code, format)
        return r.Type(TypeKind.Tensor, code, format, *self.sizes(type.shape))

    # -- attributes --------------------------------------------------------------------------------

    def attribute(self, name: str, value: Any) -> r.Attribute:
        """The record of one attribute; `name` is empty for the items of a tuple."""
        return r.Attribute(name, **self.attribute_fields(value))

    def attribute_fields(self, value: Any) -> dict[str, Any]:
        if isinstance(value, np.generic):
            value = value.item()
        if value is None:
            return {}
        if isinstance(value, bool):
            return {"kind": AttributeKind.Bool, "integer": int(value)}
        if isinstance(value, int):
            if value in INT64:
                return {"kind": AttributeKind.Int, "integer": value}
            return {"kind": AttributeKind.BigInt, "text": str(value)}
        if isinstance(value, float):
            return {"kind": AttributeKind.Float, "floats": (value,)}
        if isinstance(value, DataFormat):
            return {"kind": AttributeKind.DataFormat, "integer": FORMATS.index(value)}
        if isinstance(value, str):
            return {"kind": AttributeKind.Text, "text": value}
        if isinstance(value, bytes):
            return {"kind": AttributeKind.Bytes, "data": value}
        if isinstance(value, tuple):
            return self.tuple_fields(value)
        return self.object_fields(value)

    def tuple_fields(self, value: tuple[Any, ...]) -> dict[str, Any]:
        kinds = {type(item) for item in value}
        if kinds == {int} and all(item in INT64 for item in value):
            return {"kind": AttributeKind.Ints, "ints": value}
        if kinds == {float}:
            return {"kind": AttributeKind.Floats, "floats": value}
        if kinds == {str}:
            return {"kind": AttributeKind.Texts, "texts": value}
        return {"kind": AttributeKind.Tuple, "items": [self.attribute("", item) for item in value]}

    def object_fields(self, value: Any) -> dict[str, Any]:
        if isinstance(value, DType):
            return {"kind": AttributeKind.DataType, "integer": value.onnx}
        if isinstance(value, (TensorType, *HOLDERS)):
            return {"kind": AttributeKind.Type, "integer": self.type(value)}
        if isinstance(value, Expr):
            return {"kind": AttributeKind.Dim, "integer": self.dim(value)}
        if isinstance(value, np.ndarray):
            dtype = dtypes.by_numpy(value.dtype)
            fields = {
                "kind": AttributeKind.Array,
                "integer": self.type(TensorType(dtype, value.shape)),
            }
            if dtype.kind == "s":
                return {**fields, "texts": _texts(value)}
            return {**fields, "data": raw_bytes(value).tobytes()}
        raise GraphError(f"an attribute that is a {type(value).__name__} cannot be stored")


def _entries(metadata: Mapping[str, str]) -> list[r.Entry]:
    return [r.Entry(key, value) for key, value in metadata.items()]


def _texts(array: Array) -> list[str]:
    texts: list[str] = array.reshape(-1).tolist()
    if not all(type(text) is str for text in texts):
        raise GraphError("an array of objects other than text cannot be stored")
    return texts
