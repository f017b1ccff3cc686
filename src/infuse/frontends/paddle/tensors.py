"""The tensors of `.pdiparams` and of files of one parameter each, mapped in place."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Final

import numpy as np

from infuse.dtypes import DType
from infuse.errors import ModelFileError
from infuse.frontends.paddle.messages import DTYPES, MESSAGES
from infuse.frontends.protobuf import parse
from infuse.ir.graph import Array

_HINT: Final = "the file was cut off, or belongs to another model; fetch or export it again"
_RANKS: Final = 64


class Tensors:
    """The tensors in a file, one after another."""

    def __init__(self, data: memoryview, where: str) -> None:
        self._data, self._where, self._place = data, where, 0

    def next(self, name: str) -> Array:
        """The next tensor, which is this parameter."""
        try:
            return self._tensor()
        except ModelFileError as error:
            error.within(f"parameter {name!r}")
            raise

    def all(self, names: Iterable[str]) -> dict[str, Array]:
        """All tensors of the file under these names; ModelFileError where there are more."""
        tensors = {name: self.next(name) for name in names}
        if self._place != len(self._data):
            left = len(self._data) - self._place
            raise self._error(f"{left} bytes are left behind the last parameter")
        return tensors

    def _error(self, what: str) -> ModelFileError:
        return ModelFileError(what, where=self._where, hint=_HINT)

    def _bytes(self, size: int) -> memoryview:
        part = self._data[self._place : self._place + size]
        if size < 0 or len(part) != size:
            raise self._error(f"it needs {size} bytes at {self._place} of {len(self._data)}")
        self._place += size
        return part

    def _number(self, form: str) -> int:
        (value,) = struct.unpack(form, self._bytes(struct.calcsize(form)))
        return int(value)

    def _tensor(self) -> Array:
        if self._number("<I"):
            raise self._error("a tensor is of an unknown version")
        for _ in range(self._levels()):
            self._bytes(self._number("<Q"))
        if self._number("<I"):
            raise self._error("a tensor is of an unknown version")
        size = self._number("<i")
        described = parse(
            MESSAGES["TensorDesc"], self._bytes(size), self._where, "a tensor's description"
        )
        return self._elements(self._dtype(described.data_type), tuple(described.dims))

    def _levels(self) -> int:
        levels = self._number("<Q")
        if levels > _RANKS:
            raise self._error(f"a tensor has {levels} levels of details")
        return levels

    def _dtype(self, number: int) -> DType:
        dtype = DTYPES.get(number)
        if dtype is None:
            raise self._error(f"a tensor has elements of the type {number}, which is not supported")
        return dtype

    def _elements(self, dtype: DType, shape: tuple[int, ...]) -> Array:
        if any(size < 0 for size in shape) or len(shape) > _RANKS:
            raise self._error(f"a tensor has the shape {list(shape)[:8]}")
        data = self._bytes(math.prod(shape) * dtype.bytes)
        elements: Array = np.frombuffer(data, dtype.numpy).reshape(shape)
        return elements
