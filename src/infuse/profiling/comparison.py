"""Two models side by side: scores, agreement, speed, memory and size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from infuse.analysis.cost import number
from infuse.analysis.sheets import render_sheet
from infuse.data.dataset import Feeds
from infuse.data.metrics import Metric, metric as metric_of
from infuse.data.sequences import sequence_notes
from infuse.errors import InputError, OptionError
from infuse.ir.html import frame
from infuse.options import Examples, Turns
from infuse.profiling.agreement import Agreement, finite
from infuse.profiling.inner import (
    Build,
    LayerAgreement,
    inner_pairs,
    layer_agreements,
    rotated_names,
)
from infuse.profiling.inputs import describe
from infuse.profiling.progress import Progress, silent
from infuse.profiling.sides import Side, both_feeds, pair
from infuse.profiling.turns import alternate, summary

LAYER_RUNS = 16
"""Runs on which inner values are compared, of those that there are."""
Outputs = list[dict[str, Any]]


@dataclass
class ModelFigures:
    """What is known of one of the two models.

    Times are milliseconds of a run on the first inputs. `arena_bytes` is the working memory of such
    runs, `weights_bytes` what the weights take there, `loaded_bytes` the native library with its
    weights, `disk_bytes` the model's files. Counts are of the graph, which a compiled folder does
    not have; sizes on disk of files.
    """

    name: str
    min_ms: float
    median_ms: float
    runs: int
    arena_bytes: int
    weights_bytes: int
    loaded_bytes: int
    disk_bytes: int | None
    host_steps: list[str]
    score: float | None = None
    parameters: int | None = None
    stored_bytes: int | None = None
    """What the weights take as the graph stores them."""
    flops: int | None = None
    macs: int | None = None
    operators: dict[str, int] = field(default_factory=dict)
    """Nodes by kind."""

    @property
    def nodes(self) -> int | None:
        """The number of nodes; None for a compiled folder."""
        return sum(self.operators.values()) if self.operators else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        score = None if self.score is None else finite(self.score)
        return {**vars(self), "score": score, "nodes": self.nodes}


@dataclass
class OutputAgreement:
    """How far an output of B is from that of A."""

    name: str
    other: str
    """Its name in B."""
    type: str
    agreement: Agreement = field(default_factory=Agreement)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "name": self.name,
            "other": self.other,
            "type": self.type,
            **self.agreement.to_dict(),
        }


@dataclass
class ModelComparison:
    """What `infuse.compare` has found of models A and B."""

    a: ModelFigures
    b: ModelFigures
    inputs: dict[str, str]
    """Types of the inputs of one run."""
    runs: int
    is_random: bool
    """Whether the inputs were random, which says little about accuracy."""
    threads: int
    metric: str | None
    higher_is_better: bool
    outputs: list[OutputAgreement]
    layers: list[LayerAgreement]
    layer_runs: int
    notes: list[str] = field(default_factory=list)

    def _repr_html_(self) -> str:
        """The page of the report, as notebooks show it."""
        return frame(render_sheet("pair", self.to_dict(), f"{self.a.name} | {self.b.name}"))

    @property
    def speedup(self) -> float:
        """A's least time over B's: above 1 where B is faster."""
        return self.a.min_ms / self.b.min_ms

    @property
    def median_speedup(self) -> float:
        """A's median time over B's."""
        return self.a.median_ms / self.b.median_ms

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; the page shows nothing else."""
        return {
            "a": self.a.to_dict(),
            "b": self.b.to_dict(),
            "inputs": dict(self.inputs),
            "runs": self.runs,
            "is_random": self.is_random,
            "threads": self.threads,
            "metric": self.metric,
            "higher_is_better": self.higher_is_better,
            "speedup": self.speedup,
            "median_speedup": self.median_speedup,
            "outputs": [each.to_dict() for each in self.outputs],
            "layers": [each.to_dict() for each in self.layers],
            "layer_runs": self.layer_runs,
            "notes": list(self.notes),
        }


def compare_sides(
    a: Side,
    b: Side,
    build: Build,
    examples: Examples = Examples(),
    turns: Turns = Turns(),
    *,
    layers: bool = True,
    progress: Progress | None = None,
) -> ModelComparison:
    """The comparison of two models (see `infuse.compare`); `build` compiles graphs that also
    give inner values.
    """
    report = progress or silent
    labels, is_random = examples.labels, examples.inputs is None
    _check(examples)
    chosen = _metric(examples.metric, labels)
    notes = pair(a, b)
    feeds = both_feeds(a, b, examples)
    ours, theirs = _outputs(a, b, feeds, report)
    outputs = _agreements(a, b, ours, theirs, notes)
    scores = _scores(chosen, ours, theirs, labels)
    times = alternate(
        {"a": lambda: a.model.run(feeds[0][0]), "b": lambda: b.model.run(feeds[0][1])},
        turns.rounds,
        turns.seconds,
        lambda done: report("measure", done, turns.rounds),
    )
    inner, inner_runs = _inner(a, b, feeds, build, report, notes) if layers else ([], 0)
    if is_random:
        notes.append("the inputs are random, which says little about accuracy: give data")
    else:
        notes += sequence_notes(a.interface)
    return ModelComparison(
        _figures(a, times["a"], feeds[0][0], scores[0]),
        _figures(b, times["b"], feeds[0][1], scores[1]),
        {name: describe(array) for name, array in feeds[0][0].items()},
        len(feeds),
        is_random,
        a.model.threads,
        None if chosen is None else chosen.name,
        chosen is None or chosen.higher_is_better,
        outputs,
        inner,
        inner_runs,
        notes,
    )


