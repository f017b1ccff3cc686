"""Data sets for models: arrays of examples, cut into the feeds of single runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.data.sequences import sequence_inputs
from infuse.errors import InfuseError, InputError
from infuse.ir.graph import Array, Graph, Value
from infuse.mapped import give_back
from infuse.ops.core.evaluate import check_feeds, check_names

Feeds = dict[str, Array]
Data = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""Arrays of examples by input name, or a sequence of such."""


def spread(runs: Sequence[Feeds], most: int) -> list[Feeds]:
    """At most so many of the runs, from the first to the last at equal distances."""
    picked = np.linspace(0, len(runs) - 1, min(len(runs), most))
    return [runs[int(number)] for number in picked]


def in_turn(runs: Iterable[Feeds]) -> Iterator[Feeds]:
    """The feeds of runs one after another. What lies in a mapped file leaves the memory when the
    next ones are asked for.
    """
    for feeds in runs:
        yield feeds
        for array in feeds.values():
            give_back(array)


def require_numbers(runs: Sequence[Feeds]) -> None:
    """InputError where no element of an input of floats is finite in any of the runs."""
    names = {
        name
        for name, array in runs[0].items()
        if array.size and dtypes.by_numpy(array.dtype).is_float
    }
    for feeds in in_turn(runs):
        names = {name for name in names if not np.isfinite(feeds[name].astype(np.float64)).any()}
        if not names:
            return
    raise InputError(
        f"the data have no finite number for the input {min(names)!r}",
        hint="replace what is not a number: it does not say what the model is run on",
    )


def require_answers(outputs: Iterable[Mapping[str, Any]], data: Data | None) -> None:
    """InputError where outputs are NaN and so are elements of the data: which, and where."""
    if data is None or not any(_nans(array) for each in outputs for array in each.values()):
        return
    for part in [data] if isinstance(data, Mapping) else data:
        for name, array in part.items():
            if count := _nans(array := np.asarray(array)):
                first = np.argwhere(np.isnan(array.astype(np.float64)))[0]
                path = getattr(part, "path", None)
                raise InputError(
                    f"the data hold NaN, and the model then answers NaN: {count} of {array.size} "
                    f"elements of {name!r}, the first at {first.tolist()}",
                    where=None if path is None else str(path),
                    hint="leave out such examples, or replace what is not a number",
                )


def _nans(array: Any) -> int:
    """How many elements are NaN."""
    if not isinstance(array, np.ndarray) or array.dtype.kind in "OUST":
        return 0
    is_float = array.dtype.kind in "fc" or dtypes.by_numpy(array.dtype).is_float
    return int(np.count_nonzero(array != array)) if is_float else 0


def feeds_of(graph: Graph, data: Data, batch: int = 1) -> list[Feeds]:
    """The feeds of single runs, in order.

    Each array of `data` has examples along its first axis: rows of the input's own first axis, cut
    into batches of its size (of `batch` where that is a symbol; the last may be smaller), or whole
    inputs, with one axis more than the input. Where the first axis is a symbol and no batch
    (`sequence_inputs`), an array is one input as it is. Such an array goes into every run. A
    sequence has such arrays of each part, whose sizes may differ.

    InputError for names, types and shapes that do not fit, and where there are no examples.
    """
    parts = [data] if isinstance(data, Mapping) else list(data)
    feeds = []
    whole = {value.name for value in sequence_inputs(graph)}
    for number, part in enumerate(parts, 1):
        try:
            feeds += _runs(graph, part, batch, whole)
        except InfuseError as error:
            if len(parts) > 1:
                error.within(f"part {number} of the data")
            raise
    if not feeds:
        raise InputError(
            "the data have no examples", hint="give arrays by input name, examples along axis 0"
        )
    for feed in feeds[:1] + feeds[-1:]:
        check_feeds(graph, feed)
    return feeds


def _runs(graph: Graph, part: Mapping[str, Any], batch: int, whole: Collection[str]) -> list[Feeds]:
    check_names(graph, part)
    inputs = {value.name: value for value in graph.inputs}
    cuts = {
        name: _cut(inputs[name], np.asarray(array), 0 if name in whole else batch)
        for name, array in part.items()
    }
    counts = {name: len(pieces) for name, pieces in cuts.items() if len(pieces) != 1}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name!r} {count}" for name, count in counts.items())
        raise InputError(f"the arrays have examples for different numbers of runs: {told}")
    runs = max(counts.values(), default=1) if 0 not in counts.values() else 0
    return [
        {name: pieces[i if len(pieces) > 1 else 0] for name, pieces in cuts.items()}
        for i in range(runs)
    ]


def _cut(value: Value, array: Array, batch: int) -> list[Array]:
    """What single runs take of an array; all of it for a batch of 0."""
    shape = value.tensor.shape
    if shape is None:
        return [array]
    if array.ndim == len(shape) + 1:
        return list(array)
    if array.ndim != len(shape):
        raise InputError(
            f"input {value.name!r} takes {value.type}, found an array of shape {array.shape}",
            hint="examples lie along its first axis, or along one more in front",
        )
    if not shape:
        return [array]
    size = shape[0] if isinstance(shape[0], int) else batch or max(1, len(array))
    if isinstance(shape[0], int) and (size <= 0 or array.shape[0] % size):
        raise InputError(
            f"input {value.name!r} takes {size} rows a run, and {array.shape[0]} are not a multiple"
        )
    return [array[start : start + size] for start in range(0, array.shape[0], size)]
