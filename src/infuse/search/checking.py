"""Whether new nodes compute what the old ones did, on random inputs in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from infuse.dtypes import DType
from infuse.errors import InfuseError, VerificationError
from infuse.ir.graph import Array, Node, Value
from infuse.ops.core.evaluate import evaluate_node
from infuse.passes.verification import relative_difference
from infuse.search.cost import SizeOf

TOLERANCE = 1e-5
"""Largest difference in parts of the largest element: folded constants are rounded to their type.
"""
_ROUNDINGS = 2
"""So many steps of a type with few bits, where they are more: two folded constants."""


def difference(
    pairs: Sequence[tuple[Value, Value]], nodes: Sequence[Node], size: SizeOf, seed: int = 0
) -> float:
    """The largest difference between old and new values, with random numbers for all that `nodes`
    read from outside.

    `nodes` are the old and the new ones. VerificationError where it is larger than rounding
    explains, or where a node cannot be evaluated.
    """
    inside = set(nodes)
    rng = np.random.default_rng(seed)
    arrays: dict[Value, Any] = {}
    worst = 0.0
    for old, new in pairs:
        try:
            expected, actual = (_evaluated(v, inside, arrays, rng, size) for v in (old, new))
        except InfuseError as error:
            raise VerificationError(f"it cannot be evaluated: {error}") from error
        apart = relative_difference(actual, expected)
        if not apart <= tolerance(old.dtype):
            raise VerificationError(
                f"value {old.name!r} differs by {apart:.1e} of its largest element"
            )
        worst = max(worst, apart)
    return worst


def tolerance(dtype: DType) -> float:
    """The largest difference between values of a type, in parts of the largest element."""
    if not dtype.is_float:
        return TOLERANCE
    step = float(ml_dtypes.finfo(dtype.numpy).eps)  # type: ignore[no-untyped-call]
    return max(TOLERANCE, _ROUNDINGS * step)


def _evaluated(
    value: Value, inside: set[Node], arrays: dict[Value, Any], rng: Any, size: SizeOf
) -> Array:
    pending = [value]
    while pending:
        each = pending[-1]
        if each in arrays:
            pending.pop()
            continue
        node = each.producer
        if each.const is not None or node is None or node not in inside:
            arrays[each] = _given(each, rng, size)
            continue
        missing = [v for v in node.operands() if v not in arrays]
        if missing:
            pending += missing
            continue
        results = evaluate_node(node, [None if v is None else arrays[v] for v in node.inputs])
        arrays.update(zip(node.outputs, results))
    result: Array = arrays[value]
    return result


def _given(value: Value, rng: Any, size: SizeOf) -> Array:
    """The elements of a constant, or random ones: numbers around zero, small integers."""
    if value.const is not None:
        return value.const.astype(np.float64) if value.dtype.is_float else value.const
    shape = tuple(size(d) for d in value.shape)
    if value.dtype.is_float:
        result: Array = rng.standard_normal(shape)
        return result
    return np.asarray(rng.integers(0, 2, shape)).astype(value.dtype.numpy)
