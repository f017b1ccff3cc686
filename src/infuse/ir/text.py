"""Words of the text form: dimensions, types, elements and attribute values.

`printer` and `parser` are built on these; each word can be read back exactly.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import GraphError
from infuse.ir import dims
from infuse.ir.dims import Dim, Expr
from infuse.ir.equality import raw_bytes, same_array
from infuse.ir.graph import Array, Value
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

PLAIN = re.compile(r"[^\W\d]\w*")
DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
NOT_IN_VALUE_NAMES = re.compile(r"[^\w./-]+")


def quote(text: str) -> str:
    """`text` in double quotes with JSON's escapes; everything unprintable is escaped."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def word(text: str, plain: re.Pattern[str] = PLAIN) -> str:
    """`text` as it is where it is a plain identifier, else quoted."""
    return text if plain.fullmatch(text) else quote(text)


def dim_text(dim: Dim) -> str:
    """A dimension as text; symbols that are no identifiers are quoted. GraphError for one that
    fills pages.
    """
    if "…" in str(dim) and not any("…" in name for name in dims.symbols(dim)):
        raise GraphError(
            "a size is too long to be written",
            hint="it grows with every operator that computes with it",
        )
    odd = {
        name: dims.symbol(quote(name)) for name in dims.symbols(dim) if not PLAIN.fullmatch(name)
    }
    return str(dims.substitute(dim, odd) if odd else dim)


def type_text(type: Type) -> str:
    """A type as text: `float32[batch, 3]@NHWC`, `int64[?]` (rank unknown), `seq(…)`, `optional(…)`,
    `map(int64, …)`, `state(…)`.
    """
    if isinstance(type, SequenceType):
        return f"seq({type_text(type.element)})"
    if isinstance(type, OptionalType):
        return f"optional({type_text(type.element)})"
    if isinstance(type, MapType):
        return f"map({type.key}, {type_text(type.element)})"
    if isinstance(type, StateType):
        return f"state({type_text(type.element)})"
    shape = "?" if type.shape is None else ", ".join(map(dim_text, type.shape))
    suffix = "" if type.format is DataFormat.ND else f"@{type.format.value}"
    return f"{type.dtype}[{shape}]{suffix}"


def content_text(value: Value) -> str:
    """What is known of the elements of a value that is no constant: `{batch, 3}`, or nothing."""
    if value.content is None or value.is_const:
        return ""
    is_bool = isinstance(value.type, TensorType) and value.type.dtype.is_bool
    elements = value.content.reshape(-1).tolist()
    words = [str(bool(x)) if is_bool and not isinstance(x, Expr) else dim_text(x) for x in elements]
    return f"{{{', '.join(words)}}}"


def array_text(array: Array, dtype: DType) -> str | None:
    """`float32[2]{1.0, 2.0}`, or None where elements as text would not keep every bit."""
    elements = _element_texts(array, dtype)
    if elements is None:
        return None
    return f"{type_text(TensorType(dtype, array.shape))}{{{', '.join(elements)}}}"


def _element_texts(array: Array, dtype: DType) -> list[str] | None:
    if dtype.kind == "c":
        return None
    if dtype.kind == "s":
        strings = array.reshape(-1).tolist()
        return [quote(s) for s in strings] if all(type(s) is str for s in strings) else None
    if not dtype.is_float:
        return [str(x) for x in array.reshape(-1).tolist()]
    texts = [_real_text(x, dtype) for x in array.reshape(-1)]
    again = np.array([float(t) for t in texts]).astype(dtype.numpy)
    return texts if same_array(again, array.reshape(-1)) else None


def _real_text(element: Any, dtype: DType) -> str:
    """The shortest text that reads back as the same number of this type."""
    number, short = float(element), str(element)
    is_exact = "." in short and float(dtype.numpy.type(float(short))) == number
    return short if is_exact else repr(number)


def read_elements(elements: list[Any], dtype: DType, shape: tuple[int, ...]) -> Array:
    """The array of these Python numbers, booleans or strings; TypeError, ValueError or
    OverflowError when they do not fit.
    """
    allowed: dict[str, tuple[type, ...]] = {
        "f": (int, float),
        "i": (int,),
        "u": (int,),
        "b": (bool,),
        "s": (str,),
    }
    array = np.empty(len(elements), dtype=dtype.numpy)
    for index, element in enumerate(elements):
        if type(element) not in allowed.get(dtype.kind, ()):
            raise TypeError(f"{element!r} is not an element of {dtype}")
        array[index] = element
    return array.reshape(shape)


def content_hash(array: Array, dtype: DType) -> str:
    """Sixteen hexadecimal digits that stand for element type, shape and bytes of an array."""
    digest = hashlib.blake2b(f"{dtype}{list(array.shape)}".encode(), digest_size=8)
    if dtype.kind == "s":
        for text in array.reshape(-1).tolist():
            encoded = str(text).encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
    else:
        digest.update(raw_bytes(array).data)
    return digest.hexdigest()


def attribute_text(value: Any) -> str:
    """An attribute value; GraphError for one that has no text form."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, np.generic):
        return attribute_text(value.item())
    if isinstance(value, DataFormat):
        return f"@{value.value}"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, bytes):
        return f'hex"{value.hex()}"'
    if isinstance(value, DType):
        return value.name
    if isinstance(value, Expr):
        return f"<{dim_text(value)}>"
    if isinstance(value, (TensorType, *HOLDERS)):
        return type_text(value)
    if isinstance(value, tuple):
        items = ", ".join(map(attribute_text, value))
        return f"({items},)" if len(value) == 1 else f"({items})"
    if isinstance(value, np.ndarray):
        return _array_attribute(value)
    raise GraphError(f"an attribute that is a {type(value).__name__} has no text form")


def _array_attribute(array: Array) -> str:
    dtype = dtypes.by_numpy(array.dtype)
    exact = array_text(array, dtype)
    if exact is None and dtype.kind == "s":
        raise GraphError(
            "an attribute that is an array of objects other than text has no text form"
        )
    return (
        exact
        or f'{type_text(TensorType(dtype, array.shape))}hex"{raw_bytes(array).tobytes().hex()}"'
    )
