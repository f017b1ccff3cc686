"""Tuning: what a compression lost is learned back from the original, from labels, or from both."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from infuse.analysis.cost import node_cost
from infuse.compression.contract import Deadline
from infuse.compression.features import feature_losses
from infuse.compression.lessons import Lessons, with_free_batch
from infuse.errors import InputError
from infuse.ir.clone import clone
from infuse.ir.graph import Array, Graph, Value
from infuse.options import Tune
from infuse.profiling.progress import Progress
from infuse.training import schedules
from infuse.training.loop import train
from infuse.training.losses import CrossEntropy, Distillation, Loss, MeanSquaredError
from infuse.training.optimizers import AdamW
from infuse.training.options import TrainOptions, Watch

LEAST_PROBABILITY = 1e-7
"""What probabilities are raised to before their logarithm stands for scores."""
LEAST_ZEROS = 0.1
"""The part of a constant that is zero where it counts as sparse."""
MANY_EPOCHS = 1000
"""Epochs of a tuning that ends when its time does."""
WARM_UP = 20
"""Steps over which the rate rises."""


@dataclass(frozen=True)
class TuneOptions(Tune):
    """How a graph is tuned, with what no user is asked."""

    rate: float = 1e-3
    batch_size: int = 32
    temperature: float = 2.0
    labels_weight: float = 0.5
    """The part of labels in the loss, where there are some; the original has the rest."""

    def part(self, share: float) -> TuneOptions:
        """Those of a tuning that takes so large a part of the time, at least an epoch."""
        epochs = None if self.epochs is None else max(1, round(self.epochs * share))
        minutes = None if self.minutes is None else self.minutes * share
        return replace(self, epochs=epochs, minutes=minutes)


@dataclass
class TuningReport:
    """What a tuning did: the score before it and that of the epoch that was taken."""

    before: float
    after: float
    best_epoch: int = 0
    """The epoch whose parameters were taken; 0 where none was better than what there was."""
    epochs: int = 0
    steps: int = 0
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    features: list[str] = field(default_factory=list)
    """The nodes whose values were drawn to the original's."""


def _training(student: Graph, options: TuneOptions, begun: float) -> TrainOptions:
    """How a graph learns that began to at this time."""
    batch = student.inputs[0].shape[0]
    return TrainOptions(
        optimizer=AdamW(rate=options.rate, weight_decay=0.0),
        epochs=options.epochs or MANY_EPOCHS,
        batch_size=batch if isinstance(batch, int) else options.batch_size,
        schedule=_schedule(options, begun),
        clip_norm=1.0,
    )


