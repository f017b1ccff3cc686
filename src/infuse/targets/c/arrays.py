"""Weights as arrays of C."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from infuse.errors import OptionError
from infuse.lowering.weights import Weights
from infuse.ops.core.base import Array

NAME: Final = "weight_arrays"
_MOST: Final = 1 << 28
_LINE: Final = {1: 24, 2: 14, 4: 9, 8: 5}
"""Numbers of a line, by their bytes."""


def arrays_text(weights: Weights, prefix: str) -> str:
    """The weights as one constant of C, and the name `{prefix}_embedded_weights` for where it
    starts; NULL where there are none.

    Each is an array of unsigned integers as wide as its elements, so that both orders of bytes
    read them. OptionError for more than compilers take.
    """
    pointer = f"{prefix}_embedded_weights"
    if weights.bytes > _MOST:
        raise OptionError(
            f"{weights.bytes:,} bytes of weights are too many for one file of C",
            hint=f"{_MOST:,} is the most; link a file of weights into a library (embed, --embed)",
        )
    fields, values = [], []
    for number, (array, gap) in enumerate(_with_gaps(weights)):
        bits = 8 * array.itemsize
        fields.append(f"  uint{bits}_t w{number}[{array.size}];")
        values.append(f"  {{{_numbers(array)}}},")
        if gap:
            fields.append(f"  uint8_t gap{number}[{gap}];")
            values.append("  {0},")
    if not fields:
        return f"#define {pointer} NULL\n"
    lines = [
        "static const struct {",
        *fields,
        f"}} {NAME} __attribute__((aligned(64))) = {{",
        *values,
        "};",
        f"#define {pointer} ((const char*)&{NAME})",
    ]
    return "\n".join(lines) + "\n"


def _with_gaps(weights: Weights) -> Iterator[tuple[Array, int]]:
    """The arrays that have elements, flat, and the bytes between each and the next."""
    previous: Array | None = None
    end = 0
    for position, array in weights:
        if not array.size:
            continue
        if previous is not None:
            yield previous, position - end
        previous = np.ascontiguousarray(array).reshape(-1)
        previous = previous.view(f"u{array.dtype.itemsize}")
        end = position + array.nbytes
    if previous is not None:
        yield previous, 0


def _numbers(array: Array) -> str:
    """The elements, some in a line."""
    form = str if array.itemsize == 1 else f"0x{{:0{2 * array.itemsize}x}}".format
    end = "ULL" if array.itemsize == 8 else ""
    texts = [f"{form(number)}{end}" for number in array.tolist()]
    count = _LINE[array.itemsize]
    lines = (",".join(texts[i : i + count]) for i in range(0, len(texts), count))
    return ",\n   ".join(lines)
