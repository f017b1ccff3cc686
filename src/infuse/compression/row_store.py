"""Rows of layers that were sampled, in a file until they are read."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from infuse.compression.layers import Floats, Layer
from infuse.compression.scratch import scratch_file, write_at


class RowStore(Mapping[Layer, Floats]):
    """Rows [rows, groups, depth] by layer, in a temporary file without a name: those of all layers
    of a large network together would take more memory than its weights. They are read anew at
    each look-up.
    """

    def __init__(self, layers: Iterable[Layer]) -> None:
        self._file, self._end = scratch_file(), 0
        weakref.finalize(self, self._file.close)
        self._parts: dict[Layer, list[tuple[int, int]]] = {layer: [] for layer in layers}

    def add(self, layer: Layer, rows: Floats) -> None:
        """Append rows [rows, groups, depth]; RuntimeFailure where there is no room for them."""
        place, data = self._end, np.asarray(rows, np.float32)
        write_at(self._file, place, data)
        self._end += data.nbytes
        self._parts[layer].append((place, len(rows)))

    def __getitem__(self, layer: Layer) -> Floats:
        groups, depth, _ = layer.sizes
        parts = self._parts[layer]
        rows = np.empty((sum(count for _, count in parts), groups, depth), np.float32)
        begin = 0
        for place, count in parts:
            self._file.seek(place)
            left = rows[begin : begin + count].reshape(-1).view(np.uint8).data
            while left:
                left = left[self._file.readinto(left) :]
            begin += count
        return rows

    def __iter__(self) -> Iterator[Layer]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)
