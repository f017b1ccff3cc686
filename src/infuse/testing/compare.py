"""Comparison of computed with exact results, always within an accuracy that somebody states."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from infuse import dtypes
from infuse.ops.core.base import Rounding

Array = npt.NDArray[Any]


def assert_agrees(actual: Array, exact: Array, accuracy: Rounding, what: str = "result") -> None:
    """AssertionError unless `actual` lies within `accuracy` of `exact`; `what` begins the
    message.
    """
    worst = difference(actual, exact, accuracy)
    if worst is not None:
        raise AssertionError(f"{what}: {worst}")


def is_near(actual: Array, expected: Array, part: float) -> bool:
    """Whether floats of one shape agree up to a part of the largest finite one that is expected;
    what is not finite has to be the same.
    """
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        allowed = part * np.abs(b[np.isfinite(b)]).max(initial=1e-30)
        return bool((same | (np.abs(a - b) <= allowed)).all())


def difference(
    actual: Array, exact: Array, accuracy: Rounding, *, flushed: bool = False
) -> str | None:
    """What is wrong with `actual`, or None when it lies within `accuracy` of `exact`.

    `exact` may be of a wider type: it is rounded to the type of `actual` before units in the last
    place are counted. NaN agrees with NaN, infinities with equal ones, 0 with −0. Results that are
    not floats agree when they are equal; only `accuracy.abs` and `accuracy.steps` give integers
    leeway. `flushed`: as in compiled code, 0 stands for results below the smallest normal number
    (of float32 where the type is a narrower one, since there it is computed in float32).
    """
    actual, exact = np.asarray(actual), np.asarray(exact)
    if actual.shape != exact.shape:
        return f"the shape is {actual.shape}, expected {exact.shape}"
    kind = dtypes.by_numpy(actual.dtype).kind
    if (kind == "f") != (dtypes.by_numpy(exact.dtype).kind == "f"):
        return f"the element type is {actual.dtype}, expected {exact.dtype}"
    if not actual.size:
        return None
    if kind in "sbc":
        return _report(actual, exact, actual != exact, "")
    if kind in "iu":
        error = np.abs(actual.astype(object) - exact.astype(object))
        leeway = (
            int(accuracy.abs * max(abs(int(v)) for v in exact.reshape(-1))) if accuracy.abs else 0
        )
        leeway = max(leeway, accuracy.steps)
        return _report(actual, exact, error > leeway, f"within {leeway}")
    return _float_difference(actual, exact, accuracy, flushed)


def _float_difference(actual: Array, exact: Array, accuracy: Rounding, flushed: bool) -> str | None:
    with np.errstate(all="ignore"):
        got, expected = actual.astype(np.float64), exact.astype(actual.dtype).astype(np.float64)
        finite = np.isfinite(expected) & np.isfinite(got)
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        if flushed:
            smallest = np.finfo(np.float64 if actual.dtype == np.float64 else np.float32).tiny
            same |= (got == 0) & (np.abs(expected) < smallest)
        units = spacing(expected, actual.dtype)
        largest = np.max(np.abs(expected), where=np.isfinite(expected), initial=0.0)
        error = np.abs(got - expected)
        wrong = ~same & ~(
            finite & (error <= np.maximum(accuracy.ulp * units, accuracy.abs * largest))
        )
    if not wrong.any():
        return None
    worst = np.where(wrong & finite, error / units, np.where(wrong, np.inf, 0)).max()
    relative = np.where(finite, error, 0).max() / largest if largest else np.inf
    allowed = f"{accuracy.ulp:g} ulp or {accuracy.abs:g} of the largest"
    return _report(
        actual, exact, wrong, f"{allowed} allowed, {worst:.3g} ulp and {relative:.3g} found"
    )


def spacing(x: Array, dtype: npt.DTypeLike) -> Array:
    """One unit in the last place of a floating type, at these float64 magnitudes."""
    limits: Any = ml_dtypes.finfo(np.dtype(dtype))  # type: ignore[no-untyped-call]
    _, exponent = np.frexp(np.where(np.isfinite(x), x, 0.0))
    lowest = np.where(x == 0, limits.minexp, np.maximum(exponent - 1, limits.minexp))
    result: Array = np.ldexp(1.0, lowest - limits.nmant)
    return result


def _report(actual: Array, exact: Array, wrong: Any, detail: str) -> str | None:
    places = np.argwhere(np.asarray(wrong, dtype=bool))
    if not len(places):
        return None
    place = tuple(int(i) for i in places[0])
    first = (
        f"first at {list(place)}: {actual[place]} for {exact[place]}"
        if place
        else f"{actual} for {exact}"
    )
    return (
        f"{len(places)} of {actual.size} elements differ, {first}{f' ({detail})' if detail else ''}"
    )
