"""TensorProto → arrays: views of the file where its bytes allow, each tensor checked against its
type and shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from onnx import SparseTensorProto, TensorProto

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import InfuseError, ModelFileError
from infuse.frontends.files import ExternalFiles
from infuse.frontends.onnx.wire import Payloads

Array = npt.NDArray[Any]
DENSE_LIMIT: Final = 2**31
"""Most elements that a sparse tensor may have when it is written out in full."""
_MAX_RANK: Final = 64
_MAX_SIZE: Final = 2**56

_FIELDS: Final = {
    "float32": "float_data",
    "complex64": "float_data",
    "float64": "double_data",
    "complex128": "double_data",
    "uint32": "uint64_data",
    "uint64": "uint64_data",
    "int64": "int64_data",
    "string": "string_data",
}
_STORAGE: Final = {
    "float_data": np.float32,
    "double_data": np.float64,
    "uint64_data": np.uint64,
    "int64_data": np.int64,
    "int32_data": np.int32,
}


@dataclass
class Tensors:
    """Reads the tensors of one model: from the message, from the mapped file, or from files beside
    it.
    """

    files: ExternalFiles
    payloads: Payloads = field(default_factory=Payloads)

    def array(self, tensor: TensorProto) -> Array:
        """The elements of `tensor`; ModelFileError when they do not fit its type and shape."""
        try:
            return self._array(tensor)
        except InfuseError as error:
            if not (error.where or "").startswith("tensor"):
                error.within(f"tensor {tensor.name!r}")
            raise

    def _array(self, tensor: TensorProto) -> Array:
        dtype = element_type(tensor.data_type)
        shape = checked_shape(tensor.dims)
        if tensor.HasField("segment"):
            raise ModelFileError("it is stored in segments, which ONNX gave up")
        if tensor.data_location == TensorProto.EXTERNAL:
            if dtype == dtypes.string:
                raise ModelFileError("strings cannot lie in external data")
            entries = {entry.key: entry.value for entry in tensor.external_data}
            data = self.files.read(tensor.name, entries, stored_bytes(dtype, math.prod(shape)))
            return from_bytes(data, dtype, shape)
        if tensor.HasField("raw_data"):
            if dtype == dtypes.string:
                raise ModelFileError("strings cannot be raw data")
            return from_bytes(self.payloads.take(tensor.raw_data), dtype, shape)
        return from_fields(tensor, dtype, shape)

    def dense(self, sparse: SparseTensorProto) -> Array:
        """The elements of a sparse tensor with its zeros written out."""
        name = sparse.values.name
        values, indices = self.array(sparse.values), self.array(sparse.indices)
        shape = checked_shape(sparse.dims)
        if math.prod(shape) > DENSE_LIMIT:
            raise ModelFileError(
                f"written out in full it would have {math.prod(shape)} elements, more than "
                f"{DENSE_LIMIT}",
                where=f"sparse tensor {name!r}",
            )
        if values.dtype.kind == "O" or indices.dtype != np.int64 or values.ndim != 1:
            raise ModelFileError(
                "it needs one list of numbers and int64 indices", where=f"sparse tensor {name!r}"
            )
        result = np.zeros(shape, dtype=values.dtype)
        try:
            if indices.shape == values.shape:
                result.reshape(-1)[indices] = values
            elif indices.shape == (len(values), len(shape)):
                result[tuple(indices.T)] = values
            else:
                raise ModelFileError(
                    f"{len(values)} values come with indices of shape {list(indices.shape)}",
                    where=f"sparse tensor {name!r}",
                )
        except IndexError as error:
            raise ModelFileError(
                f"an index lies outside: {error}", where=f"sparse tensor {name!r}"
            ) from error
        return result


def element_type(code: int) -> DType:
    """The element type of an ONNX code; ModelFileError for one that does not exist."""
    try:
        return dtypes.by_onnx(code)
    except InfuseError as error:
        raise ModelFileError(
            f"there is no element type number {code}" if code else "it has no element type",
            hint="the file is damaged, or newer than this release" if code else None,
        ) from error


def checked_shape(sizes: Sequence[int]) -> tuple[int, ...]:
    """Sizes as a shape; ModelFileError for negative ones and for more than arrays can have."""
    shape = tuple(sizes)
    if any(size < 0 for size in shape):
        raise ModelFileError(f"its shape {list(shape)} has a negative size")
    if len(shape) > _MAX_RANK:
        raise ModelFileError(f"it has {len(shape)} dimensions, more than {_MAX_RANK}")
    if math.prod(size for size in shape if size) >= _MAX_SIZE:
        raise ModelFileError(f"its shape {list(shape)} is larger than any memory")
    return shape


def stored_bytes(dtype: DType, count: int) -> int:
    """Bytes that `count` elements take in raw data, where types below eight bits are packed."""
    return (count * dtype.bits + 7) // 8


def from_bytes(data: bytes | memoryview, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Raw elements as an array that shares their memory (but for packed types, which are
    unpacked).
    """
    expected = stored_bytes(dtype, math.prod(shape))
    if len(data) != expected:
        raise ModelFileError(
            f"{dtype} of shape {list(shape)} needs {expected} bytes, there are {len(data)}",
            hint="the file was cut off or damaged; fetch or export it again",
        )
    if dtype.bits < 8:
        return unpack(np.frombuffer(data, np.uint8), dtype, shape)
    if dtype.is_bool:
        codes = np.frombuffer(data, np.uint8)
        data = data if codes.max(initial=0) <= 1 else (codes != 0).tobytes()
    return np.frombuffer(data, dtype.numpy).reshape(shape)


def unpack(data: Array, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Elements below eight bits, packed lowest bits first, one to a byte."""
    count = math.prod(shape)
    bits = np.unpackbits(data, bitorder="little", count=count * dtype.bits).reshape(
        count, dtype.bits
    )
    codes: Array = np.packbits(bits, axis=1, bitorder="little").reshape(shape)
    return codes.view(dtype.numpy)


def from_fields(tensor: TensorProto, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Elements from the typed fields (float_data and the like) of a tensor."""
    name = _FIELDS.get(dtype.name, "int32_data")
    elements = getattr(tensor, name)
    count = math.prod(shape)
    expected = (
        count * 2
        if dtype.kind == "c"
        else stored_bytes(dtype, count)
        if dtype.bits in (2, 4)
        else count
    )
    if len(elements) != expected:
        raise ModelFileError(
            f"{dtype} of shape {list(shape)} needs {expected} elements in {name}, there are "
            f"{len(elements)}",
            hint="the file was cut off or damaged; fetch or export it again"
            if not len(elements)
            else None,
        )
    if dtype == dtypes.string:
        texts = np.empty(count, dtype=object)
        texts[:] = [text.decode("utf-8", "surrogateescape") for text in elements]
        return texts.reshape(shape)
    data = np.array(elements, dtype=_STORAGE[name])
    if dtype.bits in (2, 4):
        return unpack(data.astype(np.uint8), dtype, shape)
    if dtype.kind == "c":
        return data.view(dtype.numpy).reshape(shape)
    if name == "int32_data" and dtype.kind in "fb":
        codes = data.astype(f"u{dtype.bytes}")
        return (codes if dtype.bits != 6 else codes & 0x3F).view(dtype.numpy).reshape(shape)
    return data.astype(dtype.numpy, copy=False).reshape(shape)
