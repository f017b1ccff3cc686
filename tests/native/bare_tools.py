"""Models as one file of C, compiled by the system's compiler and called as libraries."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from infuse.build.compile import compile_graph
from infuse.ir.graph import Graph
from infuse.options import CompileOptions
from infuse.runtime.foreign import ForeignModel

SHARED: Final = ("-O1", "-shared", "-fPIC")
_numbers = itertools.count()


class Failure(RuntimeError):
    """The model said that it failed."""


def compiler() -> str:
    """The system's compiler of C; without one the test is skipped."""
    return shutil.which("cc") or pytest.skip("there is no compiler called cc")


def sources(graph: Graph, folder: Path, **options: Any) -> ForeignModel:
    """The model as one file of C, in a new folder below `folder`."""
    output = folder / f"model{next(_numbers)}"
    model = compile_graph(graph, CompileOptions(**{"single": True, **options}), output=output)
    assert isinstance(model, ForeignModel)
    return model


def run_source(
    model: ForeignModel, feeds: Mapping[str, Any], *flags: str, threads: int = 1
) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs of a model for these inputs, computed by a library of its source; Failure with
    its words where it fails. All sizes are those of the model.
    """
    library = model.folder / "here.so"
    command = [compiler(), *SHARED, *flags, "model.c", "-o", str(library), "-lm"]
    built = subprocess.run(command, cwd=model.folder, capture_output=True, text=True, check=False)
    assert not built.returncode, built.stderr[-3000:]
    return call(ctypes.CDLL(str(library)), model, feeds, threads)


def call(
    library: Any, model: ForeignModel, feeds: Mapping[str, Any], threads: int = 1
) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs of an open library for these inputs."""
    library.infuse_open.restype = library.infuse_output.restype = ctypes.c_void_p
    library.infuse_error.restype = ctypes.c_char_p
    context = ctypes.c_void_p(library.infuse_open(None, threads))
    assert context, "no context"
    arrays = [np.ascontiguousarray(feeds[s.name], s.dtype) for s in model.inputs]
    sizes = {
        str(name): size
        for spec, array in zip(model.inputs, arrays)
        for name, size in zip(spec.shape, array.shape)
    }
    symbols = (ctypes.c_int64 * 64)(*(sizes[name] for name in model.metadata["symbols"]))
    room = sum(len(spec.shape) for spec in model.outputs)
    dims = (ctypes.c_int64 * (room + 1))()
    try:
        assert library.infuse_shapes(symbols, dims) == 0
        ends = np.cumsum([0, *(len(spec.shape) for spec in model.outputs)]).tolist()
        shapes = [tuple(dims[i:j]) for i, j in itertools.pairwise(ends)]
        results = [np.zeros(np.maximum(s, 0), o.dtype) for s, o in zip(shapes, model.outputs)]
        status = library.infuse_run(context, symbols, _pointers(arrays), _pointers(results))
        if status:
            raise Failure(f"{status}: {library.infuse_error(context).decode()}")
        for number, shape in enumerate(shapes):
            if -1 in shape:
                results[number] = _output(library, context, number, model.outputs[number])
    finally:
        library.infuse_close(context)
    return {spec.name: result for spec, result in zip(model.outputs, results)}


def _output(library: Any, context: Any, number: int, spec: Any) -> np.ndarray[Any, Any]:
    """A copy of an output whose sizes the run found."""
    dims = (ctypes.c_int64 * (len(spec.shape) + 1))()
    place = library.infuse_output(context, number, dims)
    shape = tuple(dims[: len(spec.shape)])
    bytes_ = int(np.prod(shape)) * spec.dtype.itemsize
    return np.frombuffer(ctypes.string_at(place, bytes_), spec.dtype).reshape(shape)


def _pointers(arrays: list[np.ndarray[Any, Any]]) -> Any:
    return (ctypes.c_void_p * (len(arrays) + 1))(*(a.ctypes.data for a in arrays))


def undefined(folder: Path, *flags: str) -> set[str]:
    """What the source of a model calls and does not have."""
    made = folder / "alone.o"
    command = [compiler(), "-std=c99", *flags, "-c", "model.c", "-o", str(made)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    told = subprocess.run(["nm", "-u", str(made)], capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in told.stdout.splitlines() if line.strip()}
