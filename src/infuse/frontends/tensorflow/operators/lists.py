"""Lists of tensors (`TensorList…`) and arrays of them (`TensorArray…V3`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.frontends.tensorflow.tensors import shape_of
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.tracing.importer import Importer
from infuse.tracing.items import Elements, Item
from infuse.tracing.loops import zeros


def _stated(call: FlowCall, index: int) -> tuple[Dim | None, ...] | None:
    """The shape of an element as an operand says it; -1 is unknown."""
    value = call.raw(index)
    if value.rank == 0:
        return None
    return tuple(None if size == -1 else size for size in call.numbers(index))


def _count(g: Importer, value: Value) -> Value:
    return g.cast(value, dtypes.int64)


def _rows(g: Importer, elements: Elements) -> Value:
    """All elements, zeros where nothing has been written."""
    if elements.value is not None:
        return elements.value
    return zeros(g, elements, elements.shape, [])


def _length(g: Importer, elements: Elements) -> Value:
    if elements.value is None:
        return elements.count
    listed = g("Shape", elements.value, start=0, end=1)
    return g("Squeeze", listed, g.ints(0))


def _written(g: Importer, elements: Elements, index: Value, value: Value) -> Elements:
    """A list with another element at a place."""
    rows = elements.value
    if rows is None:
        rows = _unlike(g, elements, value)
    at = g("Reshape", g.cast(index, dtypes.int64), g.ints(1, 1))
    if elements.growing:
        flat = g("Reshape", at, g.ints(1))
        count = g("Shape", rows, start=0, end=1)
        more = g("Max", g("Sub", g("Add", flat, 1), count), 0)
        pads = g("Concat", g.ints(0), more, axis=0)
        rows = g("Pad", rows, pads, None, g.ints(0))
    return elements.of(g("ScatterND", rows, at, g("Unsqueeze", value, g.ints(0))))


def _unlike(g: Importer, elements: Elements, value: Value) -> Value:
    """Zeros for all elements of a list, of the shape of one."""
    count = g("Reshape", elements.count, g.ints(1))
    shape = g("Concat", count, g.ints(*(g.size_of(value, a) for a in range(value.rank))), axis=0)
    return g("Expand", g.constant(np.zeros((), value.dtype.numpy)), shape)


def _read(g: Importer, elements: Elements, index: Value) -> Value:
    return g("Gather", _rows(g, elements), g("Reshape", index, g.ints()), axis=0)


def _put(g: Importer, elements: Elements, at: Value, rows: Value) -> Elements:
    old = elements.value
    if old is None:
        first = g("Squeeze", g.slice(rows, 0, 0, 1), g.ints(0)) if rows.rank else rows
        old = _unlike(g, elements, first)
    if elements.growing:
        last = g("Add", g("ReduceMax", g.cast(at, dtypes.int64), g.ints(0), keepdims=1), 1)
        more = g("Max", g("Sub", last, g("Shape", old, start=0, end=1)), 0)
        old = g("Pad", old, g("Concat", g.ints(0), more, axis=0), None, g.ints(0))
    places = g("Unsqueeze", g.cast(at, dtypes.int64), g.ints(-1))
    return elements.of(g("ScatterND", old, places, rows))


# -- lists -----------------------------------------------------------------------------------------


@operator("TensorListReserve")
def reserve(call: FlowCall) -> Elements:
    """A list of so many elements, to which nothing has been written."""
    count = _count(call.g, call.raw(1))
    return Elements(call.type("element_dtype"), _stated(call, 0), count)


@operator("EmptyTensorList")
def empty(call: FlowCall) -> Elements:
    """A list without elements."""
    zero = call.g.constant(np.array(0, np.int64))
    return Elements(call.type("element_dtype"), _stated(call, 0), zero, growing=True)


@operator("TensorListFromTensor")
def from_tensor(call: FlowCall) -> Elements:
    """The slices of a tensor along its first axis."""
    x = call.raw(0)
    if not x.rank:
        raise ModelFileError("its operand has no axes")
    return Elements(x.dtype, x.shape[1:], call.g.number(0, dtypes.int64), x)


operator("TensorListGetItem")(lambda call: _read(call.g, call.elements(0), call.raw(1)))
operator("TensorListStack")(lambda call: call.g("Identity", _rows(call.g, call.elements(0))))
operator("TensorArrayReadV3")(lambda call: _read(call.g, call.elements(2), call.raw(1)))
operator("TensorArrayCloseV3")(lambda call: [])


@operator("TensorListSetItem")
def set_item(call: FlowCall) -> Elements:
    """A list with another element at a place."""
    elements = call.elements(0)
    if call.option("resize_if_index_out_of_bounds", False):
        elements = Elements(
            elements.dtype, elements.shape, elements.count, elements.value, growing=True
        )
    return _written(call.g, elements, call.raw(1), call.raw(2))


@operator("TensorListLength")
def length(call: FlowCall) -> Value:
    """How many elements a list has."""
    return call.g.cast(_length(call.g, call.elements(0)), dtypes.int32)


@operator("TensorListGather")
def gather(call: FlowCall) -> Value:
    """Some elements along a new first axis."""
    return call.g("Gather", _rows(call.g, call.elements(0)), call.raw(1), axis=0)


@operator("TensorListScatterIntoExistingList")
def scatter_into(call: FlowCall) -> Elements:
    """A list with other elements at some places."""
    return _put(call.g, call.elements(0), call.raw(2), call.raw(1))


@operator("TensorListScatter", "TensorListScatterV2")
def scatter(call: FlowCall) -> Elements:
    """A list of slices of a tensor, at places that are numbered."""
    g, x, at = call.g, call.raw(0), call.raw(1)
    count = g("Add", g("ReduceMax", g.cast(at, dtypes.int64), g.ints(0), keepdims=0), 1)
    if call.has(3):
        stated = _count(g, call.raw(3))
        count = g("Max", count, stated)
    return _put(g, Elements(x.dtype, x.shape[1:], count), at, x)


@operator("TensorListPushBack")
def push_back(call: FlowCall) -> Elements:
    """A list with one more element."""
    g, elements, value = call.g, call.elements(0), call.raw(1)
    row = g("Unsqueeze", value, g.ints(0))
    if elements.value is None:
        return elements.of(g("Concat", _unlike(g, elements, value), row, axis=0))
    return elements.of(g("Concat", elements.value, row, axis=0))


@operator("TensorListPopBack")
def pop_back(call: FlowCall) -> list[Item]:
    """A list without its last element, and this."""
    g, elements = call.g, call.elements(0)
    rows = _rows(g, elements)
    last = g("Gather", rows, g.constant(np.array(-1)), axis=0)
    rest = g("Slice", rows, g.ints(0), g.ints(-1), g.ints(0))
    return [elements.of(rest), last]


@operator("TensorListResize")
def resize(call: FlowCall) -> Elements:
    """A list of another length, zeros at its end."""
    g, elements = call.g, call.elements(0)
    count = _count(g, call.raw(1))
    if elements.value is None:
        return Elements(elements.dtype, elements.shape, count, growing=elements.growing)
    listed = g("Reshape", count, g.ints(1))
    rows = g("Slice", elements.value, g.ints(0), listed, g.ints(0))
    more = g("Max", g("Sub", listed, g("Shape", rows, start=0, end=1)), 0)
    return elements.of(g("Pad", rows, g("Concat", g.ints(0), more, axis=0), None, g.ints(0)))


@operator("TensorListConcat", "TensorListConcatV2", "TensorArrayConcatV3")
def concat(call: FlowCall) -> list[Value]:
    """All elements one after another, and their lengths."""
    g = call.g
    rows = _rows(g, call.elements(1 if call.node.op.startswith("TensorArray") else 0))
    if rows.rank < 2:
        raise ModelFileError("its elements have no axes")
    rest = [g.size_of(rows, axis) for axis in range(2, rows.rank)]
    count, each = g("Shape", rows, start=0, end=1), g("Shape", rows, start=1, end=2)
    return [g("Reshape", rows, g.ints(-1, *rest)), g("Expand", each, count)]


@operator("TensorListElementShape")
def element_shape(call: FlowCall) -> Value:
    """The sizes of an element."""
    rows = _rows(call.g, call.elements(0))
    return call.g.cast(call.g("Shape", rows, start=1), call.type("shape_type", 3))


# -- arrays ----------------------------------------------------------------------------------------


@operator("TensorArrayV3")
def array(call: FlowCall) -> list[Elements]:
    """An array of so many elements, and its first state, which its users pass on."""
    message: Any = call.option("element_shape", None)
    shape = None if message is None else shape_of(message)
    growing = bool(call.option("dynamic_size", False))
    made = Elements(call.type("dtype"), shape, _count(call.g, call.raw(0)), growing=growing)
    return [made, made]


@operator("TensorArrayWriteV3")
def array_write(call: FlowCall) -> Elements:
    """The state of an array with another element at a place."""
    return _written(call.g, call.elements(3), call.raw(1), call.raw(2))


@operator("TensorArrayGatherV3")
def array_gather(call: FlowCall) -> Value:
    """Some elements along a new first axis."""
    return call.g("Gather", _rows(call.g, call.elements(2)), call.raw(1), axis=0)


@operator("TensorArrayScatterV3")
def array_scatter(call: FlowCall) -> Elements:
    """The state of an array with other elements at some places."""
    return _put(call.g, call.elements(3), call.raw(1), call.raw(2))


@operator("TensorArraySizeV3")
def array_size(call: FlowCall) -> Value:
    """How many elements an array has."""
    return call.g.cast(_length(call.g, call.elements(1)), dtypes.int32)
