"""How much channels matter: by their weights, by what reads them on data, or by slopes of a loss.

Each measure gives a number for every channel of a group: the part of what its readers compute that
is lost without it. All numbers of a group have the sum one, so that groups compare.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from infuse.build.compile import compile_graph
from infuse.compression.pruning.groups import Dependencies, Group, Member
from infuse.compression.pruning.links import Contraction, Place
from infuse.data.dataset import Feeds
from infuse.ir.clone import clone_exposing
from infuse.ir.graph import Array, Value
from infuse.ops.core.building import GraphBuilder
from infuse.options import CompileOptions
from infuse.passes.run import optimize_in_place
from infuse.training.losses import Loss
from infuse.training.optimizers import Optimizer
from infuse.training.step import build_step

Doubles = NDArray[np.float64]
Importance = dict[Group, Doubles]


def by_magnitude(dependencies: Dependencies) -> Importance:
    """The squares of all weights of a channel."""
    return {
        group: _shares(
            group,
            [
                _per_channel(group, member, _squares(member.value.const, member.axis))
                for member in group.constants
            ],
        )
        for group in dependencies.groups
    }


@dataclass(frozen=True)
class Activity:
    """Means and variances on data of activations that weights multiply, by the index of the axis
    along which they do.
    """

    means: Mapping[Place, Doubles]
    variances: Mapping[Place, Doubles]


def by_activation(dependencies: Dependencies, activity: Activity) -> Importance:
    """The variance of what a channel is on data, times the squares of the weights that multiply it
    (its mean goes into biases); the squares of its weights where none do.
    """
    readers: dict[Place, list[Contraction]] = defaultdict(list)
    for contraction in dependencies.contractions:
        readers[contraction.activation].append(contraction)
    fallback = by_magnitude(dependencies)
    result: Importance = {}
    for group in dependencies.groups:
        parts = []
        for member in group.members:
            for contraction in readers[member.value, member.axis]:
                value, axis = contraction.weights
                power = _squares(value.const, axis) * activity.variances[contraction.activation]
                parts.append(_per_channel(group, member, power))
        result[group] = _shares(group, parts) if parts else fallback[group]
    return result


def by_slope(
    dependencies: Dependencies,
    losses: Sequence[tuple[float, Loss]],
    batches: Sequence[Mapping[str, Array]],
    sizes: Mapping[str, int],
    threads: int | None = None,
) -> Importance:
    """The square of what a loss changes by when all weights of a channel become zero, to first
    order: of the sum of gradient · weight (Molchanov et al., Importance Estimation for Neural
    Network Pruning).
    """
    graph = dependencies.graph
    values = list(
        dict.fromkeys(
            member.value
            for group in dependencies.groups
            for member in group.constants
            if member.value.dtype.is_float
        )
    )
    step = build_step(graph, losses, _Gradients(rate=1.0), values, sizes=sizes)
    step.graph.report = optimize_in_place(step.graph)
    totals = {group: np.zeros(group.size) for group in dependencies.groups}
    with compile_graph(step.graph, CompileOptions(threads=threads)) as model:
        runner = model.session()
        state = step.initial()
        for number, batch in enumerate(batches):
            inputs = [np.ascontiguousarray(batch[name]) for name in step.data]
            _, *gradients = runner.execute([*inputs, np.float32(1), np.int64(number), *state])
            products = {
                value: np.multiply(gradient, np.asarray(value.const), dtype=np.float64)
                for value, gradient in zip(values, gradients)
            }
            for group in dependencies.groups:
                slopes = np.zeros(group.size)
                for member in group.constants:
                    if member.value in products:
                        product = products[member.value]
                        slopes += _per_channel(group, member, _sums(product, member.axis))
                totals[group] += slopes**2
        runner.close()
    return {group: _shares(group, [total]) for group, total in totals.items()}


class _Gradients(Optimizer):
    """A step that gives the gradients themselves in place of new parameters."""

    @property
    def slots(self) -> tuple[str, ...]:
        return ()

    def update(
        self,
        make: GraphBuilder,
        rate: Value,
        steps: Value,
        parameters: Sequence[Value],
        gradients: Sequence[Value],
        state: Sequence[Sequence[Value]],
    ) -> tuple[list[Value], list[list[Value]]]:
        return list(gradients), []


def activity_of(
    dependencies: Dependencies, runs: Sequence[Feeds], threads: int | None = None
) -> Activity:
    """What the activations are in these runs."""
    places = list(dict.fromkeys(each.activation for each in dependencies.contractions))
    values = list(dict.fromkeys(value for value, _ in places))
    exposing, names = clone_exposing(dependencies.graph, values)
    exposing.report = optimize_in_place(exposing)
    counts = dict.fromkeys(places, 0)
    sums, squares = ({place: np.zeros(_size(place)) for place in places} for _ in range(2))
    with compile_graph(exposing, CompileOptions(threads=threads)) as model:
        for feeds in runs:
            outputs = model.run(feeds)
            arrays = dict(zip(values, (outputs[name] for name in names)))
            for place in places:
                array, axis = arrays[place[0]], place[1]
                counts[place] += array.size // array.shape[axis]
                sums[place] += _sums(array, axis)
                squares[place] += _squares(array, axis)
    means = {place: sums[place] / max(counts[place], 1) for place in places}
    variances = {
        place: np.maximum(squares[place] / max(counts[place], 1) - means[place] ** 2, 0)
        for place in places
    }
    return Activity(means, variances)


def _size(place: Place) -> int:
    value, axis = place
    return int(str(value.shape[axis]))


def _sums(array: Array, axis: int) -> Doubles:
    """The sums over all other axes."""
    others = tuple(other for other in range(array.ndim) if other != axis)
    result: Doubles = np.sum(array, axis=others, dtype=np.float64)
    return result


def _squares(array: Array | None, axis: int) -> Doubles:
    """The sums of squares over all other axes."""
    assert array is not None
    return _sums(np.square(array, dtype=np.float64), axis)


def _per_channel(group: Group, member: Member, numbers: Doubles) -> Doubles:
    """The sums of the numbers of the indices of each channel."""
    own = member.channels >= 0
    sums = np.zeros(group.size)
    np.add.at(sums, member.channels[own], numbers[own])
    return sums


def _shares(group: Group, parts: Sequence[Doubles]) -> Doubles:
    """The mean of numbers of channels, those of each part with the sum one."""
    shares = [part / part.sum() for part in parts if part.sum() > 0]
    result: Doubles = np.mean(shares or [np.zeros(group.size)], axis=0)
    return result
