"""Exponentials of matrices."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from infuse.tracing.arrays.array import Array, lifted, node
from infuse.tracing.arrays.control import loop
from infuse.tracing.arrays.creation import eye
from infuse.tracing.arrays.elementwise import FUNCTIONS, where
from infuse.tracing.arrays.elimination import stacked
from infuse.tracing.arrays.linear import matmul
from infuse.tracing.arrays.reduction import max, sum

_NEAR: Final = {4: 3.0, 8: 1.0}
"""The norms, by bytes of an element, up to which the polynomial is exact."""
_BLOCK, _BLOCKS = 4, 5
"""Terms that are put together from the first powers, and how many groups of them there are."""
_MOST: Final = 120
"""Halvings beyond which the factor would be subnormal."""


def matrix_exponential(x: Array) -> Array:
    """1 + x + x² / 2 + … of square matrices: a Taylor polynomial (in blocks, by Paterson and
    Stockmeyer) of matrices that are halved until they are small, squared as often; of single
    numbers e^x.
    """
    if x.shape[-1] == 1:
        return FUNCTIONS["exp"](x)
    one = lifted(1, x.dtype)
    norm = max(sum(abs(x), axis=-2, keepdims=True), axis=-1, keepdims=True)
    ratio = norm / _NEAR[x.dtype.itemsize]
    is_large = (ratio > 1) & FUNCTIONS["isfinite"](ratio)
    halvings = FUNCTIONS["ceil"](FUNCTIONS["log2"](where(is_large, ratio, one)))
    halvings = node("Min", halvings, lifted(_MOST, x.dtype))
    result = _polynomial(x * lifted(2, x.dtype) ** -halvings)

    def squared(k: Array, y: Array) -> tuple[Array, Array]:
        return k + 1, where(k < halvings, matmul(y, y), y)

    most = max(node("Concat", node("Reshape", halvings, np.array([-1])), lifted([0], x.dtype),
                    axis=0))  # fmt: skip
    _, result = loop(lambda k, _: k < most, squared, (lifted(0, x.dtype), result))
    return result


def _polynomial(x: Array) -> Array:
    powers = [stacked(x, eye(x.shape[-1], dtype=x.dtype)), x]
    while len(powers) <= _BLOCK:
        powers.append(matmul(powers[-1], x))
    result: Array | None = None
    for block in reversed(range(_BLOCKS)):
        part = powers[0] * (1 / math.factorial(_BLOCK * block))
        for power in range(1, _BLOCK):
            part = part + powers[power] * (1 / math.factorial(_BLOCK * block + power))
        result = part if result is None else matmul(result, powers[_BLOCK]) + part
    assert result is not None
    return result
