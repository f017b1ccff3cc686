"""Bases of splines."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.frontends.sklearn.calls import TRANSFORM, reads
from infuse.ir.graph import Array
from infuse.tracing.tensors import Tensor, beside


@reads(TRANSFORM, "SplineTransformer")
def splines(model: Any, x: Tensor) -> Tensor:
    """The splines of the basis of each feature at its number."""
    ignores_nan = getattr(model, "handle_missing", "error") == "zeros"
    columns, reach = [], int(model.degree)
    for i, spline in enumerate(model.bsplines_):
        column = x.column(i)
        absent = column.isnan()
        result = absent.where(0.0 if ignores_nan else np.nan, _basis(model, column, spline, reach))
        if model.extrapolation == "linear" and reach <= 1:
            # From here on the library looks for the ends of the next features one knot further in.
            reach += 1
        columns.append(result if model.include_bias else result.columns(range(result.width - 1)))
    return beside(*columns)


def _basis(model: Any, column: Tensor, spline: Any, reach: int) -> Tensor:
    """The splines of one feature: [batch, splines]."""
    knots, degree = np.asarray(spline.t, np.float64), int(model.degree)
    low, high = float(knots[reach]), float(knots[-reach - 1])
    inner = [*range(degree + 1, len(knots) - degree - 1)]
    if model.extrapolation == "periodic":
        column = _within_period(column, low, high - low)
    if model.extrapolation in ("constant", "linear"):
        below, above = column < low, column > high
        ends = _ends(model, column, spline, reach)
        return below.where(ends[0], above.where(ends[1], _inside(column, knots, degree, inner)))
    result = _inside(column, knots, degree, inner)
    if model.extrapolation == "error":
        # There is no place 1: the run ends where a number lies outside.
        outside = ((column < low) | (column > high)).integers()
        return result + outside.take(np.zeros(1))
    return (
        result @ np.asarray(spline.c, np.float64) if model.extrapolation == "periodic" else result
    )


def _within_period(column: Tensor, low: float, period: float) -> Tensor:
    """Numbers in the first period, by the remainder that has the divisor's sign; zeros where the
    feature was constant.
    """
    if period <= 0:
        return column * 0.0
    rest = (column - low).call("Mod", period, fmod=1)
    return (rest < 0).where(rest + period, rest) + low


def _ends(model: Any, column: Tensor, spline: Any, reach: int) -> tuple[Any, Any]:
    """The splines below and above all knots: those at the end, or lines from there."""
    count, low, high = spline.c.shape[1], spline.t[reach], spline.t[-reach - 1]
    is_linear = model.extrapolation == "linear"
    reach = reach + 1 if is_linear and reach <= 1 else reach
    first, last = np.arange(count) < reach, np.arange(count) >= count - reach
    results = []
    for end, chosen in ((low, first), (high, last)):
        value: Any = np.where(chosen, spline(end), 0.0).reshape(1, -1)
        if is_linear:
            slope = np.where(chosen, spline(end, nu=1), 0.0).reshape(1, -1)
            value = (column - end) * slope + value
        results.append(column.constant(value) if not is_linear else value)
    return results[0], results[1]


def _inside(column: Tensor, knots: Array, degree: int, inner: list[int]) -> Tensor:
    """The splines by de Boor's recursion from the nearest interval: [batch, knots - degree - 1]."""
    place = (column >= knots[inner].reshape(1, -1)).integers().sum(keep=True) + degree

    def knot(offset: int) -> Tensor:
        return (place + offset).take(knots)

    values = [column * 0.0 + 1.0]
    for order in range(1, degree + 1):
        following = [column * 0.0]
        for n in range(1, order + 1):
            end, start = knot(n), knot(n - order)
            width = end - start
            none = width.equals(0.0)
            share = none.where(0.0, values[n - 1] / none.where(1.0, width))
            following[-1] = following[-1] + share * (end - column)
            following.append(share * (column - start))
        values = following
    numbers = np.arange(len(knots) - degree - 1).reshape(1, -1)
    parts = [(place + (n - degree)).equals(numbers).where(v, 0.0) for n, v in enumerate(values)]
    result = parts[0]
    for part in parts[1:]:
        result = result + part
    return result
