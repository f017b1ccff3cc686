"""Models compiled for 64-bit ARM, run by an emulator."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from infuse.build.compile import compile_graph
from infuse.build.prebuilt import stamp
from infuse.ir.graph import Graph
from infuse.options import CompileOptions
from infuse.runtime.cpus import architecture
from infuse.runtime.folder import LIBRARY, PROGRAM, WEIGHTS
from infuse.runtime.foreign import ForeignModel
from infuse.runtime.program import Facts

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
    model: ForeignModel,
    feeds: Mapping[str, Any],
    folder: Path,
    threads: int = 2,
    kernels: Path | None = None,
) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs of a model for these inputs; ForeignFailure with its words where it fails.

    `kernels`: the library that runs it, where it is a program of prebuilt kernels.
    """
    request, answer = folder / "request", folder / "answer"
    request.write_bytes(requested(model, feeds, threads))
    files = [kernels or model.folder / LIBRARY, model.folder / WEIGHTS, request, answer]
    files += [model.folder / PROGRAM] if kernels else []
    command = [EMULATOR, "-L", _system(), str(_driver(folder)), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, f"the emulator ended with {done.returncode}: {done.stderr[-2000:]}"
    return answered(model, answer.read_bytes())


def requested(model: ForeignModel, feeds: Mapping[str, Any], threads: int) -> bytes:
    """What a driver reads: threads, symbols and inputs, and which outputs it writes."""
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
    head = _numbers(threads, len(symbols), *symbols, len(model.inputs))
    return b"".join([head, *words, _numbers(len(model.outputs), *outputs)])


def _numbers(*values: int) -> bytes:
    return np.array(values, np.int64).tobytes()


def answered(model: ForeignModel, data: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs that a driver wrote; ForeignFailure with the model's words where it failed."""
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


def as_program(
    graph: Graph, kernels: Path, target: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> ForeignModel:
    """The model that a library of prebuilt kernels for another machine runs, in a new folder."""
    names = re.findall(rb"(?<!\w)[a-z]\w*_[0-9a-f]{16}(?=\0)", kernels.read_bytes())
    library = SimpleNamespace(
        path=kernels,
        facts=Facts(target, frozenset(), stamp()),
        names=frozenset(name.decode() for name in names),
    )
    with monkeypatch.context() as patch:
        patch.setattr("infuse.build.compile.prebuilt_for", lambda _: library)
        options = CompileOptions(target=target, compile="never", threads=2)
        model = compile_graph(graph, options, output=folder)
    assert isinstance(model, ForeignModel)
    return model
