"""Element types: one object per type, with its NumPy, ONNX and C names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

from infuse.errors import TypeMismatchError


@dataclass(frozen=True, eq=False)
class DType:
    """An element type; there is one object of each, so that types are compared by identity.

    `name` is the field's usual name, `bits` the storage size of one element (0 for strings),
    `c_name` its C++ spelling in generated code, `onnx` its code in TensorProto.DataType.
    """

    name: str
    numpy: np.dtype[Any]
    bits: int
    c_name: str
    onnx: int
    kind: str

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_signed(self) -> bool:
        return self.kind in "fi"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def is_bool(self) -> bool:
        return self.kind == "b"

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory; types below eight bits are stored one to a byte."""
        return max(1, self.bits // 8)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"infuse.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (by_name, (self.name,))


def _make(name: str, numpy: Any, bits: int, c_name: str, onnx: int, kind: str) -> DType:
    return DType(name, np.dtype(numpy), bits, c_name, onnx, kind)


float32: Final = _make("float32", np.float32, 32, "float", 1, "f")
uint8: Final = _make("uint8", np.uint8, 8, "uint8_t", 2, "u")
int8: Final = _make("int8", np.int8, 8, "int8_t", 3, "i")
uint16: Final = _make("uint16", np.uint16, 16, "uint16_t", 4, "u")
int16: Final = _make("int16", np.int16, 16, "int16_t", 5, "i")
int32: Final = _make("int32", np.int32, 32, "int32_t", 6, "i")
int64: Final = _make("int64", np.int64, 64, "int64_t", 7, "i")
string: Final = _make("string", object, 0, "", 8, "s")
bool_: Final = _make("bool", np.bool_, 8, "bool", 9, "b")
float16: Final = _make("float16", np.float16, 16, "float16", 10, "f")
float64: Final = _make("float64", np.float64, 64, "double", 11, "f")
uint32: Final = _make("uint32", np.uint32, 32, "uint32_t", 12, "u")
uint64: Final = _make("uint64", np.uint64, 64, "uint64_t", 13, "u")
complex64: Final = _make("complex64", np.complex64, 64, "", 14, "c")
complex128: Final = _make("complex128", np.complex128, 128, "", 15, "c")
bfloat16: Final = _make("bfloat16", ml_dtypes.bfloat16, 16, "bfloat16", 16, "f")
float8e4m3fn: Final = _make("float8e4m3fn", ml_dtypes.float8_e4m3fn, 8, "float8e4m3fn", 17, "f")
float8e4m3fnuz: Final = _make(
    "float8e4m3fnuz", ml_dtypes.float8_e4m3fnuz, 8, "float8e4m3fnuz", 18, "f"
)
float8e5m2: Final = _make("float8e5m2", ml_dtypes.float8_e5m2, 8, "float8e5m2", 19, "f")
float8e5m2fnuz: Final = _make(
    "float8e5m2fnuz", ml_dtypes.float8_e5m2fnuz, 8, "float8e5m2fnuz", 20, "f"
)
uint4: Final = _make("uint4", ml_dtypes.uint4, 4, "uint4", 21, "u")
int4: Final = _make("int4", ml_dtypes.int4, 4, "int4", 22, "i")
float4e2m1: Final = _make("float4e2m1", ml_dtypes.float4_e2m1fn, 4, "float4e2m1", 23, "f")
float8e8m0: Final = _make("float8e8m0", ml_dtypes.float8_e8m0fnu, 8, "float8e8m0", 24, "f")
uint2: Final = _make("uint2", ml_dtypes.uint2, 2, "uint2", 25, "u")
int2: Final = _make("int2", ml_dtypes.int2, 2, "int2", 26, "i")
float6e2m3: Final = _make("float6e2m3", ml_dtypes.float6_e2m3fn, 6, "float6e2m3", 27, "f")
float6e3m2: Final = _make("float6e3m2", ml_dtypes.float6_e3m2fn, 6, "float6e3m2", 28, "f")

ALL: Final = (
    float32,
    uint8,
    int8,
    uint16,
    int16,
    int32,
    int64,
    string,
    bool_,
    float16,
    float64,
    uint32,
    uint64,
    complex64,
    complex128,
    bfloat16,
    float8e4m3fn,
    float8e4m3fnuz,
    float8e5m2,
    float8e5m2fnuz,
    uint4,
    int4,
    float4e2m1,
    float8e8m0,
    uint2,
    int2,
    float6e2m3,
    float6e3m2,
)
_BY_NAME: Final = {d.name: d for d in ALL}
_BY_ONNX: Final = {d.onnx: d for d in ALL}
_BY_NUMPY: Final = {d.numpy: d for d in ALL}


def by_name(name: str) -> DType:
    """The type called `name`; TypeMismatchError when there is none."""
    if name not in _BY_NAME:
        raise TypeMismatchError(
            f"there is no element type {name!r}", hint=f"one of: {', '.join(_BY_NAME)}"
        )
    return _BY_NAME[name]


def by_onnx(code: int) -> DType:
    """The type with this TensorProto.DataType code."""
    if code not in _BY_ONNX:
        raise TypeMismatchError(f"element type number {code} of ONNX is not known")
    return _BY_ONNX[code]


def by_numpy(dtype: Any) -> DType:
    """The type that stores as this NumPy dtype (any string dtype gives `string`)."""
    element_type = _BY_NUMPY.get(np.dtype(dtype))
    if element_type is None and np.dtype(dtype).kind in "OUST":
        return string
    if element_type is None:
        raise TypeMismatchError(f"NumPy's {dtype} has no element type here")
    return element_type


def is_half(dtype: DType) -> bool:
    """Whether elements are kept in 16 bits and computed in float32."""
    return dtype.is_float and dtype.bits == 16


def is_narrow(dtype: DType) -> bool:
    """Whether elements are floats of fewer than 32 bits, computed in float32."""
    return dtype.is_float and dtype.bits < 32
