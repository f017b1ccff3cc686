"""Rows of layers that were sampled, in a file until they are read."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from infuse.compression.layers import Floats, Layer
from infuse.errors import RuntimeFailure


class RowStore(Mapping[Layer, Floats]):
    """Rows [rows, groups, depth] by layer, in a temporary file without a name: those of all layers
    of a large network together would take more memory than its weights. They are read anew at
    each look-up.
    """

    def __init__(self, layers: Iterable[Layer]) -> None:
        # closed with the store
        self._file = tempfile.TemporaryFile(prefix="infuse-rows-")  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._parts: dict[Layer, list[tuple[int, int]]] = {layer: [] for layer in layers}

    def add(self, layer: Layer, rows: Floats) -> None:
        """Append rows [rows, groups, depth]; RuntimeFailure where there is no room for them."""
        try:
            place = self._file.seek(0, 2)
            self._file.write(rows.astype(np.float32).tobytes())
            self._file.flush()
        except OSError as error:
            raise RuntimeFailure(
                f"sampled activations cannot be stored: {error.strerror or error}",
                where=tempfile.gettempdir(),
                hint="free some room there, or name another folder in $TMPDIR",
            ) from error
        self._parts[layer].append((place, len(rows)))

    def __getitem__(self, layer: Layer) -> Floats:
        groups, depth, _ = layer.sizes
        parts = self._parts[layer]
        rows = np.empty((sum(count for _, count in parts), groups, depth), np.float32)
        begin = 0
        for place, count in parts:
            self._file.seek(place)
            read = self._file.read(count * groups * depth * rows.itemsize)
            rows[begin : begin + count] = np.frombuffer(read, np.float32).reshape(-1, groups, depth)
            begin += count
        return rows

    def __iter__(self) -> Iterator[Layer]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)
