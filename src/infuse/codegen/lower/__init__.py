"""How operators become kernel calls, one file per family; importing this registers them all."""

from infuse.codegen.lower import (
    attention,
    convolution,
    indexing,
    linear,
    movement,
    normalization,
    pooling,
    reduction,
    views,
)

__all__ = [
    *("attention", "convolution", "indexing", "linear", "movement", "normalization", "pooling", "reduction", "views"),
]
