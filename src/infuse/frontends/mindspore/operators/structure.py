"""Tuples, numbers, sizes and element types."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.errors import ModelFileError
from infuse.frontends.mindspore.calls import MindCall, primitive
from infuse.frontends.mindspore.items import describe
from infuse.ir.graph import Value


@primitive("MakeTuple", "MakeList", "make_list", "make_tuple")
def make_tuple(call: MindCall) -> list[Any]:
    """All operands as one."""
    return [call.item(index) for index in range(len(call.items))]


@primitive("TupleGetItem", "ListGetItem", "RealTupleGetItem", "tuple_getitem", "list_getitem")
def tuple_get_item(call: MindCall) -> Any:
    """One item of a tuple."""
    listed, index = call.item(0), call.number(1)
    if not isinstance(listed, list):
        raise ModelFileError(f"an item of {describe(listed)}, which is not a tuple, is asked for")
    if not isinstance(index, int) or not -len(listed) <= index < len(listed):
        raise ModelFileError(f"item {index} of a tuple of {len(listed)} is asked for")
    return listed[index]


primitive("Shape", "DynamicShape")(lambda call: call.g.sizes_of(call.value(0)))
primitive("TensorShape")(lambda call: call.g("Shape", call.value(0)))
primitive("Rank")(lambda call: call.value(0).rank)
primitive("TensorToTuple", "TensorToList")(lambda call: list(call.listed(call.value(0))))


@primitive("Size")
def size(call: MindCall) -> Any:
    """The number of elements."""
    total: Any = 1
    for count in call.g.sizes_of(call.value(0)):
        total = call.g.calculated("Mul", total, count)
    return total


@primitive("Cast", "ToDtype", "ScalarToTensor", "ScalarCast")
def cast(call: MindCall) -> Any:
    """A tensor or number in another element type."""
    call.ignore(2, 3, "SrcT", "DstT")
    item, number = call.item(0), call.item(1, None)
    if number is None:
        return call.value(0)
    dtype = call.dtype(number)
    if not isinstance(item, Value):
        return call.g.number(call.number(0), dtype)
    return call.g.cast(item, dtype)


@primitive("TupleToTensor", "ListToTensor", "MakeTensor")
def tuple_to_tensor(call: MindCall) -> Value:
    """Numbers as a tensor of one axis."""
    g, dtype = call.g, call.g.dtype
    call.ignore(1)
    items = call.item(0)
    if not isinstance(items, list):
        raise ModelFileError(f"{describe(items)} is not a tuple")
    if not any(isinstance(item, Value) for item in items):
        return g.constant(np.array(items, dtype.numpy))
    parts = [g.shaped(g.tensor(item, dtype), 1) for item in items]
    return parts[0] if len(parts) == 1 else g("Concat", *parts, axis=0)
