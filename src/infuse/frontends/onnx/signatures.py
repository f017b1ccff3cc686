"""TypeProto → types: element types, symbolic sizes under clean names, sequences, optionals and
maps.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnx import GraphProto, TensorShapeProto, TypeProto, ValueInfoProto

from infuse.errors import InfuseError, ModelFileError
from infuse.frontends.onnx.tensors import element_type
from infuse.ir.dim_text import NAMELESS
from infuse.ir.dims import Dim
from infuse.ir.types import MapType, OptionalType, SequenceType, TensorType, Type
from infuse.tracing.sizes import Sizes


def sizes_of(graph: GraphProto) -> Sizes:
    """The symbolic sizes of a model with this graph."""
    return Sizes(d.dim_param for v in graph.input for d in _shape(v.type) if d.dim_param)


def _shape(proto: TypeProto) -> Iterable[TensorShapeProto.Dimension]:
    return proto.tensor_type.shape.dim if proto.WhichOneof("value") == "tensor_type" else ()


def type_of(info: ValueInfoProto, sizes: Sizes) -> Type | None:
    """The declared type of a value, None when none is declared."""
    if not info.HasField("type") or info.type.WhichOneof("value") is None:
        return None
    try:
        return read_type(info.type, info.name, sizes)
    except InfuseError as error:
        error.within(f"value {info.name!r}")
        raise


def stated_sizes(info: ValueInfoProto) -> list[int | str] | None:
    """The sizes of a tensor as the model writes them, empty texts for unknown ones; None where it
    states none.
    """
    if not info.type.tensor_type.HasField("shape"):
        return None
    sizes = info.type.tensor_type.shape.dim
    return [d.dim_value if d.WhichOneof("value") == "dim_value" else d.dim_param for d in sizes]


def stated_denotations(info: ValueInfoProto) -> list[str]:
    """What the model says each axis of a tensor means (`DATA_BATCH`, say), empty texts for
    nothing.
    """
    return [dim.denotation for dim in info.type.tensor_type.shape.dim]


def read_type(proto: TypeProto, name: str, sizes: Sizes) -> Type:
    """The type that a message states; `name` is where the symbols of unknown sizes get theirs
    from.
    """
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        tensor = proto.tensor_type
        if not tensor.HasField("shape"):
            return TensorType(element_type(tensor.elem_type), None)
        shape = tuple(_size(dim, name, axis, sizes) for axis, dim in enumerate(tensor.shape.dim))
        return TensorType(element_type(tensor.elem_type), shape)
    if kind == "sequence_type":
        return SequenceType(read_type(proto.sequence_type.elem_type, name, sizes))
    if kind == "optional_type":
        return OptionalType(read_type(proto.optional_type.elem_type, name, sizes))
    if kind == "map_type":
        return MapType(
            element_type(proto.map_type.key_type), read_type(proto.map_type.value_type, name, sizes)
        )
    raise ModelFileError(
        f"its type is a {str(kind).removesuffix('_type')}, which has no counterpart here"
        if kind
        else "it has no type",
    )


def _size(dim: TensorShapeProto.Dimension, name: str, axis: int, sizes: Sizes) -> Dim:
    if dim.WhichOneof("value") == "dim_value":
        # Some exporters write -1 for a size that is not known.
        if dim.dim_value < -1:
            raise ModelFileError(f"size {dim.dim_value} of its axis {axis} is negative")
        return dim.dim_value if dim.dim_value >= 0 else sizes.unnamed(name, axis)
    if dim.dim_param in NAMELESS:
        return sizes.unnamed(name, axis, dim.dim_param)
    if dim.dim_param:
        return sizes.named(dim.dim_param)
    return sizes.unnamed(name, axis)
