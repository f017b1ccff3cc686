"""Reductions, places of extremes, orders, running sums."""

from __future__ import annotations

import math
from typing import Final

from infuse import dtypes
from infuse.frontends.paddle.calls import PaddleCall, front, operator
from infuse.ir.graph import Value
from infuse.tracing.semantics import ordering

_KINDS: Final = {
    "sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin",
    "prod": "ReduceProd", "any": "ReduceMax", "all": "ReduceMin",
    "logsumexp": "ReduceLogSumExp", "frobenius_norm": "ReduceL2",
}  # fmt: skip


def axes_of(call: PaddleCall, rank: int) -> list[int]:
    """The axes of a reduction; all of them where none is named."""
    axes = call.ints("axis", []) if call.has("axis") or call.attribute("axis") is not None else []
    everything = bool(call.attribute("reduce_all", False)) or not axes
    return list(range(rank)) if everything else sorted({front(axis, rank) for axis in axes})


def _made(call: PaddleCall, name: str, x: Value, axes: list[int], keep: int) -> Value:
    g, kind = call.g, _KINDS[name]

    def reduced(x: Value) -> Value:
        return g(kind, x, g.ints(*axes), keepdims=keep) if x.rank else x

    if name == "mean" and not x.dtype.is_float:  # as Paddle forms it
        return g.cast(reduced(g.cast(x, dtypes.float32)), x.dtype)
    if name != "logsumexp" or not x.rank:
        return reduced(x)
    largest = g("ReduceMax", x, g.ints(*axes), keepdims=keep)  # which Paddle subtracts
    infinite = g("IsInf", largest)
    return g("Where", infinite, g.number(math.nan, x.dtype), reduced(x))


def _reduction(name: str) -> None:
    @operator(name)
    def build(call: PaddleCall) -> Value:
        g, x = call.g, call("x")
        axes, keep = axes_of(call, x.rank), int(bool(call.attribute("keepdim", False)))
        dtype = call.dtype()
        call.attribute("out_dtype")
        if name in ("any", "all"):
            x = g.cast(g.cast(x, dtypes.bool_), dtypes.uint8)
        elif dtype is not None:
            x = g.cast(x, dtype)
        elif name == "sum" and (x.dtype.is_bool or x.dtype == dtypes.int32):
            x = g.cast(x, dtypes.int64)
        made = _made(call, name, x, axes, keep)
        return g.cast(made, dtypes.bool_) if name in ("any", "all") else made


for _name in _KINDS:
    _reduction(_name)


@operator("squared_l2_norm")
def squared_l2_norm(call: PaddleCall) -> Value:
    """The sum of all squares, as one element."""
    total = call.g("ReduceSumSquare", call("x"), None, keepdims=0)
    return call.g("Reshape", total, call.g.ints(1))


@operator("p_norm")
def p_norm(call: PaddleCall) -> Value:
    """The p-norm along an axis, or of all elements."""
    g, x = call.g, call("x")
    axis, keep = int(call.attribute("axis", -1)), int(bool(call.attribute("keepdim", False)))
    order = float(call.attribute("porder", 2.0))
    call.attribute("epsilon")
    axes = g.ints(*range(x.rank)) if call.attribute("asvector", False) else g.ints(axis)
    kinds = {1.0: "ReduceL1", 2.0: "ReduceL2"}
    if order in kinds:
        return g(kinds[order], x, axes, keepdims=keep)
    size = g("Abs", x)
    if math.isinf(order):
        return g("ReduceMax" if order > 0 else "ReduceMin", size, axes, keepdims=keep)
    if order == 0:
        there = g.cast(g("Greater", size, 0.0), x.dtype)
        return g("ReduceSum", there, axes, keepdims=keep)
    powers = g("ReduceSum", g("Pow", size, order), axes, keepdims=keep)
    return g("Pow", powers, 1 / order)


@operator("norm")
def norm(call: PaddleCall) -> tuple[Value, Value]:
    """X over its length along an axis, and the length."""
    g, x = call.g, call("x")
    axis, epsilon = int(call.attribute("axis", -1)), float(call.attribute("epsilon", 1e-10))
    squares = g("ReduceSumSquare", x, g.ints(axis), keepdims=1)
    length = g("Sqrt", g("Add", squares, epsilon))
    return g("Div", x, length), length


