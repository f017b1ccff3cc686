"""Where a key falls: the same every time, evenly, and moving no more than it must when weights
change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

_BITS: Final = 53


def point(key: str, salt: str) -> float:
    """The place of `key` in [0, 1); places under two salts have nothing to do with each other."""
    data = f"{salt}\0{key}".encode("utf-8", "surrogatepass")
    drawn = int.from_bytes(blake2b(data, digest_size=8).digest(), "little") >> (64 - _BITS)
    return drawn / (1 << _BITS)


def pick_for(key: str, salt: str, weights: Sequence[tuple[int, float]]) -> int:
    """The version of `key` among (version, weight > 0): weighted rendezvous hashing.

    Each version draws -ln(1 - u) / weight with a u of its own for this key, the smallest wins. So a
    version gets its share of the keys, a raised weight only wins keys for its version, and a
    version that leaves only gives its keys away.
    """

    def drawn(entry: tuple[int, float]) -> float:
        return -math.log1p(-point(key, f"{salt}\0{entry[0]}")) / entry[1]

    return min(weights, key=drawn)[0]


def pick(drawn: float, weights: Sequence[tuple[int, float]]) -> int:
    """The version at `drawn`, in [0, 1), of the weights laid end to end."""
    left = drawn * sum(weight for _, weight in weights)
    for version, weight in weights:
        left -= weight
        if left < 0:
            return version
    return weights[-1][0]
