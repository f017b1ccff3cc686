"""Constants put together: only where that loses nothing, and wins nothing, that a reader of the
result would miss.

`x + a + b` rounds at the size of `a` first. Where `b` takes `a` off again, the digits of x that are
gone may be gone on purpose: `x + 1.5 · 2²³ - 1.5 · 2²³` rounds to integers, `(1 + x) - 1` tells
what rounding left of x. Products that leave the range of the type on the way are alike. So
constants that cancel each other stay apart, large ones already where their sum is half of one of
them: it rounds finer, and one may be the sum of several. Single elements among many do that by
accident, and nobody notices where they are not much larger than what they are added to.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from infuse.dtypes import DType
from infuse.ir.graph import Array, Value
from infuse.passes.rules.common import float_info, rounded, wide
from infuse.rewrite import require

BLOCK = 1 << 14
"""Elements that are looked at together."""
CANCELLING = 16.0
"""Times by which constants are larger than their sum where they cancel each other."""


def headroom(dtype: DType) -> float:
    """How many times larger than x a number may be that is added to it, before digits of x are lost
    that count.
    """
    digits = int(float_info(dtype).nmant) + 1
    return float(2.0 ** max(digits // 2, min(digits - 3, 8)))


def range_limit(dtype: DType) -> float:
    """Factors up to this size, and down to its reciprocal, keep ordinary numbers in the range of a
    type.
    """
    exponent = int(float_info(dtype).maxexp)
    return float(2.0 ** max(exponent // 2, min(exponent - 6, 10)))


def require_addend(c: Array, dtype: DType, beside: float = 1.0) -> None:
    """Refuse to add `c` earlier or later, among other terms, where it would round these away.

    `beside` is the size of those terms: that of the weights for a product (`reach`); nothing is
    lost of zeros.
    """
    largest = float(np.max(np.abs(c), initial=0.0))
    require(
        not 0 < headroom(dtype) * beside < largest,
        "the addend is so large that rounding may be meant",
    )


def require_sum(first: Array, second: Array, dtype: DType, beside: float = 1.0) -> None:
    """Refuse to add `second` to `first`, float64 arrays, where it takes `first` off again, or is
    lost in it.

    `beside` is the size of what the constants are added to, as in `require_addend`.
    """
    if not beside > 0 or 0 in (first.size, second.size):
        return
    limit = headroom(dtype) * beside
    is_large = max(magnitude(first), magnitude(second)) > limit
    everywhere = True
    for one, two in _blocks(*np.broadcast_arrays(first, second)):
        apart, largest = _apart(one, two, dtype)
        finer = apart | (np.abs(one + two) * 2 <= largest)
        noticed = is_large and bool((finer & (largest > limit)).any())
        require(not noticed, "the constants cancel each other: rounding may be meant")
        everywhere = everywhere and bool(apart.all())
        if not everywhere and not is_large:
            return
    require(not everywhere, "the constants cancel each other: rounding may be meant")


def _apart(first: Array, second: Array, dtype: DType) -> tuple[Array, Array]:
    """Where two float64 arrays cancel each other or one is lost in the other, and the larger one's
    size.
    """
    one, two = np.abs(first), np.abs(second)
    largest, least = np.maximum(one, two), np.minimum(one, two)
    total = np.asarray(first + second)
    held = total.astype(dtype.numpy).astype(np.float64)
    lost = (least > 0) & (np.abs(held - total) * headroom(dtype) > least)
    return (np.abs(total) * CANCELLING < largest) | lost, largest


def _blocks(first: Array, second: Array) -> Iterator[tuple[Array, Array]]:
    """Both arrays, of one shape, in pieces: a large table takes no more memory for each step, and
    less time.
    """
    if first.size <= BLOCK:
        yield first, second
        return
    rows = BLOCK * len(first) // first.size
    if rows == 0:
        for one, two in zip(first, second):
            yield from _blocks(one, two)
    else:
        for start in range(0, len(first), rows):
            yield first[start : start + rows], second[start : start + rows]


def merged_sum(first: Array, second: Array, like: Value, beside: float = 1.0) -> Array:
    """First + second of float64 in the type of `like`; Refusal as `require_sum` says."""
    require_sum(first, second, like.dtype, beside)
    return rounded(first + second, like)


def require_product(first: Array, second: Array, dtype: DType) -> None:
    """Refuse to multiply float64 arrays where x · first or the product leaves the range in which
    numbers are exact.
    """
    limit = range_limit(dtype)
    one, two = np.abs(first), np.abs(second)
    total = one * two
    largest, least = np.maximum(one, two), np.minimum(one, two)
    turns = ((largest > limit) & (total < largest)) | ((least < 1 / limit) & (total > least))
    require(
        not bool((turns & (least > 0)).any()), "the factors leave the range of the type on the way"
    )
    small = (least > 0) & (total < float(float_info(dtype).tiny))
    require(not bool(small.any()), "the merged constant is too small")


def merged_product(first: Array, second: Array, like: Value) -> Array:
    """First · second of float64 in the type of `like`; Refusal as `require_product` says."""
    require_product(first, second, like.dtype)
    return rounded(first * second, like)


def require_factors(dtype: DType, *parts: Array | Value) -> None:
    """Refuse to scale weights where results leave the range of the type on the way, or may.

    Among weights and factors there are always small ones: a part counts by its largest element.
    """
    limit = range_limit(dtype)
    for part in parts:
        size = magnitude(part)
        require(
            size == 0 or 1 / limit <= size <= limit,
            "the factors leave the range of the type on the way",
        )


def magnitude(weights: Array | Value) -> float:
    """The size of the largest weight; NaN does not count."""
    if isinstance(weights, Value):
        assert weights.const is not None
        weights = wide(weights) if weights.dtype.bits < 32 else weights.const
    if weights.size == 0:
        return 0.0
    return float(max(np.fmax.reduce(weights, axis=None), -np.fmin.reduce(weights, axis=None)))


def reach(weights: Value, outputs: int) -> float:
    """How large a product of ordinary numbers with weights may get, each of its `outputs` summing
    as many terms.
    """
    assert weights.const is not None
    return magnitude(weights) * max(1.0, weights.const.size / max(outputs, 1))