def _check(examples: Examples) -> None:
    if examples.inputs is not None:
        return
    if examples.batch is not None:
        raise OptionError(
            "a batch cuts data, and none are given", hint="sizes of random inputs are `dims`"
        )
    if examples.labels is not None:
        raise OptionError("labels belong to data, and none are given", hint="give the data, too")


def _metric(which: Any, labels: Any) -> Metric | None:
    """The metric that is asked for, or that fits the labels; None where there is nothing to score
    by.
    """
    if which is None:
        if labels is None:
            return None
        return metric_of("top1" if np.asarray(labels).dtype.kind in "iu" else "mse")
    chosen = metric_of(which)
    if chosen.needs_labels and labels is None:
        raise OptionError(f"the metric {chosen.name} needs labels", hint="give the labels, too")
    return chosen


def _outputs(
    a: Side, b: Side, feeds: Sequence[tuple[Feeds, Feeds]], report: Progress
) -> tuple[Outputs, Outputs]:
    ours, theirs = [], []
    for done, (feed, other) in enumerate(feeds):
        report("run", done, len(feeds))
        ours.append(a.run(feed))
        theirs.append(b.run(other))
    return ours, theirs


def _agreements(
    a: Side, b: Side, ours: Outputs, theirs: Outputs, notes: list[str]
) -> list[OutputAgreement]:
    rows = []
    for name, other in b.names.items():
        pairs = [(x[name], y[name]) for x, y in zip(ours, theirs)]
        reason = next(filter(None, (_obstacle(x, y) for x, y in pairs)), "")
        if reason:
            notes.append(f"output {name!r} is not compared: {reason}")
            continue
        row = OutputAgreement(name, other, describe(pairs[0][0]))
        for x, y in pairs:
            row.agreement.add(x, y, has_scores=True)
        if row.agreement.not_finite:
            count = row.agreement.not_finite
            notes.append(
                f"output {name!r} has {count} elements that are NaN or infinite in one model only"
            )
        rows.append(row)
    if not rows:
        raise InputError(
            f"no output of {a.name} can be compared with one of {b.name}: {notes[-1]}",
            hint="the models must give arrays of the same shapes",
        )
    return rows


def _obstacle(a: Any, b: Any) -> str:
    """Why two outputs cannot be compared."""
    is_array = all(isinstance(x, np.ndarray) for x in (a, b))
    if is_array and a.shape == b.shape:
        return ""
    return f"it is {describe(a)} in A and {describe(b)} in B"


def _scores(
    metric: Metric | None, ours: Outputs, theirs: Outputs, labels: Any
) -> tuple[float | None, float | None]:
    """The scores of both models; of a metric beside another model, that of B beside A."""
    if metric is None:
        return None, None
    if metric.needs_labels:
        return metric(ours, labels), metric(theirs, labels)
    return None, metric(theirs, ours)


def _inner(
    a: Side,
    b: Side,
    feeds: Sequence[tuple[Feeds, Feeds]],
    build: Build,
    report: Progress,
    notes: list[str],
) -> tuple[list[LayerAgreement], int]:
    if a.graph is None or b.graph is None:
        label = a.name if a.graph is None else b.name
        notes.append(f"{label} is compiled, so that its inner values cannot be compared")
        return [], 0
    runs = feeds[:LAYER_RUNS]
    rows = layer_agreements(
        a.graph, b.graph, runs, build, lambda done, total: report("layers", done, total)
    )
    rotated = rotated_names(a.graph, b.graph)
    if count := sum(bool({x.name, y.name} & rotated) for x, y in inner_pairs(a.graph, b.graph)):
        notes.append(
            f"{count} inner values are not compared, as the compression rotated their channels: "
            "--no-rotate (rotate=False) leaves them"
        )
    if not rows:
        notes.append("the models have no inner values in common, by name and shape")
    return rows, len(runs)


def _figures(side: Side, times: Sequence[float], feeds: Feeds, score: float | None) -> ModelFigures:
    model, layers = side.model, side.layers(feeds)
    measured = summary(times)
    figures = ModelFigures(
        side.name,
        measured["min_ms"],
        measured["median_ms"],
        len(times),
        model.arena_bytes,
        model.weights_bytes,
        side.loaded_bytes,
        side.disk_bytes,
        list(model.host_steps),
        score,
    )
    if side.graph is not None:
        figures.parameters = sum(row.parameters for row in layers)
        figures.stored_bytes = sum(row.weight_bytes for row in layers)
        figures.flops = sum(number(row.cost.flops) for row in layers)
        figures.macs = sum(number(row.cost.macs) for row in layers)
        figures.operators = dict(Counter(row.kind for row in layers).most_common())
    return figures
