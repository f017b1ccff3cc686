"""Builds drivers of hand-written kernels, and arrays that end at a page that nobody may touch."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import infuse
from infuse.codegen.toolchain import Target, Toolchain
from infuse.runtime.cpus import cpu_features

KERNELS = Path(infuse.__file__).parent / "kernels"
Floats = NDArray[np.float32]


def targets() -> list[str]:
    """The targets that this machine can run: LANES 16 or less, 8 and 4 on x86-64."""
    names = ["native", "x86-64-v3", "x86-64"] if "sse2" in cpu_features() else ["native"]
    return [name for name in names if Target.resolve(name).features <= cpu_features()]


def build(source: Path, target: str, folder: Path) -> ctypes.CDLL:
    """The library of one C++ source."""
    output = folder / f"{source.stem}-{target}.so"
    Toolchain.find().compile([source], output, target=Target.resolve(target), include=[KERNELS])
    return ctypes.CDLL(str(output))


def fenced(values: NDArray[Any]) -> NDArray[Any]:
    """A copy whose last element ends where a page begins that cannot be read or written."""
    page = mmap.PAGESIZE
    used = -(-max(values.nbytes, 1) // page) * page
    memory = mmap.mmap(-1, used + page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    if protect(ctypes.c_void_p(start + used), ctypes.c_size_t(page), 0) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    copy = np.frombuffer(memory, values.dtype, values.size, used - values.nbytes).reshape(values.shape)
    copy[...] = values
    return copy


def empty(*shape: int) -> Floats:
    """A fenced result, filled with NaN."""
    result: Floats = fenced(np.full(shape, np.nan, np.float32))
    return result


def pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def longs(*values: int) -> Any:
    """A C struct of longs, by address."""
    return (ctypes.c_long * len(values))(*values)


def assert_close(actual: Floats, expected: NDArray[np.float64], magnitude: NDArray[np.float64], terms: int) -> None:
    """Sums of `terms` products, each sum within the rounding that its terms allow.

    `magnitude` is the sum of the absolute values of the terms.
    """
    assert not np.isnan(actual).any(), "not every element was stored"
    bound = (terms + 2) * np.finfo(np.float32).eps * magnitude + 1e-30
    excess = np.abs(actual - expected) / bound
    assert excess.max(initial=0.0) <= 1.0, f"{np.unravel_index(excess.argmax(), excess.shape)}: {excess.max():.3g}"
