"""What comes out of a run: statistics for people, archives for programs."""

from __future__ import annotations

import json
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.build.autotune.precision import PrecisionReport
from infuse.cli import terminal
from infuse.errors import OptionError
from infuse.ir.graph import Array
from infuse.lowering.precisions import MIXED

MOST_ELEMENTS = 1000
"""Elements of an output that are printed as JSON."""


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


def write_json(path: Path, data: Any) -> None:
    """Write plain data as JSON; the file appears whole or not at all. OptionError when it cannot be
    written.
    """
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.json")
    try:
        temporary.write_text(json.dumps(data, ensure_ascii=False), "utf-8")
        temporary.replace(path)
    except OSError as error:
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


def kept_lines(reasons: Mapping[str, str]) -> list[str]:
    """What to say of the tensors that precision fp16 has left in float32, by name and reason."""
    return [f"stays in float32: {name}: {reason}" for name, reason in reasons.items()]


def say_precisions(report: Mapping[str, Any] | None) -> None:
    """Say what a search for the fastest precision found, where there was one."""
    if report is None:
        return
    for line in PrecisionReport.parse(report).lines():
        terminal.say(line)
    rows = [
        (layer["node"], layer["operator"], layer["precision"], _part(layer["difference"]))
        for layer in report["layers"]
    ]
    if report["precision"] == MIXED:
        columns = ("layer", "operator", "precision", "#difference alone")
        terminal.say_table("precisions of layers", columns, rows)


def weights_text(packed: int, constants: int, choice: str) -> str:
    """What weights take in the order in which kernels read them, beside the graph's constants."""
    times = f", {packed / constants:.2f} ×" if constants else ", besides"
    return (
        f"packed weights ({choice}): {terminal.bytes_text(packed)}{times} the "
        f"{terminal.bytes_text(constants)} of the optimized graph's constants"
    )


def _part(difference: float | None) -> str:
    return "–" if difference is None else f"{difference:.1e}"


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
