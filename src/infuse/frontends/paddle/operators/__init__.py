"""Operators of Paddle by kind; importing this registers them."""

from __future__ import annotations

from infuse.frontends.paddle.operators import (  # noqa: F401
    activations,
    control,
    convolutions,
    creation,
    detection,
    images,
    indexing,
    linear,
    movement,
    normalization,
    pointwise,
    pooling,
    recurrent,
    reductions,
    setting,
)
