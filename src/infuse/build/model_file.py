"""Files with a model for a library that runs programs: what it is for, its description, its program
and its weights (`kernels/model_file.hpp`).
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from infuse.runtime.folder import ABI, PROGRAM, WEIGHTS
from infuse.runtime.program import Facts

MAGIC: Final = b"INFUSEMF"
_HEAD: Final = struct.Struct("<8s2q2Q5q")
_CHECKED: Final = 32
"""Where the bytes begin that the check is of."""
_ALIGNMENT: Final = 64
_SAMPLE: Final = 64
_MOST_SAMPLES: Final = 64
_PRIME: Final = 0x100000001B3
_MASK: Final = (1 << 64) - 1


def write_model_file(
    made: Path, facts: Facts, description: Mapping[str, Any], output: Path
) -> None:
    """Write to `output` the model in the folder `made`, which has a program and its weights, for
    libraries with these facts.
    """
    program, weights = (made / PROGRAM).read_bytes(), made / WEIGHTS
    size = weights.stat().st_size
    parts = (facts.text().encode() + b"\0", json.dumps(description).encode() + b"\0", program)
    body = b"".join(map(_padded, parts))
    at = -(-(_HEAD.size + len(body)) // _ALIGNMENT) * _ALIGNMENT
    body += bytes(at - _HEAD.size - len(body))
    lengths = map(len, parts)
    with weights.open("rb") as source, output.open("wb") as file:
        sample = _sampled(source, size)
        head = _HEAD.pack(MAGIC, ABI, at + size, 0, sample, *lengths, at, size)
        check = _mixed(0, head[_CHECKED:] + body)
        file.write(head[: _CHECKED - 8] + struct.pack("<Q", check) + head[_CHECKED:] + body)
        source.seek(0)
        shutil.copyfileobj(source, file, 1 << 20)


def _padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 8)


def _mixed(state: int, data: bytes) -> int:
    for word in np.frombuffer(data, "<u8").tolist():
        state = (state ^ word) * _PRIME & _MASK
        state ^= state >> 29
    return state


def _sampled(file: BinaryIO, size: int) -> int:
    """A number of some blocks of the weights."""
    state, count = size, min(_MOST_SAMPLES, -(-size // _SAMPLE))
    for number in range(count):
        file.seek(0 if count < 2 else (size - _SAMPLE) // (count - 1) * number)
        state = _mixed(state, file.read(_SAMPLE).ljust(_SAMPLE, b"\0"))
    return state