def tune(
    graph: Graph,
    lessons: Lessons,
    options: TuneOptions,
    score: Callable[[Graph], float],
    *,
    higher_is_better: bool = True,
    parameters: Sequence[Value] | None = None,
    masks: Mapping[Value, Array] | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> tuple[Graph, TuningReport]:
    """A copy of a graph whose weights were tuned, with the best score of all epochs, and what the
    tuning did; its weights are as before where no epoch was better.

    `score` measures a graph, after every epoch. `masks` tells of elements of weights whether they
    may differ from zero; without it, zeros of weights that have many stay zeros. The loss is the
    divergence from the original's scores of classes, or the squared error beside its outputs, each
    over the variance of that output, and beside classes the cross entropy; with a weight of
    `options.features`, that of values inside, whose computation is part of the time. `parameters`
    are the constants that move, default: `tuned_parameters`. InputError where there are no such
    values.
    """
    student = with_free_batch(graph) or clone(graph)
    pairs = dict(zip(graph.constants(), student.constants()))
    losses, targets = losses_of(student, lessons, options)
    moved = tuned_parameters(graph) if parameters is None else parameters
    masks = masks_of(moved) if masks is None else masks
    begun, deadline = time.monotonic(), Deadline(options.minutes)
    before = score(graph)
    report = TuningReport(before, before)
    if options.features:
        inner = feature_losses(student, lessons, options.features, threads)
        losses, targets = [*losses, *inner.losses], {**targets, **inner.targets}
        report.features = inner.nodes
    best = graph

    def after_epoch(epoch: int, trained: Callable[[], Graph]) -> bool:
        nonlocal best
        candidate = _with_constants_of(graph, trained())
        value = score(candidate)
        report.epochs = epoch
        better = value >= report.after if higher_is_better else value <= report.after
        if better:
            best, report.after, report.best_epoch = candidate, value, epoch
        return deadline.is_over

    def watch(step: int, steps: int, loss: float) -> None:
        if progress is not None:
            progress("tune", step, steps)

    _, trained = train(
        student,
        lessons.examples,
        targets,
        replace(_training(student, options, begun), loss=losses, seed=seed, threads=threads),
        parameters=[pairs[value] for value in moved],
        masks={pairs[value]: mask for value, mask in masks.items()},
        watch=Watch(progress=watch, after_epoch=after_epoch, until=lambda: deadline.is_over),
    )
    report.steps, report.losses = trained.steps, trained.losses
    report.seconds = time.monotonic() - begun
    return best, report


def tuned_parameters(graph: Graph) -> list[Value]:
    """The constants of floats that a tuning moves: weights that are multiplied, and numbers of
    channels. Tables, masks and limits stay as they are.
    """
    parameters: dict[Value, None] = {}
    for node in graph.nodes:
        if node.subgraphs:
            continue
        multiplies = node_cost(node).macs != 0
        for value in node.operands():
            if value.const is None or not value.dtype.is_float or value.const.ndim == 0:
                continue
            is_vector = max(value.const.shape) == value.const.size > 1
            if multiplies or is_vector:
                parameters[value] = None
    return [value for value in parameters if np.isfinite(np.asarray(value.const)).all()]


def masks_of(parameters: Sequence[Value]) -> dict[Value, Array]:
    """Which elements of weights are not zero, for matrices and filters that are sparse."""
    masks = {}
    for value in parameters:
        array = np.asarray(value.const)
        if array.ndim > 1 and np.count_nonzero(array) <= (1 - LEAST_ZEROS) * array.size:
            masks[value] = array != 0
    return masks


def _with_constants_of(graph: Graph, trained: Graph) -> Graph:
    """A copy of a graph with the constants of another copy."""
    result = clone(graph)
    for own, new in zip(result.constants(), trained.constants()):
        own.const = new.const
    return result


def _schedule(options: TuneOptions, begun: float) -> schedules.Schedule:
    """Half a wave of the cosine over the steps, or over the time where that ends earlier."""
    limit = math.inf if options.minutes is None else 60 * options.minutes

    def factor(step: int, steps: int) -> float:
        spent = min(1.0, max(step / steps, (time.monotonic() - begun) / limit))
        return min(1.0, (step + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * spent))

    return factor


# -- losses ----------------------------------------------------------------------------------------


def losses_of(
    graph: Graph, lessons: Lessons, options: TuneOptions
) -> tuple[Sequence[tuple[float, Loss]], dict[str, Array]]:
    """The losses of a graph, which gets names for what they are taken of, and their targets."""
    losses: list[tuple[float, Loss]] = []
    targets: dict[str, Array] = {}
    classes = lessons.classes
    for number, (name, value) in enumerate(zip(graph.output_names, graph.outputs)):
        if not value.dtype.is_float or not value.rank:
            continue
        answers, target = lessons.answers[name], f"original.{number}"
        if lessons.tells_classes and value.rank == 2:
            result, answers = _scores(graph, value, name, answers)
            weight = 1.0 if classes is None else 1 - options.labels_weight
            losses.append((weight, Distillation(result, target, options.temperature)))
            if classes is not None:
                losses.append((options.labels_weight, CrossEntropy(result, "classes")))
                targets["classes"], classes = np.asarray(classes, np.int64), None
        else:
            spread = max(float(np.var(answers, dtype=np.float64)), 1e-12)
            losses.append((1 / spread, MeanSquaredError(name, target)))
        targets[target] = np.ascontiguousarray(answers)
    if not losses:
        raise InputError("the model has no output of floats that could be tuned", where="tuning")
    return losses, targets


def _scores(graph: Graph, value: Value, name: str, answers: Array) -> tuple[str, Array]:
    """The name of scores of classes, and those of the original: of probabilities their logarithms,
    beside what the Softmax reads.
    """
    node = value.producer
    if node is None or node.kind != "Softmax" or node.inputs[0] is None:
        return name, answers
    scores = node.inputs[0]
    scores.name = f"scores of {name}"
    return scores.name, np.log(np.maximum(answers, LEAST_PROBABILITY))
