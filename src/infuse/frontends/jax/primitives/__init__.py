"""The primitives of JAX; every module fills the table with its own."""

from __future__ import annotations

from infuse.frontends.jax.primitives import (
    bits,
    control,
    elementwise,
    indexing,
    linear,
    movement,
    reductions,
    special,
    windows,
)

__all__ = [
    "bits",
    "control",
    "elementwise",
    "indexing",
    "linear",
    "movement",
    "reductions",
    "special",
    "windows",
]
