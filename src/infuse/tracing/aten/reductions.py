"""Reductions over axes, and running ones."""

from __future__ import annotations

from typing import Any

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten, axes_of, axis_of


def reduced(g: TorchImporter, kind: str, x: Value, dim: Any, keepdim: bool) -> Value:
    """A reduction over axes (all for None and an empty list)."""
    axes = axes_of(dim, x.rank)
    return g(kind, x, g.ints(*axes), keepdims=int(keepdim)) if axes else x


def _summed(kind: str) -> Any:
    def build(
        g: TorchImporter, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Value:
        if g.dtype.is_bool:  # sums of truth: any, and products: all
            extreme = "ReduceMax" if kind == "ReduceSum" else "ReduceMin"
            return _extreme_of(g, extreme, g.cast(x, g.dtype), dim, keepdim)
        return reduced(g, kind, g.cast(x, g.dtype), dim, keepdim)

    return build


aten("sum")(_summed("ReduceSum"))
aten("mean")(_summed("ReduceMean"))
aten("prod")(_summed("ReduceProd"))


@aten("nansum")
def nansum(
    g: TorchImporter, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Value:
    """The sum of what is a number."""
    x = g.cast(x, g.dtype)
    if x.dtype.is_float:
        x = g("Where", g("IsNaN", x), g.number(0, x.dtype), x)
    return reduced(g, "ReduceSum", x, dim, keepdim)


def _extreme(kind: str) -> Any:
    def build(g: TorchImporter, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
        return _extreme_of(g, kind, x, dim, keepdim)

    return build


def _extreme_of(g: TorchImporter, kind: str, x: Value, dim: Any, keepdim: bool = False) -> Value:
    wide = g.cast(x, dtypes.uint8) if x.dtype.is_bool else x
    return g.cast(reduced(g, kind, wide, dim, keepdim), x.dtype)


aten("amax", "max.default")(_extreme("ReduceMax"))
aten("amin", "min.default")(_extreme("ReduceMin"))


@aten("aminmax")
def aminmax(
    g: TorchImporter, x: Value, *, dim: int | None = None, keepdim: bool = False
) -> list[Value]:
    """The least and the largest element."""
    return [_extreme_of(g, kind, x, dim, keepdim) for kind in ("ReduceMin", "ReduceMax")]


def _extreme_with_index(kind: str, index: str) -> Any:
    def build(g: TorchImporter, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
        values = _extreme_of(g, kind, x, dim, keepdim)
        return [values, _place(g, index, x, dim, keepdim)]

    return build


def _place(g: TorchImporter, kind: str, x: Value, dim: int | None, keepdim: bool) -> Value:
    """The index of the first extreme of an axis, or of all elements."""
    rank = x.rank
    if x.dtype.is_bool:
        x = g.cast(x, dtypes.uint8)
    if dim is None or rank == 0:
        place = g(kind, g.shaped(x, -1), axis=0, keepdims=0)
        return g.shaped(place, *[1] * rank) if keepdim and rank else place
    return g(kind, x, axis=axis_of(dim, rank), keepdims=int(keepdim))


aten("max.dim")(_extreme_with_index("ReduceMax", "ArgMax"))
aten("min.dim")(_extreme_with_index("ReduceMin", "ArgMin"))


@aten("argmax", "argmin")
def argmax(g: TorchImporter, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """The index of the first extreme."""
    kind = "ArgMax" if g.called.startswith("aten.argmax") else "ArgMin"
    return _place(g, kind, x, dim, keepdim)


@aten("any", "all")
def any_(g: TorchImporter, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """Whether some elements are not 0, or all."""
    some = g.called.startswith("aten.any")
    truths = g.cast(x, dtypes.bool_)
    if isinstance(dim, (list, tuple)) and not dim:
        return g.cast(truths, g.dtype)
    wide = g.cast(truths, dtypes.uint8)
    y = reduced(g, "ReduceMax" if some else "ReduceMin", wide, dim, keepdim)
    return g.cast(g.cast(y, dtypes.bool_), g.dtype)


@aten("count_nonzero")
def count_nonzero(g: TorchImporter, x: Value, dim: Any = None) -> Value:
    """How many elements are not 0."""
    ones = g.cast(g.cast(x, dtypes.bool_), dtypes.int64)
    return reduced(g, "ReduceSum", ones, dim, False)


@aten("logsumexp", "special_logsumexp")
def logsumexp(g: TorchImporter, x: Value, dim: Any, keepdim: bool = False) -> Value:
    """The logarithm of the sum of the exponentials."""
    return reduced(g, "ReduceLogSumExp", g.cast(x, g.dtype), dim, keepdim)


# -- spread ----------------------------------------------------------------------------------------


def _spread(
    g: TorchImporter, x: Value, dim: Any, correction: Any, keepdim: bool
) -> tuple[Value, Value]:
    """The variance and the mean."""
    axes = axes_of(dim, x.rank)
    if not axes:
        x, axes, squeezed = g("Unsqueeze", x, g.ints(0)), [0], True
    else:
        squeezed = False
    mean = g("ReduceMean", x, g.ints(*axes), keepdims=1)
    apart = g("Sub", x, mean)
    total = g("ReduceSum", g("Mul", apart, apart), g.ints(*axes), keepdims=1)
    count: Any = 1
    for axis in axes:
        count = g.calculated("Mul", count, g.size_of(x, axis))
    correction = 1 if correction is None else correction
    if isinstance(count, int):
        freedom = g.number(max(0, count - correction), x.dtype)
    else:
        freedom = g("Max", g("Sub", g.cast(count, x.dtype), float(correction)), 0.0)
    variance = g("Div", total, freedom)
    if keepdim and not squeezed:
        return variance, mean
    return g("Squeeze", variance, g.ints(*axes)), g("Squeeze", mean, g.ints(*axes))


@aten("var.correction", "std.correction", "var_mean.correction", "std_mean.correction")
def spread(
    g: TorchImporter, x: Value, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Any:
    """The variance or standard deviation, and the mean where it is asked for."""
    variance, mean = _spread(g, x, dim, correction, keepdim)
    first = g("Sqrt", variance) if g.called.startswith("aten.std") else variance
    return [first, mean] if "_mean" in g.called else first


@aten("var", "std", "var_mean", "std_mean")
def spread_unbiased(
    g: TorchImporter, x: Value, dim: Any = None, unbiased: Any = True, keepdim: bool = False
) -> Any:
    """The variance or standard deviation, and the mean where it is asked for."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    return spread(g, x, dim, correction=int(unbiased), keepdim=keepdim)


# -- running ---------------------------------------------------------------------------------------


@aten("cumsum", "cumprod")
def cumulative(g: TorchImporter, x: Value, dim: int, *, dtype: DType | None = None) -> Value:
    """Sums or products of the elements so far."""
    kind = "CumSum" if g.called.startswith("aten.cumsum") else "CumProd"
    x = g.cast(x, g.dtype)
    if x.rank == 0:
        return x
    return g(kind, x, g.number(axis_of(dim, x.rank), dtypes.int64))
