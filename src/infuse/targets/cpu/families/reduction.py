"""Reductions and places of extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from infuse.targets.cpu.families.base import (
    Arguments,
    Array,
    Size,
    Stores,
    computes,
    declared_in,
    leading,
    writes,
)


@declared_in("reduce.hpp")
class ReduceSizes(NamedTuple):
    """A reduction of the middle of three axes; `cols` neighbouring results form a row."""

    outer: Size
    reduce: Size
    inner: Size
    cols: Size


def _mean(x: Array) -> Array:
    """Integers are cut towards zero; the mean of none of them is 0."""
    total, count = x.sum(1), x.shape[1]
    if x.dtype.kind == "f":
        return np.asarray(total / count)
    whole: Array = np.sign(total) * (np.abs(total) // max(count, 1))
    return whole.astype(x.dtype)


def _limit(kind: np.dtype[Any], *, least: bool) -> Any:
    """What the smallest or largest of no elements is."""
    if kind.kind == "f":
        return -np.inf if least else np.inf
    if kind.kind == "b":
        return not least
    return np.iinfo(kind).min if least else np.iinfo(kind).max


_REDUCERS: Final[dict[str, Callable[[Array], Array]]] = {
    "Sum": lambda x: x.sum(1),
    "Mean": _mean,
    "Max": lambda x: x.max(1, initial=_limit(x.dtype, least=True)),
    "Min": lambda x: x.min(1, initial=_limit(x.dtype, least=False)),
    "Product": lambda x: x.prod(1),
    "SumSquare": lambda x: (x * x).sum(1),
    "L1": lambda x: np.abs(x).sum(1),
    "L2": lambda x: np.sqrt((x * x).sum(1).astype(np.float64)),
    "LogSum": lambda x: np.log(x.sum(1).astype(np.float64)),
}
"""What becomes of the middle axis."""


@computes("reduce")
def reduce(call: Arguments) -> Array:
    """Results in rows of `cols`."""
    s, elements = call.arguments[:2]
    made = _REDUCERS[call.template[0]](_blocks(elements.astype(np.float64), s[:3]))
    return _in_rows(made, s)


@writes("reduce_scalar")
def reduce_scalar(call: Arguments) -> Stores:
    """Results in the type of the elements; small integers are widened on the way."""
    s, elements = call.arguments[:2]
    wide = {"i": np.dtype(np.int64), "u": np.dtype(np.uint64)}
    x = _blocks(elements, s[:3])
    is_extreme = call.template[0] in ("Max", "Min")
    working = x if is_extreme else x.astype(wide.get(x.dtype.kind, x.dtype))
    return {2: _REDUCERS[call.template[0]](working)}


@writes("log_sum_exp")
def log_sum_exp(call: Arguments) -> Stores | None:
    """The logarithms of sums of powers of doubles, stored as they are."""
    s, elements = call.arguments[:2]
    if elements.dtype != np.float64:
        return None
    return {2: _log_sum_exp(_blocks(elements, s[:3]))}


@computes("log_sum_exp")
def log_sum_exp_of_floats(call: Arguments) -> Array | None:
    """The same of floats, handed to a sink."""
    s, elements = call.arguments[:2]
    if elements.dtype == np.float64:
        return None
    return _in_rows(_log_sum_exp(_blocks(elements.astype(np.float64), s[:3])), s)


@writes("arg_extreme")
def arg_extreme(call: Arguments) -> Stores:
    """Places of the largest or smallest, the first or last of equals; NaN counts as extreme."""
    outer, size, inner, last, elements = call.arguments[:5]
    x = _blocks(elements, (outer, size, inner))
    best = x.max(1, keepdims=True) if call.template[0] == "true" else x.min(1, keepdims=True)
    here = (x == best) | ((x != x) & (best != best))
    places = size - 1 - here[:, ::-1].argmax(1) if last else here.argmax(1)
    return {5: places}


def _log_sum_exp(x: Array) -> Array:
    top = x.max(1, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    made: Array = np.log(np.exp(x - top).sum(1)) + top[:, 0]
    return made


def _blocks(elements: Array, shape: tuple[int, int, int]) -> Array:
    """The first elements as (outer, size, inner)."""
    outer, size, inner = shape
    return leading(elements, outer * size * inner).reshape(shape)


def _in_rows(made: Array, sizes: Any) -> Array:
    """Results [outer, inner] in rows; ValueError where they are cut otherwise than there may be."""
    whole = sizes.outer if sizes.inner == 1 else sizes.inner
    if made.size and whole % sizes.cols:
        raise ValueError(f"{whole} results in rows of {sizes.cols}")
    return made.reshape(-1, sizes.cols) if made.size else made
