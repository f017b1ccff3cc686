"""torch's numbers of element types (`c10::ScalarType`), which programs of TorchScript name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import UnsupportedOperatorError

DTYPES: Final[Mapping[int, DType]] = {
    0: dtypes.uint8, 1: dtypes.int8, 2: dtypes.int16, 3: dtypes.int32, 4: dtypes.int64,
    5: dtypes.float16, 6: dtypes.float32, 7: dtypes.float64, 9: dtypes.complex64,
    10: dtypes.complex128, 11: dtypes.bool_, 15: dtypes.bfloat16, 23: dtypes.float8e5m2,
    24: dtypes.float8e4m3fn, 25: dtypes.float8e5m2fnuz, 26: dtypes.float8e4m3fnuz,
    27: dtypes.uint16, 28: dtypes.uint32, 29: dtypes.uint64,
}  # fmt: skip
"""By number."""
_NUMBERS: Final = {dtype: number for number, dtype in DTYPES.items()}
QUANTIZED: Final[Mapping[int, DType]] = {12: dtypes.int8, 13: dtypes.uint8, 14: dtypes.int32}
"""Types of the integers of quantized tensors, by number."""


def dtype_of(number: Any) -> DType:
    """The element type of a number; a type is itself."""
    if isinstance(number, DType):
        return number
    dtype = DTYPES.get(number) if type(number) is int else None
    if dtype is None:
        raise UnsupportedOperatorError(f"element type {number!r} of torch is not supported")
    return dtype


def number_of(dtype: DType) -> int:
    """Torch's number of an element type."""
    return _NUMBERS[dtype]
