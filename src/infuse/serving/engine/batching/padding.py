"""Ragged requests in one batch: inputs filled up to the longest, outputs cut back."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence

import numpy as np

from infuse.errors import ConfigurationError
from infuse.runtime.session import Array
from infuse.runtime.shapes import Formula, TensorSpec
from infuse.serving.engine.batching.queue import Entry


class Padding:
    """Which inputs are filled up with what. Only sizes that are plain symbols (beyond the first
    axis) may differ.

    All inputs that have the symbol must be named, since they must stay equally long;
    ConfigurationError otherwise.
    """

    def __init__(
        self,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        values: Mapping[str, float],
    ) -> None:
        self._inputs = tuple(inputs)
        names = {spec.name for spec in inputs}
        if unknown := sorted(set(values) - names):
            raise ConfigurationError(
                f"pad names the input {unknown[0]!r}, which the model does not have"
            )
        self._values = [values.get(spec.name) for spec in inputs]
        self.symbols = {
            size
            for spec in inputs
            if spec.name in values
            for size in spec.shape[1:]
            if isinstance(size, str)
        }
        for spec in inputs:
            shared = self.symbols.intersection(
                size for size in spec.shape[1:] if isinstance(size, str)
            )
            if shared and spec.name not in values:
                raise ConfigurationError(
                    f"pad must name the input {spec.name!r} too: it has the size "
                    f"{sorted(shared)[0]} of those named"
                )
        self._cuts = [_plain(spec, self.symbols) for spec in outputs]

    def key(self, inputs: Sequence[Array]) -> tuple[Hashable, dict[str, int]]:
        """What must be equal for two requests to run together, and the sizes of this one that are
        filled up.
        """
        if not self.symbols:
            return tuple([array.shape[1:] for array in inputs]), {}
        lengths: dict[str, int] = {}
        key = []
        for spec, array in zip(self._inputs, inputs):
            sizes = []
            for size, symbol in zip(array.shape[1:], spec.shape[1:]):
                if symbol in self.symbols:
                    lengths[str(symbol)] = size
                    sizes.append(-1)
                else:
                    sizes.append(size)
            key.append(tuple(sizes))
        return tuple(key), lengths

    def filled(self, entries: Sequence[Entry]) -> list[list[Array]]:
        """For each input of the model, the arrays of all entries, equally long where they are to
        be.
        """
        count = len(entries[0].inputs)
        if len(entries) == 1 or not self.symbols:
            return [[entry.inputs[number] for entry in entries] for number in range(count)]
        longest = {
            symbol: max(entry.lengths[symbol] for entry in entries) for symbol in entries[0].lengths
        }
        parts = []
        for number, (spec, value) in enumerate(zip(self._inputs, self._values)):
            arrays = []
            for entry in entries:
                array = entry.inputs[number]
                target = [longest.get(str(s), n) for s, n in zip(spec.shape[1:], array.shape[1:])]
                if value is not None and list(array.shape[1:]) != target:
                    grown = [
                        (0, 0),
                        *((0, want - have) for want, have in zip(target, array.shape[1:])),
                    ]
                    array = np.pad(array, grown, constant_values=array.dtype.type(value))
                arrays.append(array)
            parts.append(arrays)
        return parts

    def cut(self, number: int, output: Array, entry: Entry) -> Array:
        """An output of an entry without what belongs to the filling."""
        for axis, symbol in self._cuts[number]:
            length = entry.lengths.get(str(symbol))
            if length is not None and output.shape[axis] > length:
                output = output[(slice(None),) * axis + (slice(length),)]
        return output


def _plain(spec: TensorSpec, symbols: Collection[str]) -> list[tuple[int, str]]:
    """The axes of an output that are as long as a padded size; ConfigurationError where one only
    depends on it.
    """
    axes = []
    for axis, size in enumerate(spec.shape):
        if size in symbols:
            axes.append((axis, str(size)))
        elif isinstance(size, str) and Formula(size).symbols.intersection(symbols):
            raise ConfigurationError(
                f"pad cannot be used: the output {spec.name} has the size {size}"
            )
    return axes
