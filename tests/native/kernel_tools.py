"""Builds drivers of hand-written kernels, and arrays that end at a page that nobody may touch."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16
from numpy.typing import NDArray

import infuse
from infuse.build.build import build as build_model
from infuse.errors import ToolchainError
from infuse.runtime.cpus import cpu_features
from infuse.runtime.folder import LIBRARY, SOURCE
from tests.compilers import product_compilers
from tests.support.emulation import resolve

KERNELS = Path(infuse.__file__).parent / "kernels"
Floats = NDArray[np.float32]


def targets(wide: Sequence[str] = ("x86-64-v4",)) -> list[str]:
    """The targets that this machine runs or emulates: its own, on x86-64 those with LANES 8 and 4,
    and `wide` ones.

    A level for which kernels are the same as for this machine is left out.
    """
    names = ["x86-64-v3", "x86-64", *wide] if "sse2" in cpu_features() else []
    return ["native", *(name for name in names if has_target(name) and not _is_native(name))]


def _is_native(name: str) -> bool:
    """Whether kernels get the same numbers and units for dot products as on this machine, and run
    here.
    """
    target, native = resolve(name), resolve("native").machine
    same = target.machine.defines() == native.defines() and target.machine.dots == native.dots
    return same and not target.emulated


def seldom(*names: str) -> list[Any]:
    """Further targets for a table that takes long: where they are emulated, in its full form."""
    return [
        pytest.param(name, marks=[pytest.mark.full] * is_emulated(name))
        for name in names
        if has_target(name)
    ]


def is_emulated(name: str) -> bool:
    """Whether this machine lacks instructions of a target that it has (`has_target`)."""
    return bool(resolve(name).emulated)


def has_target(name: str) -> bool:
    """Whether this machine runs code for the target, its own or emulated instructions."""
    try:
        return resolve(name).is_runnable
    except ToolchainError:
        return False


def build(source: Path, target: str) -> ctypes.CDLL:
    """The library of one C++ source, which may include headers of its folder; compiled once for all
    tests, as the product compiles for this machine's own processor and for one that is emulated:
    the emulation of tile registers takes ten times as long otherwise.
    """
    texts = {path.name: path.read_text("utf-8") for path in source.parent.glob("*.hpp")}
    sources = {SOURCE: source.read_text("utf-8"), **texts}
    is_optimized = target == "native" or is_emulated(target)
    with product_compilers() if is_optimized else nullcontext():
        folder = build_model(
            sources, (), 0, {"name": source.stem}, key="driver", target=resolve(target)
        )
    return ctypes.CDLL(str(folder / LIBRARY))


def fenced(values: NDArray[Any]) -> NDArray[Any]:
    """A copy whose last element ends where a page begins that cannot be read or written."""
    page = mmap.PAGESIZE
    used = -(-max(values.nbytes, 1) // page) * page
    memory = mmap.mmap(-1, used + page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    if protect(ctypes.c_void_p(start + used), ctypes.c_size_t(page), 0) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    copy = np.frombuffer(memory, values.dtype, values.size, used - values.nbytes).reshape(
        values.shape
    )
    copy[...] = values
    return copy


def apart(image: NDArray[Any], gap: int) -> NDArray[Any]:
    """A copy whose pixels lie `gap` elements further apart, with NaN in between; as `fenced`."""
    wide = np.full((*image.shape[:-1], image.shape[-1] + gap), np.nan, image.dtype)
    wide[..., gap:] = image
    return fenced(wide)[..., gap:]


def empty(*shape: int) -> Floats:
    """A fenced result, filled with NaN."""
    result: Floats = fenced(np.full(shape, np.nan, np.float32))
    return result


def pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def ended_by(run: Callable[[], object]) -> int:
    """The signal that ended a child which did this, 0 for none."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGILL, signal.SIG_DFL)
        run()
        os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


def longs(*values: int) -> Any:
    """A C struct of longs, by address."""
    return (ctypes.c_long * len(values))(*values)


def assert_close(
    actual: Floats, expected: NDArray[np.float64], magnitude: NDArray[np.float64], terms: int
) -> None:
    """Sums of `terms` products, each sum within the rounding that its terms allow.

    `magnitude` is the sum of the absolute values of the terms.
    """
    assert not np.isnan(actual).any(), "not every element was stored"
    bound = (terms + 2) * np.finfo(np.float32).eps * magnitude + 1e-30
    excess = np.abs(actual - expected) / bound
    assert excess.max(initial=0.0) <= 1.0, (
        f"{np.unravel_index(excess.argmax(), excess.shape)}: {excess.max():.3g}"
    )


Doubles = NDArray[np.float64]
_MOST_REMEMBERED = 1 << 27
"""Bytes of results at most."""


def remembered(
    compute: Callable[..., tuple[Doubles, ...]],
) -> Callable[..., tuple[Doubles, ...]]:
    """A function of arrays and names that computes once for the same ones: what tests of several
    targets and numbers of threads expect. Nobody writes into the results.
    """
    results: dict[bytes, tuple[Doubles, ...]] = {}
    used = 0

    @wraps(compute)
    def result(*arguments: NDArray[Any] | str) -> tuple[Doubles, ...]:
        nonlocal used
        digest = hashlib.blake2b()
        for each in arguments:
            is_text = isinstance(each, str)
            digest.update(repr(each if is_text else (each.shape, each.dtype.str)).encode())
            digest.update(b"" if is_text else np.ascontiguousarray(each))
        key = digest.digest()
        if key not in results:
            computed = compute(*arguments)
            for array in computed:
                array.flags.writeable = False
            used += sum(array.nbytes for array in computed)
            if used > _MOST_REMEMBERED:
                results.clear()
                used = 0
            results[key] = computed
        return results[key]

    return result


def rounded(x: NDArray[Any]) -> Doubles:
    """The nearest bfloat16 of each element."""
    return x.astype(np.float32).astype(bfloat16).astype(np.float64)
