"""Products with weights of few bits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from infuse.targets.cpu.families.base import Arguments, Array, Size, computes, declared_in, matrix


@declared_in("nbits.hpp")
class NBitsSizes(NamedTuple):
    """A product with weights of few bits in blocks of `block`; rows of the left operand are `row`
    apart.
    """

    m: Size
    n: Size
    k: Size
    block: Size
    row: Size


@computes("nbits_matmul")
def nbits_matmul(call: Arguments) -> Array:
    """Rows times the transpose of the matrix whose codes stand for code · scale + shift."""
    bits = int(call.template[0])
    s, left, codes, scales, shifts = call.widened[:5]
    blocks = -(-s.k // s.block)
    held = codes[: s.n * blocks * s.block * bits // 8].astype(np.uint8)
    if bits == 4:
        held = np.stack([held & 15, held >> 4], axis=-1)
    steps = [step[: s.n * blocks].reshape(s.n, blocks, 1) for step in (scales, shifts)]
    weights = held.reshape(s.n, blocks, s.block) * steps[0] + steps[1]
    product: Array = matrix(left, (s.m, s.k), (s.row, 1)) @ weights.reshape(s.n, -1)[:, : s.k].T
    return product
