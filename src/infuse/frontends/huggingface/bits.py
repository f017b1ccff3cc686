"""Small whole numbers in words of 32 bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from infuse.ir.graph import Array
from infuse.ops.domains.microsoft_bits import unpacked as whole_bytes


def unpacked(words: Array, bits: int) -> npt.NDArray[np.uint8]:
    """The numbers of `bits` bits (2, 3, 4 or 8) in rows of words, int32 (n, w) → (n, 32 w / bits),
    from the lowest bits on. A number may begin in one word and end in the next; what is left of a
    row is dropped.
    """
    n, size = len(words), 4 * words.shape[1]
    content = np.ascontiguousarray(words).view(np.uint8).reshape(n, size)
    if 8 % bits == 0:
        return whole_bytes(content, bits)
    single = np.unpackbits(content, axis=1, bitorder="little")
    count = size * 8 // bits
    single = single[:, : count * bits].reshape(n, count, bits)
    weighed = single << np.arange(bits, dtype=np.uint8)
    return np.asarray(weighed.sum(axis=2, dtype=np.uint8))
