"""Constants, sizes, and tensors that a shape or limits make."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError
from infuse.frontends.paddle.calls import PaddleCall, operator
from infuse.ir.graph import Value

_SMALL: Final = 1 << 12
"""Elements that a constant may have instead of an Expand."""
_STORED: Final = ("values", "fp32_values", "int32_values", "int64_values", "bool_values",
                  "fp64_values", "int8_values")  # fmt: skip


def filled(call: PaddleCall, shape: Value, value: Value) -> Value:
    """A tensor of one element again and again."""
    sizes = shape.const
    if sizes is None or value.const is None:
        return call.g("Expand", value, shape)
    if (sizes < 0).any():
        raise ModelFileError(f"a size is {sizes.min()}")
    if math.prod(sizes.tolist()) > _SMALL:
        return call.g("Expand", value, shape)
    return call.g.constant(np.full(sizes.tolist(), value.const.reshape(-1)[0], value.dtype.numpy))


def _number(text: Any) -> Any:
    """The number in an attribute, which is text for what floats cannot hold."""
    if not isinstance(text, str):
        return text
    try:
        return int(text)
    except ValueError:
        return float(text)


@operator("full")
def full(call: PaddleCall) -> Value:
    """A tensor of one element again and again."""
    dtype = call.dtype() or dtypes.float32
    text, value = call.attribute("str_value", ""), call.attribute("value", 0.0)
    if call.has("value"):
        element = call.g("Reshape", call.g.cast(call("value"), dtype), call.g.ints())
    else:
        number = _number(text or value)
        if not dtype.is_float and not math.isfinite(number):
            raise ModelFileError(f"its element {number} is no {dtype}")
        element = call.g.number(number, dtype)
    return filled(call, call.listed("shape", []), element)


@operator("full_int_array")
def full_int_array(call: PaddleCall) -> Value:
    """A list of integers."""
    dtype = call.dtype() or dtypes.int64
    return call.g.constant(np.array(call.attribute("value", []), dtype.numpy))


@operator("full_with_tensor")
def full_with_tensor(call: PaddleCall) -> Value:
    """A tensor of one element, which is an operand, again and again."""
    value = call("value")
    value = call.g.cast(value, call.dtype() or value.dtype)
    return filled(call, call.listed("shape", []), call.g.reshape(value))


def _like(call: PaddleCall, x: Value, number: Any) -> Value:
    dtype = call.dtype() or x.dtype
    return call.g("Expand", call.g.number(number, dtype), call.g("Shape", x))


@operator("full_like")
def full_like(call: PaddleCall) -> Value:
    """A tensor of the same shape, of one element."""
    return _like(call, call("x"), call.number("value", 0.0))


@operator("zeros_like", "ones_like")
def zeros_like(call: PaddleCall) -> Value:
    """A tensor of the same shape, of zeros or ones."""
    return _like(call, call("x"), int(call.operator.name == "ones_like"))


@operator("full_batch_size_like")
def full_batch_size_like(call: PaddleCall) -> Value:
    """A tensor of one element, with one size of another tensor."""
    g, x = call.g, call("input")
    sizes: list[Any] = list(call.ints("shape"))
    source, target = (int(call.attribute(f"{n}_dim_idx", 0)) for n in ("input", "output"))
    sizes[target] = g.size_of(x, source)
    text, value = call.attribute("str_value", ""), call.attribute("value", 0.0)
    element = g.number(_number(text or value), call.dtype() or dtypes.float32)
    return g("Expand", element, g.ints(*sizes))


@operator("eye")
def eye(call: PaddleCall) -> Value:
    """Ones on the diagonal."""
    rows, columns = call.integer("num_rows"), call.integer("num_columns", -1)
    columns = rows if columns < 0 else columns
    if not 0 <= rows * columns <= 1 << 24:
        raise ModelFileError(f"it makes {rows} rows of {columns}")
    dtype = call.dtype() or dtypes.float32
    return call.g.constant(np.eye(rows, columns, dtype=dtype.numpy))


@operator("assign_value")
def assign_value(call: PaddleCall) -> Value:
    """The elements that stand in the program."""
    lists: list[list[Any]] = [call.attribute(name, []) for name in _STORED]
    shape, dtype = call.ints("shape", []), call.dtype()
    values: list[Any] = next(filter(None, lists), [])
    if dtype is None or math.prod(shape) != len(values):
        raise ModelFileError(f"it has {len(values)} elements of the shape {shape}")
    return call.g.constant(np.array(values).astype(dtype.numpy).reshape(shape))


@operator("shape", "shape64")
def shape_(call: PaddleCall) -> Value:
    """The sizes of a tensor."""
    return call.g.cast(call.g("Shape", call("input")), call.dtype() or dtypes.int64)


operator("numel")(lambda call: call.g("Size", call("x")))


def _ends(call: PaddleCall, names: tuple[str, ...], dtype: DType) -> list[Value]:
    """Numbers in operands or attributes as scalars."""
    g = call.g
    return [
        g.reshape(g.cast(call(name), dtype))
        if call.has(name)
        else g.number(call.attribute(name), dtype)
        for name in names
    ]


@operator("arange")
def arange(call: PaddleCall) -> Value:
    """Numbers from one to another in steps."""
    names = ("start", "end", "step")
    dtype = call.dtype() or (call("start").dtype if call.has("start") else dtypes.int64)
    return call.g("Range", *_ends(call, names, dtype))


@operator("linspace")
def linspace(call: PaddleCall) -> Value:
    """A number of places between two, with both."""
    start, stop, count = call.number("start"), call.number("stop"), call.integer("number")
    if not 0 < count <= 1 << 24:
        raise ModelFileError(f"it makes {count} places")
    dtype = call.dtype() or dtypes.float32
    return call.g.constant(np.linspace(start, stop, count).astype(dtype.numpy))
