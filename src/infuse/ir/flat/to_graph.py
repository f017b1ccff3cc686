"""Records of an .infuse file to graphs; every index is checked before it is used."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.ir.coding.narrow import element_bytes
from infuse.ir.coding.weights import decoded
from infuse.ir.dims import Dim
from infuse.ir.flat import records as r
from infuse.ir.flat.from_graph import FORMATS
from infuse.ir.flat.records import AttributeKind, TypeKind
from infuse.ir.graph import Array, Graph, Node, Value, constant
from infuse.ir.nesting import DEEPEST, room
from infuse.ir.operator import Operator
from infuse.ir.parser import parse_dim
from infuse.ir.registry import make_operator
from infuse.ir.types import MapType, OptionalType, SequenceType, StateType, TensorType, Type

DIM_LIMIT = 4096
_DTYPES = {d.onnx: d for d in dtypes.ALL}
_Item = TypeVar("_Item")


def to_graph(net: r.Net, weights: Array) -> Graph:
    """The graph of these records; constants are views of `weights`, the bytes of the weight
    section.

    ModelFileError when the records contradict each other; UnsupportedOperatorError when an operator
    is not known.
    """
    with room(DEEPEST):
        return _Reader(net, weights).network()


def _fail(what: str) -> NoReturn:
    raise ModelFileError(what, hint="the file is damaged or was not written by Infuse")


def _pick(items: Sequence[_Item], index: int, what: str) -> _Item:
    if not 0 <= index < len(items):
        _fail(f"there is no {what} number {index}")
    return items[index]


class _Reader:
    def __init__(self, net: r.Net, weights: Array) -> None:
        self.net = net
        self.weights = weights
        self.dims = [_dim(text) for text in net.dims]
        self.types: list[Type] = []
        for record in net.types:
            self.types.append(self.type(record))
        self.operators = [self.operator(record) for record in net.operators]
        self.arrays: dict[tuple[int, int], Array] = {}
        self.check_spans()
        self.decoded = self.decoded_weights()
        self.visible: list[Value | None] = [
            self.constant(t) if t.weight or t.is_text else None for t in net.tensors
        ]
        self.started = [False] * len(net.graphs)

    def network(self) -> Graph:
        return self.graph(0, 0)

    # -- types -------------------------------------------------------------------------------------

    def type(self, record: r.Type) -> Type:
        if record.kind in (TypeKind.Sequence, TypeKind.Optional, TypeKind.Map):
            element = _pick(self.types, record.element, "type before this one")
            if record.kind == TypeKind.Map:
                return MapType(self.dtype(record.data_type), element)
            return (
                SequenceType(element) if record.kind == TypeKind.Sequence else OptionalType(element)
            )
        if record.kind == TypeKind.State:
            tensor = _pick(self.types, record.element, "type before this one")
            if not isinstance(tensor, TensorType):
                _fail(f"a state holds a tensor, not a {tensor}")
            return StateType(tensor)
        if record.kind not in (TypeKind.Tensor, TypeKind.Unranked):
            _fail(f"{record.kind} is not a kind of type")
        dtype, format = (
            self.dtype(record.data_type),
            _pick(FORMATS, record.data_format, "data format"),
        )
        if record.kind == TypeKind.Unranked:
            return TensorType(dtype, None, format)
        shape = tuple(self.sizes(record.shape, record.symbols))
        if any(isinstance(d, int) and d < 0 for d in shape):
            _fail("a tensor has a negative size")
        if not format.fits(len(shape)):
            _fail(f"a tensor of rank {len(shape)} cannot be stored as {format.value}")
        return TensorType(dtype, shape, format)

    def dtype(self, code: int) -> DType:
        if code not in _DTYPES:
            _fail(f"there is no element type number {code}")
        return _DTYPES[code]

    def sizes(self, numbers: Sequence[int], symbols: Sequence[r.Symbol]) -> list[Dim]:
        sizes: list[Dim] = list(numbers)
        for position, dim in symbols:
            _pick(sizes, position, "size")
            sizes[position] = _pick(self.dims, dim, "dimension")
        return sizes

    # -- operators ---------------------------------------------------------------------------------

    def operator(self, record: r.Operator) -> Operator:
        attributes = {a.name: self.attribute(a) for a in record.attributes}
        try:
            return make_operator(record.domain, record.name, attributes)
        except UnsupportedOperatorError:
            raise
        except (InfuseError, ValueError) as error:
            raise ModelFileError(
                f"operator {record.name} does not take its attributes: {error}"
            ) from error

    def attribute(self, a: r.Attribute) -> Any:
        simple = {
            AttributeKind.Absent: None,
            AttributeKind.Bool: a.integer != 0,
            AttributeKind.Int: a.integer,
            AttributeKind.Text: a.text,
            AttributeKind.Bytes: a.data,
            AttributeKind.Ints: a.ints,
            AttributeKind.Floats: a.floats,
            AttributeKind.Texts: a.texts,
        }
        kind = _pick(list(AttributeKind), a.kind, "kind of attribute")
        if kind in simple:
            value = simple[kind]
            return tuple(value) if isinstance(value, list) else value
        if kind is AttributeKind.Float:
            return _pick(a.floats, 0, "number of an attribute")
        if kind is AttributeKind.BigInt:
            return _big_int(a.text)
        if kind is AttributeKind.Tuple:
            return tuple(self.attribute(item) for item in a.items)
        if kind is AttributeKind.DataType:
            return self.dtype(a.integer)
        if kind is AttributeKind.DataFormat:
            return _pick(FORMATS, a.integer, "data format")
        if kind is AttributeKind.Dim:
            return _pick(self.dims, a.integer, "dimension")
        type = _pick(self.types, a.integer, "type")
        return (
            type
            if kind is AttributeKind.Type
            else self.array(type, np.frombuffer(bytes(a.data), np.uint8), a.texts)
        )

    # -- values ------------------------------------------------------------------------------------

    def check_spans(self) -> None:
        end = 0
        for offset, length in self.net.weights:
            if offset < end or offset % r.ALIGNMENT or offset + length > len(self.weights):
                _fail("a weight lies outside of its section, over another or unaligned")
            end = offset + length

    def decoded_weights(self) -> dict[int, Array]:
        """The bytes of coded weights by their numbers."""
        numbers = list(self.net.coded)
        if any(second <= first for first, second in itertools.pairwise(numbers)):
            _fail("the numbers of coded weights do not ascend")
        spans = [_pick(self.net.weights, number, "weight") for number in numbers]
        forms = [self.weights[offset : offset + length] for offset, length in spans]
        return dict(zip(numbers, decoded(forms)))

    def constant(self, record: r.Tensor) -> Value:
        type = _pick(self.types, record.type, "type")
        no_bytes = self.weights[:0]
        array = (
            self.array(type, no_bytes, record.texts)
            if record.is_text
            else self.weight(type, record)
        )
        value = Value(type, record.name, array)
        value.content = constant(array, dtype=value.dtype).content
        return value

    def weight(self, type: Type, record: r.Tensor) -> Array:
        """The view of a weight; the same object for each tensor of the same type."""
        key = record.weight, record.type
        array = self.arrays.get(key)
        if array is None:
            offset, length = _pick(self.net.weights, record.weight - 1, "weight")
            data = self.decoded.get(record.weight - 1)
            if data is None:
                data = _elements(type, self.weights[offset : offset + length])
            array = self.arrays[key] = self.array(type, data, ())
        return array

    def array(self, type: Type, data: Array, texts: Sequence[str]) -> Array:
        """The elements of a constant, from bytes or, where it is one of text, from `texts`."""
        if not isinstance(type, TensorType):
            _fail(f"a constant is a {type}")
        shape = _shape(type)
        is_text = type.dtype.kind == "s"
        count = len(texts) if is_text else len(data)
        if count != math.prod(shape) * (1 if is_text else type.dtype.numpy.itemsize):
            _fail(f"a constant that is a {type} has {count} {'elements' if is_text else 'bytes'}")
        if is_text:
            data = np.empty(len(texts), dtype=object)
            data[:] = texts
        return data.view(type.dtype.numpy).reshape(shape)

    def input(self, index: int) -> Value:
        """The value that an input makes; elements that the file has for it are its default."""
        stored = _pick(self.visible, index, "tensor")
        if stored is None or not stored.is_const or stored.uses:
            return self.define(index)
        self.visible[index] = None
        value = self.define(index)
        value.default = stored.const
        return value

    def define(self, index: int) -> Value:
        """The value that an input or output makes."""
        record = _pick(self.net.tensors, index, "tensor")
        if self.visible[index] is not None:
            _fail(f"tensor {record.name!r} is made twice")
        value = Value(_pick(self.types, record.type, "type"), record.name)
        if record.content is not None:
            value.content = self.content(record.content, value)
        self.visible[index] = value
        return value

    def content(self, record: r.Content, value: Value) -> Array:
        shape, sizes = tuple(record.shape), self.sizes(record.values, record.symbols)
        if (
            min(shape, default=0) < 0
            or math.prod(shape) != len(sizes)
            or len(shape) > 32
            or max(shape, default=0) >= 2**31
        ):
            _fail(f"what is known of tensor {value.name!r} has no possible shape")
        if not isinstance(value.type, TensorType):
            _fail(f"elements of {value.name!r}, a {value.type}, are known")
        content = np.empty(len(sizes), dtype=object)
        content[:] = (
            [bool(s) if isinstance(s, int) else s for s in sizes] if value.dtype.is_bool else sizes
        )
        return content.reshape(shape)

    def read(self, index: int) -> Value:
        value = _pick(self.visible, index, "tensor")
        if value is None:
            _fail(f"tensor {self.net.tensors[index].name!r} is read where it is not made yet")
        return value

    # -- graphs ------------------------------------------------------------------------------------

    def graph(self, index: int, depth: int) -> Graph:
        record = _pick(self.net.graphs, index, "graph")
        if self.started[index] or depth > DEEPEST:
            _fail(f"graph {record.name!r} is inside itself, is used twice, or is nested too deep")
        self.started[index] = True
        graph = Graph(record.name)
        graph.doc = record.doc
        graph.metadata = _pairs(record.metadata)
        graph.opsets = {o.domain: o.version for o in record.opsets}
        graph.inputs = [self.input(i) for i in record.inputs]
        for op in record.ops:
            graph.add_node(self.node(op, depth))
        if len(record.outputs) != len(record.output_names):
            _fail(
                f"graph {record.name!r} has {len(record.outputs)} outputs with "
                f"{len(record.output_names)} names"
            )
        for output, name in zip(record.outputs, record.output_names):
            graph.add_output(self.read(output), name)
        self.hide(record)
        return graph

    def hide(self, record: r.SubGraph) -> None:
        """What a body has made is not to be read outside of it."""
        for index in record.inputs:
            self.visible[index] = None
        for op in record.ops:
            for index in op.outputs:
                self.visible[index] = None

    def node(self, op: r.Op, depth: int) -> Node:
        inputs = [None if i == -1 else self.read(i) for i in op.inputs]
        bodies = {name: self.graph(graph, depth + 1) for name, graph in op.bodies}
        if len(bodies) != len(op.bodies):
            _fail(f"operation {op.name!r} has two bodies of one name")
        outputs = [self.define(i) for i in op.outputs]
        operator = _pick(self.operators, op.operator, "operator")
        node = Node(
            operator, inputs, outputs, name=op.name, origin=tuple(op.origin), subgraphs=bodies
        )
        node.origin = tuple(op.origin)
        node.doc = op.doc
        if op.metadata:
            node.metadata = _pairs(op.metadata)
        return node


def _elements(type: Type, stored: Array) -> Array:
    """The bytes of the elements of a constant, from those of its span."""
    if not isinstance(type, TensorType):
        _fail(f"a constant is a {type}")
    return element_bytes(stored, type.dtype, _shape(type))


def _shape(type: TensorType) -> tuple[int, ...]:
    shape = tuple(d for d in type.shape or () if isinstance(d, int))
    if type.shape is None or len(shape) < len(type.shape) or not _is_possible(shape):
        _fail(f"a constant is a {type}, which is not a possible shape")
    return shape


def _is_possible(shape: tuple[int, ...]) -> bool:
    """Whether an array can have this shape."""
    return (
        len(shape) <= 32
        and min(shape, default=0) >= 0
        and math.prod(size or 1 for size in shape) < 2**48
    )


def _pairs(entries: Sequence[r.Entry]) -> dict[str, str]:
    return {e.key: e.value for e in entries}


def _dim(text: str) -> Dim:
    if len(text) > DIM_LIMIT:
        _fail(f"a dimension is written with {len(text)} characters")
    return parse_dim(text)


def _big_int(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= DIM_LIMIT):
        _fail("an attribute is not a whole number")
    return int(text)
