"""Whether two versions answered the same."""

from __future__ import annotations

from typing import Final

import numpy as np

from infuse.runtime.session import Array
from infuse.serving.messages import InferResponse, Tensor

_FLOATS: Final = frozenset({"FP16", "BF16", "FP32", "FP64"})


def difference(expected: InferResponse, actual: InferResponse, tolerance: float) -> str | None:
    """What differs, or None.

    Every output of `expected` must be there with its type and shape. Floats may differ by
    `tolerance` times the largest finite magnitude of the expected output, and must have their NaN
    and infinities in the same places; everything else must be equal.
    """
    answers = {tensor.name: tensor for tensor in actual.outputs}
    for tensor in expected.outputs:
        if tensor.name not in answers:
            return f"output {tensor.name!r} is missing"
        reason = _between(tensor, answers[tensor.name], tolerance)
        if reason is not None:
            return f"output {tensor.name!r} {reason}"
    return None


def _between(expected: Tensor, actual: Tensor, tolerance: float) -> str | None:
    if expected.datatype != actual.datatype:
        return f"is {actual.datatype} instead of {expected.datatype}"
    if expected.shape != actual.shape:
        return f"has the shape {list(actual.shape)} instead of {list(expected.shape)}"
    if expected.datatype not in _FLOATS:
        return None if np.array_equal(expected.data, actual.data) else "has other elements"
    return _between_floats(
        expected.data.astype(np.float64), actual.data.astype(np.float64), tolerance
    )


def _between_floats(expected: Array, actual: Array, tolerance: float) -> str | None:
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(actual)):
        return "is not finite in other places"
    if not np.array_equal(expected[~finite], actual[~finite], equal_nan=True):
        return "has other NaN or infinities"
    if not finite.any():
        return None
    magnitude = float(np.abs(expected[finite]).max())
    moved = float(np.abs(expected[finite] - actual[finite]).max())
    if moved > tolerance * magnitude:
        return f"moved by {moved:.3g} where its largest magnitude is {magnitude:.3g}"
    return None
