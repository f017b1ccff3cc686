"""SentencePiece's map of characters: a double array of prefixes, and the texts that replace them.

Source: Kanda, Space- and Time-Efficient String Dictionaries (2018), and the comments of
SentencePiece's normalizer. Whoever follows such a map trusts its offsets, so they are checked.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from infuse.errors import ModelFileError

_EVERY: Final = np.arange(256, dtype=np.uint32)


def check_character_map(data: bytes) -> None:
    """ModelFileError where a text could lead outside of the map."""
    size = int.from_bytes(data[:4], "little")
    if len(data) < 4 + size or size % 4 or not size:
        raise ModelFileError("its character map states another size than it has")
    units, texts = np.frombuffer(data[4 : 4 + size], "<u4"), data[4 + size :]
    try:
        texts.decode()
    except UnicodeDecodeError as error:
        raise ModelFileError("the texts of its character map are not UTF-8") from error
    values = _values(units)
    if values.size:
        content = np.frombuffer(texts, np.uint8)
        if int(values.max()) >= len(content) or content[-1]:
            raise ModelFileError("its character map leads beyond its texts")
        if ((content[values] & 0xC0) == 0x80).any():
            raise ModelFileError("its character map leads into a character")


def _values(units: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Where all texts begin that can be reached; each node is visited once."""
    visited = np.zeros(len(units), bool)
    nodes = _bases(units[:1])
    values: list[npt.NDArray[np.uint32]] = []
    while nodes.size:
        children = nodes[:, None] ^ _EVERY
        if int(children.max()) >= len(units):
            raise ModelFileError("its character map leads beyond its end")
        labels = units[children] & np.uint32(0x800000FF)
        matched = np.unique(children[(labels == _EVERY) & (_EVERY > 0)])
        fresh = matched[~visited[matched]]
        visited[fresh] = True
        nodes = fresh ^ _bases(units[fresh])
        leaves = nodes[(units[fresh] >> 8 & 1).astype(bool)]
        if leaves.size and int(leaves.max()) >= len(units):
            raise ModelFileError("its character map leads beyond its end")
        values.append(units[leaves] & np.uint32(0x7FFFFFFF))
    return np.concatenate(values) if values else np.empty(0, np.uint32)


def _bases(units: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """What the positions of children are xored with."""
    shifts = (units & np.uint32(0x200)) >> np.uint32(6)
    return np.asarray((units >> np.uint32(10)) << shifts, np.uint32)
