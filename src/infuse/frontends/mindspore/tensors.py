"""Tensors and attributes of MindIR as arrays and items."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.files import ExternalFiles
from infuse.frontends.mindspore.items import MONAD, Closure, Item
from infuse.ir.graph import Array, constant
from infuse.tracing.aten.calls import Meta

DTYPES: Final = {
    1: dtypes.float32, 2: dtypes.uint8, 3: dtypes.int8, 4: dtypes.uint16, 5: dtypes.int16,
    6: dtypes.int32, 7: dtypes.int64, 9: dtypes.bool_, 10: dtypes.float16, 11: dtypes.float64,
    12: dtypes.uint32, 13: dtypes.uint64, 14: dtypes.complex64, 15: dtypes.complex128,
    16: dtypes.bfloat16, 17: dtypes.float64,
}  # fmt: skip
"""Element types by their numbers in files."""
TYPE_IDS: Final = {
    30: dtypes.bool_, 32: dtypes.int8, 33: dtypes.int16, 34: dtypes.int32, 35: dtypes.int64,
    37: dtypes.uint8, 38: dtypes.uint16, 39: dtypes.uint32, 40: dtypes.uint64,
    42: dtypes.float16, 43: dtypes.float32, 44: dtypes.float64, 45: dtypes.bfloat16,
}  # fmt: skip
"""Element types by their numbers as arguments of primitives."""
_STRING, _TENSOR, _TENSORS, _TUPLE, _LIST = 8, 17, 19, 20, 21
_MONADS: Final = (23, 24)
_NONE: Final = 25
_GRAPHS: Final = (27, 28)
_CLASS, _NULL = 33, 36
_MOST_AXES: Final = 32
_FEW: Final = {"float_data": 1, "int32_data": 6, "int64_data": 7, "double_data": 11}
"""Fields of single numbers, and the element type of each in files."""


def dtype_of(number: int) -> DType:
    """The element type of this number in a file."""
    dtype = DTYPES.get(number)
    if dtype is None:
        raise UnsupportedOperatorError(f"elements of the type number {number} of MindIR")
    return dtype


def array_of(proto: Any, files: ExternalFiles) -> Array:
    """The elements of a tensor, in the file itself or beside it."""
    name = proto.name or "tensor"
    if proto.compression_type:
        raise UnsupportedOperatorError(
            f"the tensor {name!r} is compressed (compression_type {proto.compression_type})",
            hint="export the model without compressed weights",
        )
    if proto.quant_params:
        raise UnsupportedOperatorError(
            f"the tensor {name!r} is quantized ({proto.quant_params[0].quant_algo_name})",
            hint="export the model before it is quantized",
        )
    dtype, shape = dtype_of(proto.data_type), tuple(proto.dims)
    if len(shape) > _MOST_AXES or any(size < 0 for size in shape):
        raise ModelFileError(f"its shape is {shape[:_MOST_AXES]}", where=f"tensor {name!r}")
    count = math.prod(shape)
    if proto.HasField("external_data"):
        external = proto.external_data
        entries = {"location": external.location, "offset": str(external.offset)}
        if external.length:
            entries["length"] = str(external.length)
        data: Any = files.read(name, entries, count * dtype.numpy.itemsize)
    elif proto.HasField("raw_data"):
        data = proto.raw_data
    else:
        return _listed(proto, dtype, shape)
    if len(data) != count * dtype.numpy.itemsize:
        raise ModelFileError(
            f"its type and shape need {count * dtype.numpy.itemsize} bytes, and it has {len(data)}",
            where=f"tensor {name!r}",
        )
    return np.frombuffer(data, dtype.numpy).reshape(shape)


def _listed(proto: Any, dtype: DType, shape: tuple[int, ...]) -> Array:
    elements: Sequence[Any] = ()
    for field in _FEW:
        elements = elements or list(getattr(proto, field))
    if len(elements) != math.prod(shape):
        raise ModelFileError(
            f"its shape is {shape}, and it has {len(elements)} elements",
            where=f"tensor {proto.name!r}",
        )
    return np.array(elements).astype(dtype.numpy).reshape(shape)


def item_of(proto: Any, files: ExternalFiles) -> Item:
    """What an attribute is."""
    if proto.ref_attr_name:
        raise UnsupportedOperatorError(
            f"the attribute {proto.name!r} is written as MindSpore 1 did",
            hint="load the model with MindSpore 2, and export it again",
        )
    type = proto.type
    if type in (_TUPLE, _LIST):
        return [item_of(value, files) for value in proto.values]
    if type in (_TENSOR, _TENSORS):
        protos = proto.tensors or [proto.t]
        values = [constant(array_of(tensor, files), tensor.name) for tensor in protos]
        return values[0] if len(values) == 1 else values
    if type in _MONADS:
        return MONAD
    if type in _GRAPHS:
        return Closure(proto.s.decode("utf-8", "replace"), (), None)
    if type in (_NONE, _NULL):
        return None
    if type in (_STRING, _CLASS):
        text = _single(proto, "s", "strings")
        return text.decode("utf-8", "replace") if isinstance(text, bytes) else ""
    return _number(proto, dtype_of(type))


def _number(proto: Any, dtype: DType) -> Item:
    fields = ("i", "ints"), ("f", "floats"), ("d", "doubles")
    for one, several in fields:
        number = _single(proto, one, several)
        if number is not None:
            return bool(number) if dtype.is_bool else number
    return dtype


def _single(proto: Any, one: str, several: str) -> Any:
    """A field, or the list that stands for it; None where there is neither."""
    if proto.HasField(one):
        return getattr(proto, one)
    listed = list(getattr(proto, several))
    return None if not listed else listed[0] if len(listed) == 1 else listed


def metas_of(proto: Any) -> list[Meta | None]:
    """What the file says of the results of a node: types of tensors, None for all else."""
    if proto.type == _TUPLE:
        return [meta for value in proto.values for meta in metas_of(value)]
    if proto.type in (_TENSOR, _TENSORS):
        return [_meta(tensor) for tensor in proto.tensors or [proto.t]]
    return [None]


def _meta(proto: Any) -> Meta:
    sizes = tuple(None if size < 0 else int(size) for size in proto.dims)
    return Meta(dtype_of(proto.data_type), sizes)
