"""Products with weights of few bits."""

from __future__ import annotations

from typing import NamedTuple

from infuse.targets.cpu.families.base import Size, declared_in


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
