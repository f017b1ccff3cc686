"""The loop of a training: batches go through the compiled step, and what it carries on goes into
the next one.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.errors import DataError, InputError
from infuse.ir import dims
from infuse.ir.clone import clone
from infuse.ir.graph import Array, Graph, Value
from infuse.ir.types import TensorType
from infuse.options import CompileOptions
from infuse.options.fields import fields_of
from infuse.options.former import Moved, former, same
from infuse.passes.run import optimize_in_place
from infuse.training.losses import targets_of, weighted
from infuse.training.optimizers import AdamW
from infuse.training.options import Augment, TrainOptions, Watch
from infuse.training.step import TrainingStep, build_step, parameters_of, result_of


@dataclass
class TrainingReport:
    """What a training did."""

    losses: list[float] = field(default_factory=list)
    """The mean of the loss in each epoch."""
    steps: int = 0
    seconds_per_step: float = 0.0
    """The median."""
    parameters: list[str] = field(default_factory=list)
    """The names of the constants that were trained."""


@former(
    Moved(
        "options",
        TrainOptions,
        same(*(each.name for each in fields_of(TrainOptions))),
    ),
    Moved("watch", Watch, same(*(each.name for each in fields_of(Watch)))),
)
def train(
    graph: Graph,
    data: Mapping[str, Any] | Any,
    labels: Mapping[str, Any] | Any,
    options: TrainOptions = TrainOptions(),
    *,
    parameters: str | Collection[str | Value] | None = None,
    masks: Mapping[Value, Array] | None = None,
    watch: Watch = Watch(),
) -> tuple[Graph, TrainingReport]:
    """A copy of `graph` whose parameters were trained on examples, and what the training did; the
    graph itself stays as it is.

    `data` has the examples by input, one in each row (an array where there is one input), `labels`
    the targets of the loss. `parameters` are constants or their names; without it, all constants of
    floats with axes are trained, but for the statistics of batch normalizations, which stay as they
    are unless `batch_statistics` lets them follow those of the batches. `masks` tells of elements
    of parameters whether they are trained: the others are zeros in the result. `watch` has what is
    called after steps and epochs, and can end the training.

    Examples come in a random order that the seed decides, each once before any comes again; batches
    go on across the ends of epochs. InputError for examples and labels that do not fit,
    OptionError for options without meaning, DataError when the loss is no finite number, and the
    errors of `differentiate`.
    """
    rule = options.optimizer or AdamW()
    losses = weighted(options.loss)
    examples = _named(graph, data)
    targets = targets_of(losses, labels)
    batch = min(options.batch_size, _count({**examples, **targets}))
    sizes = _sizes(graph, examples, batch)
    for _, one in losses:
        one.check(targets[one.target], result_of(graph, one))
    step = build_step(
        graph,
        losses,
        rule,
        parameters_of(graph, parameters, losses),
        sizes=sizes,
        masks=masks,
        clip_norm=options.clip_norm,
        batch_statistics=options.batch_statistics,
    )
    every = {**examples, **targets}
    batches = Batches(every, batch, options.epochs, options.seed, options.augment)

    def rate(number: int) -> float:
        return rule.rate * options.schedule(number, len(batches))

    def trained(carried: Sequence[Array]) -> Graph:
        constants = [*step.parameters, *step.statistics]
        return with_constants(graph, dict(zip(constants, carried)))

    def ends(epoch: int, carried: Sequence[Array]) -> bool:
        ended = watch.after_epoch
        return ended is not None and ended(epoch, lambda: trained(carried))

    carried, report = _run(step, batches, rate, options.threads, watch, ends)
    report.parameters = [v.name for v in step.parameters]
    return trained(carried), report


@dataclass
class Batches:
    """Batches of examples in a random order, each of the same size."""

    examples: Mapping[str, Array]
    size: int
    epochs: int
    seed: int
    augment: Augment | None = None

    def __len__(self) -> int:
        return max(1, self.count * self.epochs // self.size)

    @property
    def count(self) -> int:
        """How many examples there are."""
        return len(next(iter(self.examples.values())))

    def epoch_of(self, number: int) -> int:
        """The epoch that a batch ends in."""
        return min(((number + 1) * self.size - 1) // self.count, self.epochs - 1)

    def is_last_of_epoch(self, number: int) -> bool:
        """Whether the next batch ends in another epoch, or there is none."""
        return number + 1 == len(self) or self.epoch_of(number + 1) != self.epoch_of(number)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        rng = np.random.default_rng(self.seed)
        order = np.zeros(0, np.int64)
        for _ in range(len(self)):
            while len(order) < self.size:
                order = np.concatenate([order, rng.permutation(self.count)])
            taken, order = order[: self.size], order[self.size :]
            batch = {name: array[taken] for name, array in self.examples.items()}
            yield batch if self.augment is None else self.augment(batch, rng)


def _run(
    step: TrainingStep,
    batches: Batches,
    rate: Callable[[int], float],
    threads: int | None,
    watch: Watch,
    ends: Callable[[int, Sequence[Array]], bool],
) -> tuple[list[Array], TrainingReport]:
    """What the steps made of parameters and statistics, and what they were like; `ends` tells after
    each epoch whether there are no more.
    """
    step.graph.report = optimize_in_place(step.graph)
    report = TrainingReport()
    totals: list[list[float]] = [[] for _ in range(batches.epochs)]
    seconds = []
    carried = step.initial()
    with compile_graph(step.graph, CompileOptions(threads=threads)) as model:
        runner = model.session()
        for number, batch in enumerate(batches):
            inputs = [batch[name] for name in step.data]
            begin = time.perf_counter()
            loss, *carried = runner.execute(
                [*inputs, np.float32(rate(number)), np.int64(number), *carried]
            )
            seconds.append(time.perf_counter() - begin)
            _require_finite(loss, number, batches)
            totals[batches.epoch_of(number)].append(float(loss))
            report.steps = number + 1
            if watch.progress:
                watch.progress(number + 1, len(batches), float(loss))
            is_last = watch.until is not None and watch.until()
            epoch_ends = is_last or batches.is_last_of_epoch(number)
            if epoch_ends and (ends(batches.epoch_of(number) + 1, carried) or is_last):
                break
        runner.close()
    report.losses = [statistics.fmean(t) for t in totals if t]
    report.seconds_per_step = statistics.median(seconds)
    return carried, report


def _require_finite(loss: Array, number: int, batches: Batches) -> None:
    if not np.isfinite(loss):
        raise DataError(
            f"the loss is {float(loss)} at step {number + 1} of {len(batches)}, in epoch "
            f"{batches.epoch_of(number) + 1}; the parameters are as they were",
            hint="try a smaller learning rate, or clip_norm",
        )


def with_constants(graph: Graph, arrays: Mapping[Value, Array]) -> Graph:
    """A copy of `graph` in which these constants have other elements."""
    copies: dict[Value, Value] = {}
    result = clone(graph, copies)
    for value, array in arrays.items():
        copies[value].const = np.ascontiguousarray(array)
    return result


# -- what is given ---------------------------------------------------------------------------------


def _named(graph: Graph, data: Mapping[str, Any] | Any) -> dict[str, Array]:
    """The examples by input."""
    names = [v.name for v in graph.inputs]
    if not isinstance(data, Mapping):
        if len(names) != 1:
            raise InputError(
                f"the graph has {len(names)} inputs, so data are arrays by name",
                hint=f"the inputs: {', '.join(names)}",
            )
        data = {names[0]: data}
    if set(data) != set(names):
        raise InputError(
            f"data for {', '.join(map(repr, sorted(data))) or 'nothing'}, but the graph takes "
            f"{', '.join(map(repr, names))}"
        )
    return {name: np.asarray(data[name]) for name in names}


def _count(arrays: Mapping[str, Array]) -> int:
    """How many examples there are, as many in each array; at least one."""
    counts = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{count} in {name!r}" for name, count in counts.items())
        raise InputError(f"data and labels have different numbers of examples: {listed}")
    count = next(iter(counts.values()))
    if not count:
        raise InputError("there are no examples to learn from")
    return count


def _sizes(graph: Graph, examples: Mapping[str, Array], batch: int) -> dict[str, int]:
    """What the symbols in the types of the inputs stand for in a batch; InputError where examples
    do not fit.
    """
    sizes: dict[str, int] = {}
    for value in graph.inputs:
        array, type = examples[value.name], value.type
        if not isinstance(type, TensorType) or type.dtype != dtypes.by_numpy(array.dtype):
            raise InputError(f"input {value.name!r} takes {type}, found {array.dtype}")
        if type.dtype.is_float and not np.isfinite(array).all():
            raise InputError(f"the data for {value.name!r} have elements that are not finite")
        shape = (batch, *array.shape[1:])
        if type.shape is None or len(type.shape) != len(shape):
            raise InputError(
                f"input {value.name!r} takes {type} with an example in each row, found the shape "
                f"{array.shape}"
            )
        for axis, (dim, size) in enumerate(zip(type.shape, shape)):
            for name in dims.symbols(dim):
                if dim == dims.symbol(name):
                    sizes.setdefault(name, size)
            expected = dims.substitute(dim, sizes)
            if isinstance(expected, int) and expected != size:
                what = "batches" if axis == 0 else f"axis {axis}"
                raise InputError(
                    f"input {value.name!r} takes {type}: {what} of {expected}, found {size}",
                    hint="choose that batch_size, or a graph whose batch is dynamic"
                    if axis == 0
                    else None,
                )
    return sizes
