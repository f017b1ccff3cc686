"""A TensorFlow Lite model as its file has it: subgraphs of operators over tensors, constants in
their places of the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.tflite.schema import (
    DTYPES,
    OPERATORS,
    OPTIONS,
    OPTIONS2,
    TABLES,
    TYPE_NAMES,
)
from infuse.frontends.tflite.sparse import densify
from infuse.frontends.tflite.wire import Record, Wire
from infuse.ir.graph import Array

VERSION: Final = 3
QUANTIZED: Final = (
    dtypes.int8,
    dtypes.uint8,
    dtypes.int16,
    dtypes.int4,
    dtypes.uint4,
    dtypes.int2,
)
"""Element types that stand for real numbers where a tensor has a scale."""


@dataclass(frozen=True)
class Quantization:
    """Scales and zero points: one of each, or one for each index of `axis`."""

    scale: Array
    zero: Array
    axis: int

    @property
    def single(self) -> bool:
        """Whether there is one scale for the whole tensor."""
        return self.scale.size == 1

    def same(self, other: Quantization | None) -> bool:
        """Whether numbers mean the same under both."""
        return (
            other is not None
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero, other.zero)
            and (self.single or self.axis == other.axis)
        )


@dataclass(eq=False)
class LiteTensor:
    """A tensor of a subgraph. `signature` is its shape with -1 for sizes that are not fixed."""

    name: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    type: int
    quantization: Quantization | None
    variable: bool
    record: Record = field(repr=False)

    @property
    def dtype(self) -> DType:
        """Its element type; UnsupportedOperatorError for one that there is not here."""
        dtype = DTYPES.get(self.type)
        if dtype is None:
            name = TYPE_NAMES.get(self.type, f"number {self.type}")
            raise UnsupportedOperatorError(
                f"tensor {self.name!r} has elements of type {name}, which Infuse does not have"
            )
        return dtype

    @cached_property
    def quantized(self) -> bool:
        """Whether its elements stand for real numbers by a scale."""
        return self.quantization is not None and DTYPES.get(self.type) in QUANTIZED


@dataclass(frozen=True)
class LiteOperator:
    """A call of an operator: numbers of tensors (-1 where an operand is left out), options."""

    name: str
    number: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Record | None
    custom_options: bytes = b""


@dataclass(frozen=True)
class Subgraph:
    """Operators in the order in which they run."""

    name: str
    tensors: list[LiteTensor]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: list[LiteOperator]


@dataclass(frozen=True)
class LiteSignature:
    """The names that callers have for inputs and outputs of a subgraph, by tensor."""

    inputs: dict[int, str]
    outputs: dict[int, str]
    subgraph: int


class LiteModel:
    """One file."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._wire = Wire(data, TABLES)
        self._model = self._wire.root("Model")
        if self._model["version"] != VERSION:
            raise ModelFileError(
                f"it has version {self._model['version']} of the format, and {VERSION} is read"
            )
        self._codes = [_code(record) for record in self._model["operator_codes"] or []]
        self._subgraphs: dict[int, Subgraph] = {}

    @cached_property
    def signatures(self) -> list[LiteSignature]:
        """The signatures of the model."""
        return [
            LiteSignature(_mapped(s["inputs"]), _mapped(s["outputs"]), s["subgraph_index"])
            for s in self._model["signature_defs"] or []
        ]

    def subgraph(self, index: int) -> Subgraph:
        """A subgraph by its number; the first one is the model."""
        records = self._model["subgraphs"] or []
        if not 0 <= index < len(records):
            raise ModelFileError(f"there is no subgraph {index}; there are {len(records)}")
        if index not in self._subgraphs:
            record = records[index]
            tensors = [self._tensor(entry) for entry in record["tensors"] or []]
            inputs, outputs = (_numbers(record[p], len(tensors)) for p in _PARTS)
            operators = [
                self._operator(number, entry, len(tensors))
                for number, entry in enumerate(record["operators"] or [])
            ]
            self._subgraphs[index] = Subgraph(record["name"], tensors, inputs, outputs, operators)
        return self._subgraphs[index]

    # -- tensors -----------------------------------------------------------------------------------

    def _tensor(self, record: Record) -> LiteTensor:
        name = record["name"] or "tensor"
        shape, signature = _sizes(record["shape"]), _sizes(record["shape_signature"])
        if any(size < 0 for size in shape) or (signature and len(signature) != len(shape)):
            raise ModelFileError(f"tensor {name!r} has the shape {list(shape)} {list(signature)}")
        quantization = _quantization(name, record["quantization"], shape)
        signature = signature or shape
        variable = record["is_variable"]
        return LiteTensor(name, shape, signature, record["type"], quantization, variable, record)

    def elements(self, tensor: LiteTensor) -> Array | None:
        """The elements of a constant, not copied where they need no unpacking; None for another."""
        record = tensor.record
        if record["external_buffer"]:
            raise UnsupportedOperatorError(
                f"tensor {tensor.name!r} lies in another file (an external buffer)",
                hint="convert the model with its weights inside",
            )
        data = self._buffer(record["buffer"])
        if not data:
            return None
        dtype = tensor.dtype
        sparsity = record["sparsity"]
        if sparsity is not None:
            stored = self._unpacked(tensor, data, len(data) * 8 // dtype.bits)
            return densify(stored, tensor.shape, sparsity, self._wire)
        return self._unpacked(tensor, data, math.prod(tensor.shape)).reshape(tensor.shape)

    def _unpacked(self, tensor: LiteTensor, data: memoryview, count: int) -> Array:
        dtype = tensor.dtype
        if dtype == dtypes.string:
            return self._texts(tensor, data, count)
        size = -(-count * dtype.bits // 8)
        if size != len(data):
            raise ModelFileError(
                f"its shape {list(tensor.shape)} of {dtype} needs {size} bytes, its buffer has "
                f"{len(data)}",
                where=f"tensor {tensor.name!r}",
            )
        if dtype.bits >= 8:
            array = np.frombuffer(data, dtype.numpy)
            return array if array.flags.aligned else array.copy()
        parts = 8 // dtype.bits
        shifts = np.arange(parts, dtype=np.uint8) * dtype.bits
        nibbles = (np.frombuffer(data, np.uint8)[:, None] >> shifts) & ((1 << dtype.bits) - 1)
        numbers = nibbles.reshape(-1)[:count].astype(np.int8)
        if dtype.is_signed:
            half = 1 << (dtype.bits - 1)
            numbers = (numbers ^ half) - half
        return numbers.astype(dtype.numpy)

    def _texts(self, tensor: LiteTensor, data: memoryview, count: int) -> Array:
        """Strings: their number, where each begins and the last ends, and their bytes."""
        head = np.frombuffer(data[: (count + 2) * 4], "<i4")
        if len(head) != count + 2 or head[0] != count:
            raise ModelFileError(
                f"its shape {list(tensor.shape)} has {count} strings, its buffer others",
                where=f"tensor {tensor.name!r}",
            )
        ends = head[1:].tolist()
        if sorted(ends) != ends or ends[0] < 0 or ends[-1] > len(data):
            raise ModelFileError(
                f"its strings end at {ends[:8]} of {len(data)} bytes",
                where=f"tensor {tensor.name!r}",
            )
        texts = np.empty(count, object)
        for index, (begin, end) in enumerate(pairwise(ends)):
            texts[index] = bytes(data[begin:end]).decode("utf-8", "surrogateescape")
        return texts

    def _buffer(self, index: int) -> memoryview:
        buffers = self._model["buffers"] or []
        if not 0 <= index < len(buffers):
            raise ModelFileError(f"there is no buffer {index}; there are {len(buffers)}")
        record = buffers[index]
        if record["offset"] > 1:
            begin, end = record["offset"], record["offset"] + record["size"]
            if end > len(self._data):
                raise ModelFileError(
                    f"buffer {index} ends at byte {end}, the file at {len(self._data)}",
                    hint="the file was cut off; fetch it again",
                )
            return self._data[begin:end]
        return memoryview(b"" if record["data"] is None else record["data"]).cast("B")

    # -- operators ---------------------------------------------------------------------------------

    def _operator(self, number: int, record: Record, tensors: int) -> LiteOperator:
        index = record["opcode_index"]
        if not 0 <= index < len(self._codes):
            raise ModelFileError(f"operator {number} has the code {index} of {len(self._codes)}")
        return LiteOperator(
            self._codes[index],
            number,
            _numbers(record["inputs"], tensors, optional=True),
            _numbers(record["outputs"], tensors),
            self._options(record),
            b"" if record["custom_options"] is None else bytes(record["custom_options"]),
        )

    def _options(self, record: Record) -> Record | None:
        for part, names in (("options", OPTIONS), ("options2", OPTIONS2)):
            position, kind = record[part], record[f"{part}_type"]
            if position is not None and kind:
                table = names.get(kind, "")
                return self._wire.table(table, position) if table in TABLES else None
        return None


_PARTS: Final = ("inputs", "outputs")


def _mapped(entries: list[Record] | None) -> dict[int, str]:
    """The names of a signature by tensor."""
    return {entry["tensor_index"]: entry["name"] for entry in entries or []}


def _code(record: Record) -> str:
    """The name of an operator; that of a custom one after `CUSTOM `."""
    number = max(record["deprecated_builtin_code"], record["builtin_code"])
    if not 0 <= number < len(OPERATORS):
        return f"operator number {number}"
    name = OPERATORS[number]
    return f"{name} {record['custom_code']}" if name == "CUSTOM" else name


def _sizes(values: Array | None) -> tuple[int, ...]:
    return () if values is None else tuple(values.tolist())


def _numbers(values: Any, count: int, optional: bool = False) -> tuple[int, ...]:
    numbers = _sizes(values)
    least = -1 if optional else 0
    if any(not least <= number < count for number in numbers):
        raise ModelFileError(f"it has no tensors {list(numbers)}; there are {count}")
    return numbers


def _quantization(name: str, record: Record | None, shape: tuple[int, ...]) -> Quantization | None:
    if record is None:
        return None
    if record["details_type"] > 1:
        raise UnsupportedOperatorError(
            f"tensor {name!r} is quantized by blocks, which is not supported"
        )
    scale = record["scale"]
    if scale is None or not scale.size:
        return None
    zero, axis = record["zero_point"], record["quantized_dimension"]
    zero = np.zeros(scale.size, np.int64) if zero is None or not zero.size else zero
    if zero.size == 1:
        zero = np.broadcast_to(zero, scale.shape)
    size = shape[axis] if 0 <= axis < len(shape) else 1
    if zero.size != scale.size or scale.size not in (1, size):
        raise ModelFileError(
            f"it has {scale.size} scales and {zero.size} zero points along axis {axis} of "
            f"{list(shape)}",
            where=f"tensor {name!r}",
        )
    return Quantization(scale, zero, axis)