@operator("argmax", "argmin")
def argmax(call: PaddleCall) -> Value:
    """The place of the largest or smallest element, the first of several."""
    g, x = call.g, call("x")
    keep, rank = int(bool(call.attribute("keepdims", False))), x.rank
    axis = call.integer("axis", -1)
    everything = bool(call.attribute("flatten", False)) or not rank
    if everything:
        x, axis = g("Reshape", x, g.ints(-1)), 0
    kind = "ArgMax" if call.operator.name == "argmax" else "ArgMin"
    x = ordering.ranked(g, x, kind)
    place = g(kind, x, axis=axis, keepdims=0 if everything else keep)
    if everything and keep:
        place = g("Reshape", place, g.ints(*[1] * rank))
    return g.cast(place, call.dtype() or dtypes.int64)


@operator("topk")
def topk(call: PaddleCall) -> tuple[Value, ...]:
    """The k largest or smallest elements and their places, in order."""
    g, x = call.g, call("x")
    count = call.listed("k", 1)
    call.attribute("k")
    axis, largest = call.attribute("axis", -1), int(bool(call.attribute("largest", True)))
    return tuple(g.several(2, "TopK", x, count, axis=int(axis), largest=largest, sorted=1))


@operator("argsort")
def argsort(call: PaddleCall) -> tuple[Value, ...]:
    """All elements in order, and their places."""
    g, x = call.g, call("x")
    axis, largest = int(call.attribute("axis", -1)), int(bool(call.attribute("descending", False)))
    if not x.rank:
        return x, g.number(0, dtypes.int64)
    count = g.ints(g.size_of(x, axis))
    return tuple(g.several(2, "TopK", x, count, axis=axis, largest=largest, sorted=1))


@operator("cumsum", "cumprod")
def cumsum(call: PaddleCall) -> Value:
    """Sums or products of the elements up to each."""
    g, x = call.g, call("x")
    kind = "CumSum" if call.operator.name == "cumsum" else "CumProd"
    name = "axis" if kind == "CumSum" else "dim"
    axis = call.integer(name, -1)
    if call.attribute("flatten", False):
        x, axis = g("Reshape", x, g.ints(-1)), 0
    flags = {n: int(bool(call.attribute(n, False))) for n in ("exclusive", "reverse")}
    return g(kind, x, g.number(axis, dtypes.int64), **flags)


@operator("unique")
def unique(call: PaddleCall) -> tuple[Value, ...]:
    """The elements once each in order, their first places, where each went, and their counts; every
    NaN is an element of its own.
    """
    g, axes = call.g, call.attribute("axis", [])
    for name in ("return_index", "return_inverse", "return_counts"):
        call.attribute(name)
    call.require("is_sorted", True)
    x = call("x")
    if axes:
        values = g.several(4, "Unique", x, sorted=1, axis=int(axes[0]))
    else:
        values = list(ordering.distinct(g, x if x.rank == 1 else g("Reshape", x, g.ints(-1))))
    dtype = call.dtype() or dtypes.int64
    return (values[0], *(g.cast(value, dtype) for value in values[1:]))


@operator("cross_entropy_with_softmax")
def cross_entropy_with_softmax(call: PaddleCall) -> tuple[Value, Value]:
    """The softmax, and the negative logarithm of the chance of a label."""
    g, x, label = call.g, call("input"), call("label")
    axis = front(int(call.attribute("axis", -1)), x.rank)
    call.require("use_softmax", True)
    call.attribute("numeric_stable_mode")
    ignored = int(call.attribute("ignore_index", -100))
    chances, logs = g("Softmax", x, axis=axis), g("LogSoftmax", x, axis=axis)
    if call.attribute("soft_label", False):
        return chances, g("Neg", g("ReduceSum", g("Mul", label, logs), g.ints(axis), keepdims=1))
    if label.rank != x.rank:
        label = g("Unsqueeze", label, g.ints(axis))
    left_out = g("Equal", label, g.number(ignored, label.dtype))
    place = g("Where", left_out, g.number(0, label.dtype), label)
    loss = g("Neg", g("GatherElements", logs, place, axis=axis))
    return chances, g("Where", left_out, g.number(0, x.dtype), loss)
