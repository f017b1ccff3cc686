"""`python sanitized_worker.py REQUEST LOG THREADS`: runs compiled models in a process under a
sanitizer.

Inputs and outputs lie in memory of exactly their size; results go to standard output, one pickle a
run.
"""

from __future__ import annotations

import ctypes
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np

from infuse.errors import InfuseError
from infuse.runtime.folder import LIBRARY
from infuse.runtime.shapes import ShapeBinder, TensorSpec

MOST_BYTES = 1 << 28
"""Outputs that are larger are not asked for."""
MARKS = ("ERROR: AddressSanitizer", "runtime error", "WARNING: ThreadSanitizer")
"""What stands in a report of a fault; the log also tells of memory that was refused."""
_libc = ctypes.CDLL(None)
_libc.malloc.restype, _libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]
_libc.aligned_alloc.restype, _libc.aligned_alloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * 2


class Model:
    """A model of an instrumented library, called through its C interface."""

    def __init__(self, folder: Path, prefix: str, threads: int) -> None:
        self.threads = threads
        library = ctypes.CDLL(str(folder / LIBRARY))
        self.shapes, self.open, self.compute, self.output, self.error, self.close = (
            getattr(library, f"{prefix}_{name}")
            for name in ("shapes", "open", "run", "output", "error", "close")
        )
        self.open.restype = self.output.restype = ctypes.c_void_p
        self.error.restype = ctypes.c_char_p
        describe = getattr(library, f"{prefix}_metadata")
        describe.restype = ctypes.c_char_p
        info = json.loads(describe())
        self.inputs = [TensorSpec.from_metadata(entry) for entry in info["inputs"]]
        self.outputs = [TensorSpec.from_metadata(entry) for entry in info["outputs"]]
        self.binder = ShapeBinder(self.inputs, info["symbols"])
        data = (folder / f"{prefix}.bin").read_bytes()
        self.weights = _libc.aligned_alloc(64, max(64, len(data)))
        ctypes.memmove(self.weights, data, len(data))

    def run(self, feeds: dict[str, Any]) -> tuple[list[Any] | None, str]:
        """The outputs, or None and the reason."""
        arrays = [np.ascontiguousarray(feeds[spec.name]) for spec in self.inputs]
        try:
            values = self.binder.bind([np.shape(feeds[spec.name]) for spec in self.inputs])
        except InfuseError as error:
            return None, error.what
        symbols = (ctypes.c_int64 * (len(values) + 1))(*values)
        total = sum(len(spec.shape) for spec in self.outputs)
        sizes = (ctypes.c_int64 * (total + 1))()
        if self.shapes(symbols, sizes):
            return None, "impossible sizes"
        shapes, at = [], 0
        for spec in self.outputs:
            shapes.append(tuple(sizes[at : at + len(spec.shape)]))
            at += len(spec.shape)
        lengths = [
            0 if spec.late else int(np.prod(shape, dtype=object)) * spec.dtype.itemsize
            for spec, shape in zip(self.outputs, shapes)
        ]
        if sum(lengths) > MOST_BYTES:
            return None, "large outputs"
        memory = [_libc.malloc(array.nbytes) for array in arrays]
        results = [_libc.malloc(length) for length in lengths]
        context = self.open(ctypes.c_void_p(self.weights), self.threads)
        try:
            for address, array in zip(memory, arrays):
                ctypes.memmove(address, array.ctypes.data, array.nbytes)
            pointers = (ctypes.c_void_p * (len(memory) + 1))(*memory)
            targets = (ctypes.c_void_p * (len(results) + 1))(*results)
            if self.compute(ctypes.c_void_p(context), symbols, pointers, targets):
                return None, self.error(ctypes.c_void_p(context)).decode()
            outputs = []
            for number, spec in enumerate(self.outputs):
                shape, address = shapes[number], results[number]
                if spec.late:
                    extents = (ctypes.c_int64 * (len(spec.shape) + 1))()
                    address = self.output(ctypes.c_void_p(context), number, extents)
                    shape = tuple(extents[: len(spec.shape)])
                outputs.append(_copy(address, shape, spec.dtype))
            return outputs, ""
        finally:
            self.close(ctypes.c_void_p(context))
            for address in (*memory, *results):
                _libc.free(address)


def _copy(address: int | None, shape: tuple[int, ...], dtype: Any) -> Any:
    length = int(np.prod(shape, dtype=object)) * dtype.itemsize
    data = ctypes.string_at(address, length) if address and length else b""
    return np.frombuffer(bytearray(data), dtype).reshape(shape)


def main(request: Path, log: Path, threads: int) -> None:
    """Run what the request lists, in its order."""
    work = pickle.loads(request.read_bytes())
    folder, stem = log.parent, log.name
    models: dict[tuple[str, str], Model] = {}
    seen = 0
    for path, prefix, feeds in work:
        key = path, prefix
        if key not in models:
            models[key] = Model(Path(path), prefix, threads)
        outputs, error = models[key].run(feeds)
        said = b"".join(file.read_bytes() for file in sorted(folder.glob(f"{stem}.*")))
        report, seen = said[seen:].decode("utf-8", "replace"), len(said)
        if not any(mark in report for mark in MARKS):
            report = ""
        sys.stdout.buffer.write(pickle.dumps((outputs, error, report[:8000])))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
