"""Many small arrays in one compressed file, and the files of tests of TensorFlow."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent / "data" / "tensorflow"


def write(path: Path, cases: dict[str, dict[str, np.ndarray]]) -> None:
    """All arrays one after another, and an index of them."""
    index, parts, place = [], [], 0
    for case, named in cases.items():
        for name, array in named.items():
            data = np.ascontiguousarray(array).tobytes()
            index.append([case, name, array.dtype.str, array.shape, place, len(data)])
            parts.append(data)
            place += len(data)
    listed = np.frombuffer(json.dumps(index).encode(), np.uint8)
    np.savez_compressed(path, index=listed, data=np.frombuffer(b"".join(parts), np.uint8))
    print(path.name, len(cases), path.stat().st_size)


@functools.cache
def cases(name: str, folder: Path = DATA) -> dict[str, dict[str, Any]]:
    """The arrays of each case of a file."""
    arrays: dict[str, dict[str, Any]] = {}
    with np.load(folder / name, allow_pickle=False) as stored:
        index, data = json.loads(stored["index"].tobytes()), stored["data"].tobytes()
    for case, part, dtype, shape, place, size in index:
        array = np.frombuffer(data[place : place + size], dtype).reshape(shape)
        arrays.setdefault(case, {})[part] = array
    return arrays
