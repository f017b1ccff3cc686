"""What comes out of a run: statistics for people, archives for programs."""

from __future__ import annotations

import secrets
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import OptionError
from infuse.ir.graph import Array


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an .npz archive, which appears whole or not at all; OptionError when it cannot be written."""
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.npz")
    try:
        # Not numpy.savez: it has a parameter of its own called file, which an output may be called too.
        with temporary.open("xb") as file, zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
        temporary.replace(path)
    except (OSError, ValueError) as error:
        raise OptionError(f"it cannot be written: {error}", where=f"output {path}") from error
    finally:
        temporary.unlink(missing_ok=True)


def type_text(array: Array) -> str:
    """`float32[1, 1000]`"""
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]"


def statistics(array: Array) -> dict[str, Any]:
    """Least, largest and mean element, standard deviation, and how many are NaN or infinite."""
    is_float = dtypes.by_numpy(array.dtype).is_float
    if not array.size or not (is_float or array.dtype.kind in "iub"):
        return {"elements": array.size}
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    found: dict[str, Any] = {"elements": array.size, "not_finite": array.size - finite.size}
    if finite.size:
        found |= {
            "min": float(finite.min()),
            "max": float(finite.max()),
            "mean": float(finite.mean()),
            "std": float(finite.std()),
        }
    return found
