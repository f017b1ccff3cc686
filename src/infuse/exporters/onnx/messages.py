"""Types, arrays and attributes as protobuf messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto, GraphProto, TensorProto, TypeProto, ValueInfoProto
from onnx.defs import OpSchema

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import TypeMismatchError
from infuse.ir.dims import Expr
from infuse.ir.graph import Graph
from infuse.ir.types import HOLDERS, MapType, SequenceType, StateType, TensorType, Type

Array = npt.NDArray[Any]
_FIELDS: Final = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.TYPE_PROTO: "tp",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSORS: "tensors",
    AttributeProto.GRAPHS: "graphs",
    AttributeProto.TYPE_PROTOS: "type_protos",
}
_LISTS: Final = {
    AttributeProto.FLOAT: AttributeProto.FLOATS,
    AttributeProto.INT: AttributeProto.INTS,
    AttributeProto.STRING: AttributeProto.STRINGS,
    AttributeProto.TENSOR: AttributeProto.TENSORS,
    AttributeProto.GRAPH: AttributeProto.GRAPHS,
    AttributeProto.TYPE_PROTO: AttributeProto.TYPE_PROTOS,
}


def type_proto(type: Type, texts: Mapping[str, str] = MappingProxyType({})) -> TypeProto:
    """A type; plain symbols are named sizes, expressions are written out, an unknown rank has no
    shape.

    `texts` says what to write for a symbol instead of its name; nothing makes a size unknown.
    """
    proto = TypeProto()
    if isinstance(type, TensorType):
        proto.tensor_type.elem_type = type.dtype.onnx
        if type.shape is not None:
            proto.tensor_type.shape.SetInParent()
            for size in type.shape:
                dim = proto.tensor_type.shape.dim.add()
                if isinstance(size, Expr):
                    put_text(dim, texts.get(str(size), str(size)))
                else:
                    dim.dim_value = size
    elif isinstance(type, SequenceType):
        proto.sequence_type.elem_type.CopyFrom(type_proto(type.element, texts))
    elif isinstance(type, StateType):
        raise TypeMismatchError(
            "ONNX has no states, which outlive a run", hint="save the model as .infuse"
        )
    elif isinstance(type, MapType):
        proto.map_type.key_type = type.key.onnx
        proto.map_type.value_type.CopyFrom(type_proto(type.element, texts))
    else:
        proto.optional_type.elem_type.CopyFrom(type_proto(type.element, texts))
    return proto


def put_text(dim: Any, text: str) -> None:
    """Write the text of a size into a dimension, which stays unknown where there is none."""
    if text:
        dim.dim_param = text


def value_info(
    name: str, type: Type | None, texts: Mapping[str, str] = MappingProxyType({})
) -> ValueInfoProto:
    """A name with its type, or without one."""
    return ValueInfoProto(name=name, type=None if type is None else type_proto(type, texts))


def tensor_head(name: str, array: Array, dtype: DType) -> TensorProto:
    """A tensor without its elements."""
    return TensorProto(name=name, dims=array.shape, data_type=dtype.onnx)


def tensor(name: str, array: Array, dtype: DType) -> TensorProto:
    """A tensor with its elements."""
    proto = tensor_head(name, array, dtype)
    put_elements(proto, array, dtype)
    return proto


def put_elements(proto: TensorProto, array: Array, dtype: DType) -> None:
    """Give a tensor its elements."""
    if dtype == dtypes.string:
        proto.string_data.extend(_bytes(x) for x in array.reshape(-1))
    else:
        proto.raw_data = _whole_base(array, dtype) or bytes(elements(array, dtype))


def _whole_base(array: Array, dtype: DType) -> bytes | None:
    """The bytes object that an array shows from end to end as it lies there, so that it need not be
    copied.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    fits = isinstance(base, bytes) and len(base) == array.nbytes and dtype.bits >= 8
    return base if fits and array.flags.c_contiguous and array.dtype.isnative else None


def _bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape")


def elements(array: Array, dtype: DType) -> memoryview | bytes:
    """The elements as they lie in a file: little-endian, those below eight bits packed."""
    if array.size == 0:
        return b""
    if dtype.bits < 8:
        return pack(array, dtype)
    little = (
        array.astype(array.dtype.newbyteorder("<"), copy=False)
        if array.dtype.byteorder == ">"
        else array
    )
    flat: Any = np.ascontiguousarray(little).reshape(-1).view(np.uint8)
    return memoryview(flat)


def pack(array: Array, dtype: DType) -> bytes:
    """Elements below eight bits, lowest bits first, without gaps."""
    codes = np.ascontiguousarray(array).reshape(-1, 1).view(np.uint8)
    bits = np.unpackbits(codes, axis=1, bitorder="little", count=dtype.bits)
    return np.packbits(bits.reshape(-1), bitorder="little").tobytes()


def attribute(
    name: str, value: Any, schema: Any, body: Callable[[Graph], GraphProto]
) -> AttributeProto:
    """An attribute, of the type that `schema` states or else of the type of the value."""
    stated = schema.attributes.get(name) if schema is not None else None
    if stated is not None and stated.type != OpSchema.AttrType.SPARSE_TENSOR:
        kind = AttributeProto.AttributeType.Value(str(stated.type).rsplit(".", 1)[-1])
    else:
        kind = _kind(name, value)
    proto = AttributeProto(name=name, type=kind)
    if kind in _LISTS.values():
        elements = value.tolist() if isinstance(value, np.ndarray) else value
        getattr(proto, _FIELDS[kind]).extend(_element(v, body) for v in elements)
    elif isinstance(value, (np.ndarray, Graph, TensorType, *HOLDERS)):
        getattr(proto, _FIELDS[kind]).CopyFrom(_element(value, body))
    else:
        setattr(
            proto,
            _FIELDS[kind],
            float(value) if kind == AttributeProto.FLOAT else _element(value, body),
        )
    return proto


def _kind(name: str, value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return _LISTS[_kind(name, value[0])] if value else AttributeProto.INTS
    if isinstance(value, float):
        return AttributeProto.FLOAT
    if isinstance(value, (int, np.integer, DType)):
        return AttributeProto.INT
    if isinstance(value, (str, bytes)):
        return AttributeProto.STRING
    if isinstance(value, np.ndarray):
        return AttributeProto.TENSOR
    if isinstance(value, Graph):
        return AttributeProto.GRAPH
    if isinstance(value, (TensorType, *HOLDERS)):
        return AttributeProto.TYPE_PROTO
    raise TypeMismatchError(f"attribute {name!r} cannot be a {type(value).__name__} in ONNX")


def _element(value: Any, body: Callable[[Graph], GraphProto]) -> Any:
    if isinstance(value, (str, bytes)):
        return _bytes(value)
    if isinstance(value, np.ndarray):
        return tensor("", value, dtypes.by_numpy(value.dtype))
    if isinstance(value, Graph):
        return body(value)
    if isinstance(value, (TensorType, *HOLDERS)):
        return type_proto(value)
    if isinstance(value, DType):
        return value.onnx
    return value if isinstance(value, float) else int(value)
