"""What layers see on data: the compiled model runs with their operands as further outputs, and
statistics and samples of these are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from infuse.build.compile import compile_graph
from infuse.compression.freed import give_back_after_compiling, give_back_freed_memory
from infuse.compression.layers import Floats, Layer
from infuse.compression.row_store import RowStore
from infuse.data.dataset import Feeds, in_turn
from infuse.ir.clone import clone_exposing
from infuse.ir.graph import Array, Graph, Value
from infuse.options import CompileOptions
from infuse.profiling.progress import Progress

ELEMENTS = 1 << 16
"""Elements of an activation that are sampled in all."""
ROW_ELEMENTS = 1 << 19
"""Elements of the rows of a layer that are sampled in all."""
SAMPLED_RUNS = 64
"""Runs at most whose rows are sampled: cutting windows out of images takes longer than a run."""
LEAST_ROWS, ROWS = 256, 2048
"""Rows of a layer at least and at most."""


@dataclass
class Range:
    """The least and the largest element of an activation, and a sample of its elements."""

    low: float = np.inf
    high: float = -np.inf
    parts: list[Floats] = field(default_factory=list)
    is_finite: bool = True

    @property
    def sample(self) -> Floats:
        return np.concatenate(self.parts) if self.parts else np.zeros(0, np.float32)

    def add(self, array: Array, count: int, rng: np.random.Generator) -> None:
        """Take an activation of one run into account."""
        if not array.size:
            return
        low, high = float(array.min()), float(array.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            self.is_finite = False
            return
        self.low, self.high = min(self.low, low), max(self.high, high)
        flat = array.reshape(-1)
        picked = flat if flat.size <= count else flat[rng.integers(0, flat.size, count)]
        self.parts.append(np.array(picked, np.float32))


@dataclass
class Observations:
    """Ranges of values, rows [rows, groups, depth] of layers, and, where these were asked for, of
    products: how many rows there were, and the sums of the products of their elements
    [depth, depth] and of the elements [depth].
    """

    ranges: dict[Value, Range]
    rows: Mapping[Layer, Floats]
    moments: dict[Layer, Floats] = field(default_factory=dict)
    sums: dict[Layer, Array] = field(default_factory=dict)
    counts: dict[Layer, int] = field(default_factory=dict)

    def second_moments(self, layer: Layer) -> Array | None:
        """The mean products of the elements of a row [depth, depth] in float64; None where no
        rows were summed up.
        """
        count = self.counts.get(layer)
        return self.moments[layer].astype(np.float64) / count if count else None


def observe(
    graph: Graph,
    layers: Sequence[Layer],
    others: Iterable[Value],
    runs: Sequence[Feeds],
    *,
    takes_moments: bool = False,
    threads: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Observations:
    """What the activations of `layers`, and `others`, are in these runs of an optimized graph; with
    `takes_moments`, second moments of the activations of products, too.
    """
    rng = np.random.default_rng(seed)
    values = list(dict.fromkeys([*(layer.activation for layer in layers), *others]))
    ranges = {value: Range() for value in values}
    rows = RowStore(layers)
    products = [layer for layer in layers if not layer.is_convolution] if takes_moments else []
    moments = {layer: np.zeros((layer.depth, layer.depth), np.float32) for layer in products}
    sums = {layer: np.zeros(layer.depth) for layer in products}
    counts = dict.fromkeys(products, 0)
    exposing, names = clone_exposing(graph, values)
    each, stride = -(-ELEMENTS // len(runs)), -(-len(runs) // SAMPLED_RUNS)
    with compile_graph(exposing, CompileOptions(threads=threads, weights="small")) as model:
        give_back_after_compiling(exposing)
        for number, feeds in enumerate(in_turn(runs)):
            outputs = model.run(feeds)
            arrays = {value: outputs.pop(name) for value, name in zip(values, names)}
            for value, array in arrays.items():
                ranges[value].add(array, each, rng)
            for layer in layers if number % stride == 0 else ():
                taken = _rows(layer, arrays[layer.activation], -(-len(runs) // stride), rng)
                rows.add(layer, taken)
            for layer, total in moments.items():
                flat = arrays[layer.activation].reshape(-1, layer.depth)
                if np.isfinite(flat).all():
                    total += flat.T @ flat
                    sums[layer] += flat.sum(0, dtype=np.float64)
                    counts[layer] += len(flat)
            del outputs, arrays  # before the next run makes as many
            if progress is not None:
                progress("calibrate", number + 1, len(runs))
    give_back_freed_memory()
    return Observations(ranges, rows, moments, sums, counts)


def _rows(layer: Layer, activation: Array, runs: int, rng: np.random.Generator) -> Floats:
    groups, depth, _ = layer.sizes
    total = min(ROWS, max(LEAST_ROWS, ROW_ELEMENTS // (groups * depth)))
    count = total // runs + (rng.random() < total % runs / runs)
    return layer.rows(activation, int(count), rng)
