"""Second moments of what a layer multiplies: made invertible, and the error that they tell."""

from __future__ import annotations

import numpy as np

from infuse.ir.graph import Array

DAMPING = 0.01
"""What is added to the diagonal of second moments, as a part of its mean."""


def damped(moments: Array) -> Array:
    """Second moments [.., depth, depth] in float64 that have an inverse."""
    result = moments.astype(np.float64)
    places = np.arange(result.shape[-1])
    diagonal = result[..., places, places]
    mean = diagonal.mean(-1, keepdims=True)
    mean = np.where(mean > 0, mean, 1.0)
    # an activation that is always zero has a power of zero
    result[..., places, places] = np.where(diagonal > 0, diagonal, mean) + DAMPING * mean
    return result


def products_error(matrix: Array, exact: Array, moments: Array) -> float:
    """The power of the error of products with `matrix` over those with `exact` [depth, columns],
    for activations with these second moments; 0 where the exact ones have none.
    """
    noise, power = (float(np.sum((moments @ each) * each)) for each in (matrix - exact, exact))
    return noise / power if power > 0 else 0.0
