"""What comes out of a run: statistics for people, archives for programs."""

from __future__ import annotations

import secrets
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import OptionError
from infuse.ir.graph import Array

MOST_ELEMENTS = 1000
"""Elements of an output that are written as plain data."""


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write an .npz archive, which appears whole or not at all; OptionError when it cannot be
    written.

    The tensors of a sequence are entries NAME.0, NAME.1, …; texts are stored as NumPy's fixed-width
    strings.
    """
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.npz")
    try:
        # Not numpy.savez: it has a parameter of its own called file, which an output may be called
        # too.
        with temporary.open("xb") as file, zipfile.ZipFile(file, "w") as archive:
            for name, value in arrays.items():
                for entry_name, array in _entries(name, value):
                    with archive.open(f"{entry_name}.npy", "w", force_zip64=True) as entry:
                        np.lib.format.write_array(entry, array, allow_pickle=False)
        temporary.replace(path)
    except (OSError, ValueError) as error:
        raise OptionError(f"it cannot be written: {error}", where=f"output {path}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _entries(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    if isinstance(value, list):
        for number, part in enumerate(value):
            yield from _entries(f"{name}.{number}", part)
    elif value is not None:
        array = np.asanyarray(value)
        yield name, array.astype(str) if array.dtype == object else array


def type_text(array: Any) -> str:
    """`float32[1, 1000]`, or what it is in place of a tensor."""
    if array is None:
        return "nothing"
    if not isinstance(array, np.ndarray):
        return f"sequence of {len(array)}" if isinstance(array, list) else type(array).__name__
    if array.dtype == object:
        return f"string[{', '.join(map(str, array.shape))}]"
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]"


def summary(name: str, value: Any) -> str:
    """`name = elements` as NumPy prints them, the middle of long axes left out."""
    start = f"{name} = "
    if not isinstance(value, np.ndarray):
        return f"{start}{value!r}"
    text = np.array2string(
        value, precision=6, threshold=24, edgeitems=3, max_line_width=100, prefix=start
    )
    return start + text


def elements(array: Any) -> dict[str, Any]:
    """The elements of an output as `values`, nested lists, where they are few."""
    if not isinstance(array, np.ndarray) or array.size > MOST_ELEMENTS:
        return {}
    values = array if array.dtype.kind in "biufOU" else array.astype(np.float64)
    return {"values": values.tolist()}


def statistics(array: Any) -> dict[str, Any]:
    """Least, largest and mean element, standard deviation, and how many are NaN or infinite; of
    numbers only.
    """
    if not isinstance(array, np.ndarray):
        return {}
    if array.dtype == object:
        return {"elements": array.size}
    is_float = dtypes.by_numpy(array.dtype).is_float
    if not array.size or not (is_float or array.dtype.kind in "iub"):
        return {"elements": array.size}
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    result: dict[str, Any] = {"elements": array.size, "not_finite": array.size - finite.size}
    if finite.size:
        result |= {
            "min": float(finite.min()),
            "max": float(finite.max()),
            "mean": float(finite.mean()),
            "std": float(finite.std()),
        }
    return result
