"""Results of constants, which importers compute at once: programs put sizes together of them."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from infuse.errors import InfuseError
from infuse.ir.graph import Array, Node, Value
from infuse.ir.types import TensorType
from infuse.ops.core.evaluate import evaluate_node

_RANDOM: Final = ("Random", "Bernoulli", "Multinomial", "Dropout")


def computed(node: Node, most: int, most_read: int | None = None) -> list[Array] | None:
    """What a node without bodies gives for constants; None where an operand is none, where results
    have more than `most` elements or operands more than `most_read`, and for random numbers. What
    cannot be computed fails where the graph runs, if it ever does.
    """
    operands = [None if value is None else value.const for value in node.inputs]
    if not node.inputs or node.subgraphs or node.op.name.startswith(_RANDOM):
        return None
    if any(v is not None and v.const is None for v in node.inputs):
        return None
    if most_read is not None and sum(0 if x is None else x.size for x in operands) > most_read:
        return None
    if not all(_is_small(value, most) for value in node.outputs):
        return None
    try:
        with np.errstate(all="ignore"):
            return list(evaluate_node(node, operands))
    except InfuseError:
        return None


def _is_small(value: Value, most: int) -> bool:
    type = value.type
    if not isinstance(type, TensorType) or type.shape is None:
        return False
    sizes = [size for size in type.shape if isinstance(size, int)]
    return len(sizes) == len(type.shape) and math.prod(sizes) <= most
