"""Models compiled for 64-bit ARM, run by an emulator."""

import shutil
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.runtime.cpus import architecture
from infuse.runtime.foreign import ForeignModel

EMULATOR, COMPILER = "qemu-aarch64", "aarch64-linux-gnu-gcc"
needs_emulator = pytest.mark.skipif(
    architecture() == "aarch64" or not shutil.which(EMULATOR) or not shutil.which(COMPILER),
    reason=(
        f"{EMULATOR} and {COMPILER} run models for another machine (apt install qemu-user "
        "g++-aarch64-linux-gnu)"
    ),
)


class ForeignFailure(RuntimeError):
    """The model said that it failed."""


@lru_cache(maxsize=1)
def _driver(folder: Path) -> Path:
    made = folder / "driver"
    source = Path(__file__).with_name("foreign_driver.c")
    subprocess.run(
        [COMPILER, "-O1", "-Wall", "-Werror", str(source), "-o", str(made), "-ldl"], check=True
    )
    return made


@lru_cache(maxsize=1)
def _system() -> str:
    """The folder in which the emulator finds the C library."""
    found = subprocess.run(
        [COMPILER, "-print-file-name=libc.so.6"], capture_output=True, text=True, check=True
    )
    return str(Path(found.stdout.strip()).resolve().parents[1])


def run_foreign(
    model: ForeignModel, feeds: Mapping[str, Any], folder: Path, threads: int = 2
) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs of a model for these inputs; ForeignFailure with its words where it fails."""
    sizes: dict[str, int] = {}
    words: list[bytes] = []
    for spec in model.inputs:
        array = np.ascontiguousarray(feeds[spec.name])
        sizes |= {
            str(name): size for name, size in zip(spec.shape, array.shape) if isinstance(name, str)
        }
        words += [_numbers(array.nbytes), array.tobytes()]
    symbols = [sizes[name] for name in model.metadata["symbols"]]
    outputs = [
        number for spec in model.outputs for number in (len(spec.shape), spec.dtype.itemsize)
    ]
    request, answer = folder / "request", folder / "answer"
    head = _numbers(threads, len(symbols), *symbols, len(model.inputs))
    request.write_bytes(b"".join([head, *words, _numbers(len(model.outputs), *outputs)]))
    files = [model.folder / "model.so", model.folder / "weights.bin", request, answer]
    command = [EMULATOR, "-L", _system(), str(_driver(folder)), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, f"the emulator ended with {done.returncode}: {done.stderr[-2000:]}"
    return _parse(model, answer.read_bytes())


def _numbers(*values: int) -> bytes:
    return np.array(values, np.int64).tobytes()


def _parse(model: ForeignModel, data: bytes) -> dict[str, np.ndarray[Any, Any]]:
    if status := int(np.frombuffer(data, np.int64, 1)[0]):
        raise ForeignFailure(f"{status}: {data[8:].decode()}")
    position, results = 8, {}
    for spec in model.outputs:
        shape = np.frombuffer(data, np.int64, len(spec.shape), position)
        position += 8 * len(shape)
        count = int(np.prod(shape, dtype=np.int64))
        results[spec.name] = np.frombuffer(data, spec.dtype, count, position).reshape(shape)
        position += count * spec.dtype.itemsize
    assert position == len(data), "the answer is longer than its outputs"
    return results
