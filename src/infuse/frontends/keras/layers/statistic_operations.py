"""Operations of `keras.ops` that order, count and measure elements, some without NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.frontends.keras.calls import KerasCall
from infuse.frontends.keras.layers.numeric_operations import diff, nan_to_num
from infuse.frontends.keras.layers.operations import (
    TYPED,
    Operation,
    cumsum,
    operation,
    place,
    real,
    tensor,
    together,
)
from infuse.ir.graph import Value
from infuse.tracing.axes import axes_of
from infuse.tracing.semantics import arithmetic, ordering


def _all_nan(call: KerasCall, value: Value, axes: list[int], keep: bool) -> Value:
    lost = call.g.cast(call.g("IsNaN", value), dtypes.uint8)
    return call.boolean(call.reduced("ReduceMin", lost, axes, keep))


def _extreme(kind: str, worst: float) -> Operation:
    def build(call: KerasCall, x: Any, axis: Any = None, keepdims: bool = False) -> Value:
        g, value = call.g, tensor(call, x)
        axes = axes_of(axis, value.rank)
        if value.dtype.is_bool:
            number = call.reduced(kind, g.cast(value, dtypes.uint8), axes, keepdims)
            return call.boolean(number)
        if not value.dtype.is_float:
            return call.reduced(kind, value, axes, keepdims)
        most = call.reduced(
            kind, call.where(g("Not", g("IsNaN", value)), value, worst), axes, keepdims
        )
        lost = _all_nan(call, value, axes, keepdims)
        return g("Where", lost, call.number(math.nan, value), most)

    return build


operation("Nanmax")(_extreme("ReduceMax", -math.inf))
operation("Nanmin")(_extreme("ReduceMin", math.inf))


def _place(kind: str, worst: float) -> Operation:
    def build(call: KerasCall, x: Any, axis: int | None = None, keepdims: bool = False) -> Value:
        g, value = call.g, tensor(call, x)
        if not value.dtype.is_float:
            return place(call, value, kind, axis, keepdims)
        lost = _all_nan(call, value, axes_of(axis, value.rank), keepdims)
        kept = call.where(g("Not", g("IsNaN", value)), value, worst)
        y = place(call, kept, kind, axis, keepdims)
        return g("Where", lost, call.number(-1, y), y)

    return build


operation("Nanargmax")(_place("ArgMax", -math.inf))
operation("Nanargmin")(_place("ArgMin", math.inf))


@operation("Nancumsum")
def nancumsum(call: KerasCall, x: Any, axis: int | None = None, dtype: Any = None) -> Value:
    """Sums of all elements up to each, with numbers in place of NaN and infinities."""
    value = tensor(call, nan_to_num(call, x), None if dtype is None else dtypes.by_name(dtype))
    return cumsum(call, value, axis)  # type: ignore[no-any-return]


TYPED.add(nancumsum)


def _spread(root: bool) -> Operation:
    def build(call: KerasCall, x: Any, axis: Any = None, keepdims: bool = False) -> Value:
        g, value = call.g, real(call, x)
        axes, kept = axes_of(axis, value.rank), g("Not", g("IsNaN", value))

        def total(values: Value, keep: bool) -> Value:
            return call.reduced("ReduceSum", values, axes, keep)

        number = g.cast(kept, value.dtype)
        mean = g("Div", total(call.where(kept, value, 0), True), total(number, True))
        apart = call.where(kept, g("Sub", value, mean), 0)
        y = g("Div", total(g("Mul", apart, apart), keepdims), total(number, keepdims))
        return g("Sqrt", y) if root else y

    return build


operation("Nanvar")(_spread(root=False))
operation("Nanstd")(_spread(root=True))


# -- quantiles -------------------------------------------------------------------------------------


def _quantile(skips: bool, divisor: float = 1) -> Operation:
    def build(
        call: KerasCall,
        x: Any,
        q: Any,
        axis: Any = None,
        method: str = "linear",
        keepdims: bool = False,
    ) -> Value:
        if isinstance(q, Value):
            raise call.unsupported("a quantile whose share is a tensor of the model")
        shares = np.asarray(q, np.float32) / np.float32(divisor)
        if shares.ndim > 1:
            raise call.unsupported("shares of several axes")
        value = real(call, x)
        axes = axes_of(axis, value.rank)
        others = [i for i in range(value.rank) if i not in axes]
        rows = call.g.permute(value, *others, *axes)
        rows = call.shaped(rows, *(0,) * len(others), -1)
        y = ordering.quantiles(call.g, rows, shares.reshape(-1).astype(np.float64), method, skips)
        y = call.g.permute(y, len(others), *range(len(others)))
        if keepdims:
            y = call.unsqueezed(y, *(i + 1 for i in axes))
        return y if shares.ndim else call.squeezed(y, 0)

    return build


@operation("Quantile")
def quantile(call: KerasCall, x: Any, q: Any, method: str = "linear", **options: Any) -> Value:
    """Quantiles between the two nearest elements: a model of Keras 3.15 forgets the method."""
    return _quantile(skips=False)(call, x, q, **options)  # type: ignore[no-any-return]


operation("Percentile")(_quantile(skips=False, divisor=100))
operation("Nanquantile")(_quantile(skips=True))
operation("Nanpercentile")(_quantile(skips=True, divisor=100))


def _median(skips: bool) -> Operation:
    function = _quantile(skips)

    def build(call: KerasCall, x: Any, axis: Any = None, keepdims: bool = False) -> Value:
        return function(call, x, 0.5, axis, keepdims=keepdims)  # type: ignore[no-any-return]

    return build


operation("Median")(_median(skips=False))
operation("Nanmedian")(_median(skips=True))


# -- places among others ---------------------------------------------------------------------------


def _counted(call: KerasCall, before: Value) -> Value:
    number = call.g.cast(before, dtypes.int32)
    return call.reduced("ReduceSum", number, [before.rank - 1])


@operation("SearchSorted")
def search_sorted(call: KerasCall, sorted_sequence: Any, values: Any, side: str = "left") -> Value:
    """Where values stand in a sequence in order, int32; NaN is before (left) or behind all."""
    g, (row, value) = call.g, together(call, sorted_sequence, values)
    if row.rank != 1:
        raise call.unsupported("a sequence of several axes")
    value = call.unsqueezed(value, value.rank)
    if side == "left":
        return _counted(call, g("Less", row, value))
    return _counted(call, g("Not", g("Less", value, row)))


@operation("Digitize")
def digitize(call: KerasCall, x: Any, bins: Any) -> Value:
    """How many limits are not above each element, int32; NaN is behind all."""
    g, value = call.g, call.g.cast(tensor(call, x), dtypes.float32)
    limits = g.cast(tensor(call, bins), dtypes.float32)
    return _counted(call, g("Not", g("Less", call.unsqueezed(value, value.rank), limits)))


@operation("IsIn")
def is_in(
    call: KerasCall, x1: Any, x2: Any, assume_unique: bool = False, invert: bool = False
) -> Value:
    """Whether elements are among others; none is among nothing, even if that is inverted."""
    g, (value, others) = call.g, together(call, x1, x2)
    if 0 in others.shape:
        return g("Expand", g.number(0, dtypes.bool_), g("Shape", value))
    equal = g("Equal", call.unsqueezed(value, value.rank), call.shaped(others, -1))
    number = call.reduced("ReduceMax", g.cast(equal, dtypes.uint8), [value.rank])
    found = call.boolean(number)
    return g("Not", found) if invert else found


@operation("Trapezoid")
def trapezoid(call: KerasCall, y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Value:
    """The integral of what straight lines between the elements of an axis enclose."""
    g, value = call.g, real(call, y)
    (place_,) = axes_of(axis, value.rank)
    order = [i for i in range(value.rank) if i != place_]
    rows = g.permute(value, *order, place_)
    behind, before = (
        g("Slice", rows, *(g.ints(i) for i in (start, end, value.rank - 1, 1)))
        for start, end in ((1, 2**62), (0, -1))
    )
    heights = g("Mul", g("Add", behind, before), 0.5)
    if x is None:
        width = call.number(float(dx), value)
    else:
        points = g.cast(tensor(call, x), value.dtype)
        width = diff(call, points, axis=axis)
        if points.rank > 1:
            width = g.permute(width, *order, place_)
    return call.reduced("ReduceSum", g("Mul", heights, width), [value.rank - 1])


@operation("Corrcoef")
def corrcoef(call: KerasCall, x: Any) -> Value:
    """How far rows rise and fall together, from -1 to 1."""
    g, value = call.g, real(call, x)
    if value.rank != 2:
        raise call.unsupported(f"a correlation of {value.rank} axes")
    apart = g("Sub", value, call.reduced("ReduceMean", value, [1], True))
    number = g.cast(g("Sub", g("Shape", value, start=1), g.ints(1)), value.dtype)
    shared = g("Div", g("MatMul", apart, g.permute(apart, 1, 0)), number)
    own = g("Div", call.reduced("ReduceSum", g("Mul", apart, apart), [1], True), number)
    spread = g("Sqrt", own)
    y = g("Div", shared, g("Mul", spread, g.permute(spread, 1, 0)))
    return g("Clip", y, call.number(-1, y), call.number(1, y))


# -- order -----------------------------------------------------------------------------------------


def _ordered(call: KerasCall, x: Any, axis: int | None, largest: int = 0) -> tuple[Value, Value]:
    """All elements along an axis in order, equal ones as they stand, and their places."""
    g, value = call.g, tensor(call, x)
    if axis is None:
        value, axis = call.shaped(value, -1), 0
    count = g.ints(g.size_of(value, axis))
    values, places = g.several(2, "TopK", value, count, axis=axis, largest=largest, sorted=1)
    return values, g.cast(places, dtypes.int32)


operation("Sort")(lambda call, x, axis=-1: _ordered(call, x, axis)[0])
operation("Argsort")(lambda call, x, axis=-1: _ordered(call, x, axis)[1])


@operation("TopK")
def top_k(call: KerasCall, x: Any, k: int, sorted: bool = True) -> list[Value]:
    """The k largest elements of the last axis in descending order, and their places, int32."""
    g = call.g
    values, places = g.several(2, "TopK", tensor(call, x), g.ints(k), axis=-1, sorted=1)
    return [values, g.cast(places, dtypes.int32)]


@operation("Arctan2")
def arctan2(call: KerasCall, x1: Any, x2: Any) -> Value:
    """The angle of the point (x2, x1)."""
    y, x = together(call, x1, x2)
    return arithmetic.atan2(call.g, real(call, y), real(call, x))


@operation("Isfinite")
def isfinite(call: KerasCall, x: Any) -> Value:
    """Whether elements are numbers and not infinite."""
    g, value = call.g, real(call, x)
    return g("Not", g("Or", g("IsInf", value), g("IsNaN", value)))


@operation("Log2", "Log10")
def logarithm(call: KerasCall, x: Any) -> Value:
    """The logarithm to the base 2 or 10."""
    g, value = call.g, real(call, x)
    base = 2 if call.layer.kind == "ops.Log2" else 10
    exact = g("Mul", g("Log", arithmetic.wide(g, value)), 1 / math.log(base))
    return g.cast(exact, value.dtype)
