"""Reductions over axes, and running ones."""

from __future__ import annotations

from typing import Any, Final

from infuse import dtypes
from infuse.frontends.mindspore.calls import MindCall, primitive
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import handler_of

_KINDS: Final = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")


@primitive(*_KINDS)
def reduce_(call: MindCall) -> Value:
    """A reduction over axes: all for an empty list, unless `skip_mode` says none."""
    g, x = call.g, call.value(0)
    axis, keep, skips = call.item(1, []), call.item(2, False), call.item(3, False)
    if skips and axis is not None and not call.listed(axis):
        return x
    axes = call.axes(axis, x.rank)
    if not axes:
        return x
    wide = g.cast(x, dtypes.uint8) if x.dtype.is_bool else x
    y = g(call.name, wide, g.ints(*axes), keepdims=int(bool(keep)))
    return g.cast(y, x.dtype)


@primitive("ReduceAll", "ReduceAny")
def truth(call: MindCall) -> Value:
    """Whether all or some elements of axes are not 0; of all axes for an empty list."""
    g, x = call.g, call.value(0)
    axes, keep = call.axes(call.item(1, []), x.rank), int(bool(call.item(2, False)))
    wide = g.cast(g.cast(x, dtypes.bool_), dtypes.uint8)
    if axes:
        kind = {"ReduceAll": "ReduceMin", "ReduceAny": "ReduceMax"}[call.name]
        wide = g(kind, wide, g.ints(*axes), keepdims=keep)
    return g.cast(wide, dtypes.bool_)


@primitive("Argmax", "Argmin")
def arg(call: MindCall) -> Value:
    """The place of the first extreme of an axis."""
    g, x = call.g, call.value(0)
    call.ignore(2)
    (axis,) = call.ints(call.item(1, -1))
    kind = {"Argmax": "ArgMax", "Argmin": "ArgMin"}[call.name]
    return g(kind, x, axis=axis % max(x.rank, 1), keepdims=0)


@primitive("ArgMaxWithValue", "ArgMinWithValue")
def arg_with_value(call: MindCall) -> list[Value]:
    """The place of the first extreme of an axis, and the extreme."""
    g, x = call.g, call.value(0)
    axes, keep = call.axes(call.item(1, 0), x.rank), int(bool(call.item(2, False)))
    if not axes:
        return [g.number(0, dtypes.int64), x]
    (axis,) = axes
    place = g(call.name[:6], x, axis=axis, keepdims=keep)
    return [place, g(f"Reduce{call.name[3:6]}", x, g.ints(axis), keepdims=keep)]


@primitive("CumSum", "CumProd")
def cumsum(call: MindCall) -> Value:
    """Sums or products of the elements so far."""
    g, x = call.g, call.value(0)
    options = {
        name: int(bool(call.item(i, False))) for i, name in ((2, "exclusive"), (3, "reverse"))
    }
    return g(call.name, x, g.number(int(call.number(1)) % x.rank, dtypes.int64), **options)


@primitive("ReduceStd")
def reduce_std(call: MindCall) -> list[Any]:
    """The standard deviation and the mean along axes."""
    x = call.value(0)
    unbiased, keep = bool(call.item(2, True)), bool(call.item(3, False))
    handler = handler_of("aten.std_mean.correction")
    assert handler is not None
    call.g.called = "aten.std_mean.correction"
    axes = call.axes(call.item(1, []), x.rank)
    return list(handler(call.g, x, axes, correction=int(unbiased), keepdim=keep))


@primitive("TopK")
def top_k(call: MindCall) -> list[Value]:
    """The greatest elements of the last axis and their places."""
    g, (count,) = call.g, call.sizes(1)
    call.ignore("sorted")
    return g.several(2, "TopK", call.value(0), g.ints(count), axis=-1)


@primitive("Sort")
def sort(call: MindCall) -> list[Value]:
    """Elements of an axis in order, and their places before."""
    g, x = call.g, call.value(0)
    (axis,) = call.axes(call.attribute("axis"), x.rank)
    largest = int(bool(call.attribute("descending")))
    return g.several(2, "TopK", x, g.ints(g.size_of(x, axis)), axis=axis, largest=largest)


@primitive("L2Normalize")
def l2_normalize(call: MindCall) -> Value:
    """X by its length along axes."""
    g, x = call.g, call.value(0)
    axes = call.axes(call.attribute("axis"), x.rank)
    total = g.reduce("ReduceSum", g("Mul", x, x), *axes)
    return g("Div", x, g("Sqrt", g("Max", total, float(call.attribute("epsilon")))))


@primitive("LpNorm", "LpNormV2")
def lp_norm(call: MindCall) -> Value:
    """The length of vectors along axes."""
    g, x = call.g, call.value(0)
    older = call.name == "LpNorm"
    axis: Any = call.attribute("axis") if older else call.item(2, None)
    keep = call.attribute("keep_dims", False) if older else call.item(3, False)
    power = call.attribute("p", 2) if older else call.number(1, 2)
    call.attribute("epsilon", 0) if older else call.item(4, 0)
    if power not in (1, 2):
        raise call.unsupported(f"the norm of power {power}")
    axes = call.axes(axis, x.rank)
    kind = f"ReduceL{int(power)}"
    return g(kind, x, g.ints(*axes), keepdims=int(bool(keep))) if axes else g("Abs", x)
