"""Operators without a kernel of their own, expressed in simpler ones before the graph is
lowered.
"""

from infuse.lowering.expand import (  # noqa: F401  (each registers its expansions)
    bits,
    block_products,
    distances,
    flexing,
    images,
    integer_operators,
    integer_products,
    microsoft_attention,
    ml,
    movement,
    narrow,
    normalization,
    products,
    quantization,
    scalars,
    signal,
    transposed,
    transposed_integers,
    tree_rows,
    vision,
)
from infuse.lowering.expand.driver import expand

__all__ = ["expand"]
