"""Operators that take and put elements by number, and choose among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.ir.contents import known_ints
from infuse.ir.graph import Value
from infuse.tracing.axes import axis_of
from infuse.tracing.semantics import slicing
from infuse.tracing.semantics.slicing import BEFORE, LAST, Masks
from infuse.tracing.tensorflow.calls import OperandCall, shared


@shared("Select")
def select(call: OperandCall) -> Value:
    """Elements of one tensor where a condition holds, else of another; a condition of one axis is
    for the first axis.
    """
    g, condition = call.g, call.raw(0)
    x, y = call.moved(1, 2)
    if condition.rank == 1 and x.rank > 1:
        condition = g("Unsqueeze", condition, g.ints(*range(1, x.rank)))
    return g("Where", condition, x, y)


@shared("SelectV2")
def select_v2(call: OperandCall) -> Value:
    """Elements of one tensor where a condition holds, else of another."""
    x, y = call.moved(1, 2)
    return call.g("Where", call.raw(0), x, y)


@shared("Where")
def where(call: OperandCall) -> Value:
    """The places at which elements are not zero, one a row."""
    return call.as_result(call.g("Transpose", call.g("NonZero", call.raw(0)), perm=(1, 0)))


@shared("OneHot")
def one_hot(call: OperandCall) -> Value:
    """`on` at the places of a new axis that operand 0 numbers, `off` elsewhere."""
    g, at, depth = call.g, call.raw(0), call.list_of(1)
    on, off = call.moved(2, 3)
    axis = axis_of(int(call.option("axis", -1)), at.rank + 1)
    zero, one = (g.number(n, dtypes.int64) for n in (0, 1))
    count = known_ints(depth)
    if count is not None and len(count) == 1 and isinstance(count[0], int):
        _limit(call, count[0])
        places = g.constant(np.arange(count[0], dtype=np.int64))
    else:
        places = g("Range", zero, g("Reshape", depth, g.ints()), one)
    shape = [-1 if i == axis else 1 for i in range(at.rank + 1)]
    columns = g("Reshape", places, g.ints(*shape))
    hit = g("Equal", g("Unsqueeze", g.cast(at, dtypes.int64), g.ints(axis)), columns)
    return g("Where", hit, on, off)


def _limit(call: OperandCall, count: int) -> None:
    if not 0 <= count <= 1 << 28:
        raise ModelFileError(f"{count} places are not a length of an axis")


@shared("Unique")
def unique(call: OperandCall) -> list[Value]:
    """The different elements in the order in which they come, and which of them each one is."""
    values, _, which = call.g.several(3, "Unique", call.raw(0), sorted=0)
    return [values, call.as_result(which, 1)]


# -- slices ----------------------------------------------------------------------------------------


@shared("StridedSlice")
def strided_slice(call: OperandCall) -> Value:
    """Elements of each axis from `begin` to before `end` in steps; masks say which limits do not
    count, and which axes are left out, come in new, or stay as they are.
    """
    (x,) = call.moved(0)
    masks = Masks(*(int(call.option(f"{name}_mask")) for name in Masks._fields))
    begins, ends, steps = (_elements(call, index) for index in (1, 2, 3))
    if not len(begins) == len(ends) == len(steps):
        raise ModelFileError(f"it has {len(begins)} begins, {len(ends)} ends, {len(steps)} strides")

    def part(i: int, begin: Any, end: Any, step: Any) -> tuple[Any, Any, int]:
        if not isinstance(step, int) or step == 0:
            raise call.unsupported(f"a stride of {step}")
        if call.option("offset", False) and not masks.end >> i & 1:
            if not isinstance(begin, int) or not isinstance(end, int):
                raise call.unsupported("an end that is an offset, computed,")
            end = begin + end
        first, last = (0, LAST) if step > 0 else (LAST, BEFORE)
        return first if masks.begin >> i & 1 else begin, last if masks.end >> i & 1 else end, step

    result = slicing.strided_slice(call.g, x, [*zip(begins, ends, steps)], masks, part)
    return call.g("Identity", x) if result is x else result


def _elements(call: OperandCall, index: int) -> list[Any]:
    """The elements of a list: numbers, or scalars that nodes read off it."""
    g, value = call.g, call.raw(index)
    listed = known_ints(value)
    if listed is None:
        count = value.shape[0] if value.rank == 1 else None
        if not isinstance(count, int):
            raise call.unsupported(f"operand {index} of unknown length")
        listed = (None,) * count  # type: ignore[assignment]
    assert listed is not None
    wide = None
    elements: list[Any] = []
    for place, element in enumerate(listed):
        if isinstance(element, int):
            elements.append(element)
        else:
            wide = wide or g.cast(value, dtypes.int64)
            elements.append(g("Gather", wide, g.constant(place)))
    return elements


# -- putting ---------------------------------------------------------------------------------------


@shared("ScatterNd")
def scatter_nd(call: OperandCall) -> Value:
    """Zeros, to which updates are added at the places that operand 0 numbers."""
    g, at, updates = call.g, call.int64(0), call.raw(1)
    zeros = g("Expand", g.number(0, updates.dtype), call.list_of(2))
    how = "none" if updates.dtype.is_bool else "add"
    return g("ScatterND", zeros, at, updates, reduction=how)


@shared("SparseToDense")
def sparse_to_dense(call: OperandCall) -> Value:
    """Operand 3 everywhere, but operand 2 at the places that operand 0 numbers."""
    g, at = call.g, call.int64(0)
    values, rest = call.moved(2, 3)
    if at.rank < 2:
        at = g("Reshape", at, g.ints(-1, 1))
    count = g("Slice", g("Shape", at), g.ints(0), g.ints(1))
    full = g("Expand", rest, call.list_of(1))
    return g("ScatterND", full, at, g("Expand", values, count))


@shared("SegmentSum")
def segment_sum(call: OperandCall) -> Value:
    """The sums of the rows of each segment, by their ascending numbers."""
    g, x, at = call.g, call.real(0), call.int64(1)
    count = g("Add", g("ReduceMax", at, g.ints(0), keepdims=1), 1)
    return _segments(call, x, at, count, "add", 0)


def _segments(call: OperandCall, x: Value, at: Value, count: Value, how: str, start: Any) -> Value:
    g = call.g
    rest = g("Shape", x, start=at.rank)
    first = g.constant(np.array(start, x.dtype.numpy))
    full = g("Expand", first, g("Concat", count, rest, axis=0))
    return g("ScatterND", full, g("Unsqueeze", at, g.ints(-1)), x, reduction=how)


def unsorted(how: str, *, skips_nan: bool = False) -> Callable[[OperandCall], Value]:
    """The elements of each segment, whose numbers need not ascend, brought together so."""

    def build(call: OperandCall) -> Value:
        g, x, at, count = call.g, call.real(0), call.int64(1), call.list_of(2)
        info: Any = np.finfo(x.dtype.numpy) if x.dtype.is_float else np.iinfo(x.dtype.numpy)
        start = {"add": 0, "mul": 1, "max": info.min, "min": info.max}[how]
        if skips_nan and x.dtype.is_float:
            x = g("Where", g("IsNaN", x), g.number(float(start), x.dtype), x)
        # What has a negative number belongs nowhere: it goes to a row of its own, which is cut off.
        behind = g("Where", g("Less", at, 0), count, at)
        made = _segments(call, x, behind, g("Add", count, 1), how, start)
        return g("Slice", made, g.ints(0), count, g.ints(0))

    return build


for _name, _how in {"Sum": "add", "Prod": "mul", "Max": "max", "Min": "min"}.items():
    shared(f"UnsortedSegment{_name}")(unsorted(_how))


@shared("DynamicUpdateSlice", "XlaDynamicUpdateSlice")
def dynamic_update_slice(call: OperandCall) -> Value:
    """Operand 0 with operand 1 in it, from the place of operand 2 on, moved so that it fits."""
    g = call.g
    x, update = call.moved(0, 1)
    sizes, inner = g("Shape", x), g("Shape", update)
    room = g("Sub", sizes, inner)
    start = g("Max", g("Min", call.list_of(2), room), 0)
    pads = g("Concat", start, g("Sub", room, start), axis=0)
    ones = g("Expand", g.number(1, dtypes.int32), inner)
    inside = g.cast(g("Pad", ones, pads), dtypes.bool_)
    return g("Where", inside, g("Pad", update, pads), x)


@shared("MatrixDiag")
def matrix_diag(call: OperandCall) -> Value:
    """Square matrices with these diagonals, zero elsewhere."""
    g, x = call.g, call.real(0)
    size = x.shape[-1] if x.rank else None
    if not isinstance(size, int):
        raise call.unsupported("a diagonal of unknown length")
    _limit(call, size * size)
    eye = g.constant(np.eye(size, dtype=bool))
    return g("Where", eye, g("Unsqueeze", x, g.ints(-2)), g.number(0, x.dtype))


@shared("MatrixSetDiag")
def matrix_set_diag(call: OperandCall) -> Value:
    """Matrices with other diagonals."""
    g = call.g
    x, diagonal = call.moved(0, 1)
    rows, columns = x.shape[-2:] if x.rank >= 2 else (None, None)
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise call.unsupported("a matrix of unknown size")
    _limit(call, rows * columns)
    eye = g.constant(np.eye(rows, columns, dtype=bool))
    wide = g.pad(diagonal, diagonal.rank - 1, 0, max(columns - rows, 0))
    return g("Where", eye, g("Unsqueeze", wide, g.ints(-2)), x)
