"""The inputs on which precisions are compared, and the clock."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from infuse.errors import InfuseError, OptionError
from infuse.ir.graph import Graph
from infuse.ir.types import TensorType
from infuse.ops.core.evaluate import check_feeds
from infuse.ops.core.feeds import drawing_nodes, has_tensor_inputs, random_feeds, trial_sizes
from infuse.options.compiling import Auto, Data, Feeds

SEEDS: Final = 3
"""Random inputs of the usual sizes."""
WARM_UP, ROUNDS = 2, 10
"""Runs before the clock counts, and rounds at least."""
LEAST, MOST = 1.0, 10.0
"""Seconds of measuring for each model."""
SETTLED: Final = 1.02
"""Times of even and of odd rounds that differ by no more than this factor are no accident."""


def least_seconds(
    runs: Mapping[str, Callable[[], object]], least: float = LEAST, most: float = MOST
) -> dict[str, list[float]]:
    """The least seconds of each run in even and in odd rounds. The runs take turns until these say
    the same, for `least` to `most` seconds each.
    """
    for run in runs.values():
        for _ in range(WARM_UP):
            run()
    times = {name: [math.inf, math.inf] for name in runs}
    begin = time.perf_counter()
    for number in itertools.count(1):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            seconds = time.perf_counter() - started
            times[name][number % 2] = min(seconds, times[name][number % 2])
        spent = (time.perf_counter() - begin) / len(runs)
        if spent > most or (number >= ROUNDS and spent > least and are_settled(times)):
            break
    return times


def are_settled(times: Mapping[str, Sequence[float]]) -> bool:
    """Whether the times of each run agree."""
    return all(max(each) <= SETTLED * min(each) for each in times.values())


@dataclass(frozen=True)
class Sample:
    """Inputs to measure on, and what they are."""

    feeds: Feeds
    description: str


def samples_of(auto: Auto, graph: Graph) -> list[Sample]:
    """The inputs to measure on. InputError where those that are given do not fit, OptionError where
    there are none.
    """
    return _random(graph) if auto.data is None else _checked(graph, auto.data)


def _checked(graph: Graph, data: Data) -> list[Sample]:
    several = [data] if isinstance(data, Mapping) else list(data)
    if not several:
        raise OptionError(
            "there are no inputs in data", hint="give at least one set, or leave it out"
        )
    samples = []
    for number, feeds in enumerate(several, 1):
        try:
            check_feeds(graph, feeds)
        except InfuseError as error:
            error.within(f"inputs {number} of data")
            raise
        samples.append(Sample(feeds, f"inputs {number} of data"))
    return samples


def _random(graph: Graph) -> list[Sample]:
    """Random inputs for usual sizes, and for others where some are open."""
    if not has_tensor_inputs(graph):
        raise OptionError(
            "there are no random inputs for this model: one is a sequence, or of unknown rank",
            hint="give some (data=, --data)",
        )
    usual, *others = trial_sizes(graph, {})
    samples = []
    for seed, sizes in enumerate([*[usual] * SEEDS, *others]):
        told = "".join(f", {name} = {size}" for name, size in sizes.items())
        try:
            feeds = random_feeds(graph, sizes, seed)
        except InfuseError as error:
            raise OptionError(
                f"there are no random inputs for this model: {error.what}",
                hint="give some (data=, --data)",
            ) from error
        samples.append(Sample(feeds, f"random, seed {seed}{told}"))
    return samples


def check_comparable(graph: Graph) -> None:
    """OptionError where nothing can be said of a difference between two runs."""
    drawing = next(drawing_nodes(graph), None)
    if drawing is not None:
        raise OptionError(
            f"{drawing.kind} node {drawing.name!r} draws random numbers, so two runs cannot be "
            "compared",
            hint="choose a precision by name",
        )
    if not any(isinstance(v.type, TensorType) and v.dtype.is_float for v in graph.outputs):
        raise OptionError(
            "no output of the model is a tensor of floats, so there is no difference to measure",
            hint="choose a precision by name",
        )
