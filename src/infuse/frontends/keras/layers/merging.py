"""Layers that make one tensor of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from infuse.dtypes import uint8
from infuse.errors import ModelFileError
from infuse.frontends.keras.calls import KerasCall, layer, promoted
from infuse.ir.graph import Value
from infuse.tracing.axes import is_int

Masks = Sequence[Value | None]


def _operands(call: KerasCall, xs: Sequence[Value]) -> list[Value]:
    """Operands of one element type, and of one rank: new axes are behind the batch."""
    if not isinstance(xs, (list, tuple)) or not xs:
        raise ModelFileError("it merges a list of tensors")
    dtype, rank = promoted(*xs), max(x.rank for x in xs)
    missing = [tuple(range(1, 1 + rank - x.rank)) for x in xs]
    return [
        call.unsqueezed(call.g.cast(x, dtype), *axes) if axes else call.g.cast(x, dtype)
        for x, axes in zip(xs, missing)
    ]


def _masks(call: KerasCall, xs: Sequence[Value], mask: Masks | None) -> list[Value | None]:
    return list(mask) if mask is not None else [call.mask(x) for x in xs]


def _either(call: KerasCall, y: Value, masks: Masks) -> Value:
    """Let a result have the masks of all operands together, where all have one: what one of them
    shows, and in Keras 2 what all show.
    """
    kind = "Or" if call.runner.generation == 3 else "And"
    listed = [mask for mask in masks if mask is not None]
    if len(listed) == len(masks):
        call.set_mask(y, reduce(lambda a, b: call.g(kind, a, b), listed))
    return y


def _merge(combine: Callable[[KerasCall, list[Value]], Value]) -> Callable[..., Value]:
    def build(call: KerasCall, xs: Sequence[Value], mask: Masks | None = None) -> Value:
        return _either(call, combine(call, _operands(call, xs)), _masks(call, xs, mask))

    return build


def _folded(kind: str) -> Callable[[KerasCall, list[Value]], Value]:
    return lambda call, xs: reduce(lambda a, b: call.g(kind, a, b), xs)


def _average(call: KerasCall, xs: list[Value]) -> Value:
    return call.g("Div", _folded("Add")(call, [call.floats(x) for x in xs]), float(len(xs)))


def _difference(call: KerasCall, xs: list[Value]) -> Value:
    if len(xs) != 2:
        raise ModelFileError(f"it subtracts {len(xs)} tensors, and not two")
    return call.g("Sub", *xs)


for _name, _kind in (("Add", "Add"), ("Multiply", "Mul"), ("Maximum", "Max"), ("Minimum", "Min")):
    layer(_name)(_merge(_folded(_kind)))
layer("Average")(_merge(_average))
layer("Subtract")(_merge(_difference))


@layer("Concatenate", "Merge")
def concatenate(call: KerasCall, xs: Sequence[Value], mask: Masks | None = None) -> Value:
    """Operands behind each other along an axis."""
    if not isinstance(xs, (list, tuple)) or not xs:
        raise ModelFileError("it merges a list of tensors")
    g, dtype = call.g, promoted(*xs)
    (axis,) = call.config.axes("axis", xs[0].rank, -1)
    y = g("Concat", *(g.cast(x, dtype) for x in xs), axis=axis)
    masks = _masks(call, xs, mask)
    if any(each is not None for each in masks):
        call.set_mask(y, _behind(call, xs, masks, axis))
    return y


def _behind(call: KerasCall, xs: Sequence[Value], masks: Masks, axis: int) -> Value:
    """The masks of operands behind each other: whether any feature of a place is not hidden, or in
    Keras 2 all of them.
    """
    g, parts = call.g, []
    for x, mask in zip(xs, masks):
        shape = g("Shape", x)
        if mask is None:
            parts.append(g("Expand", g.constant(True), shape))
        elif mask.rank < x.rank:
            parts.append(g("Expand", call.unsqueezed(mask, mask.rank), shape))
        else:
            parts.append(mask)
    whole = g("Concat", *parts, axis=axis)
    numbers = g.cast(whole, uint8)
    kind = "ReduceMax" if call.runner.generation == 3 else "ReduceMin"
    return call.boolean(call.reduced(kind, numbers, [whole.rank - 1]))


@layer("Dot")
def dot(call: KerasCall, xs: Sequence[Value]) -> Value:
    """The product of two tensors over an axis of each, for each element of the batch."""
    if not isinstance(xs, (list, tuple)) or len(xs) != 2:
        raise ModelFileError("it multiplies two tensors")
    a, b = (call.floats(x) for x in xs)
    axes = call.config.get("axes")
    first, second = (axes, axes) if is_int(axes) else tuple(axes)
    i, j = first % a.rank, second % b.rank
    if call.config.flag("normalize"):
        a, b = _unit(call, a, i), _unit(call, b, j)
    letters = "bcdefghijklmnopqrstuvwxyz"
    left = ["a", *letters[: a.rank - 1]]
    right = ["a", *letters[a.rank : a.rank + b.rank - 1]]
    right[j] = left[i]
    result = [x for x in left if x != left[i]] + [x for x in right[1:] if x != left[i]]
    if len(result) == 1:
        y = call.g("Einsum", a, b, equation=f"{''.join(left)},{''.join(right)}->a")
        return call.unsqueezed(y, 1)
    equation = f"{''.join(left)},{''.join(right)}->{''.join(result)}"
    return call.g("Einsum", a, b, equation=equation)


def _unit(call: KerasCall, x: Value, axis: int) -> Value:
    square = call.reduced("ReduceSum", call.g("Mul", x, x), [axis], True)
    return call.g("Div", x, call.g("Sqrt", call.g("Max", square, 1e-12)))


@layer("CustomScaleLayer")
def scaled_sum(call: KerasCall, xs: Sequence[Value]) -> Value:
    """The sum of two tensors, the second one scaled (of `keras.applications`)."""
    x, y = _operands(call, xs)
    return call.g("Add", x, call.g("Mul", y, call.number(call.config.number("scale", 1.0), y)))
