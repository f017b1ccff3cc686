"""Data to learn from and data that tell the score, which are never the same where a graph is
tuned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from infuse.compression.lessons import Lessons
from infuse.data.dataset import Data
from infuse.data.metrics import Metric
from infuse.data.sequences import sequence_inputs
from infuse.errors import InputError, OptionError
from infuse.ir.graph import Graph

HELD_OUT = 5
"""One in so many examples is not learned from where there is no validation, and tells the score."""
CLASS_METRICS = ("top1", "top5", "agreement")


@dataclass(frozen=True)
class Divided:
    """Data to learn from and data that tell the score, each with labels where there are some."""

    learned: Data | None
    learned_labels: Any
    measured: Data | None
    labels: Any

    @classmethod
    def of(cls, data: Data | None, labels: Any, validation: Data | None, is_tuned: bool) -> Divided:
        """The examples of a call. OptionError where they are too few for both, or of several
        sizes.
        """
        if not is_tuned or data is None:
            return cls(data, None, validation, labels)
        arrays = _joined(data)
        if validation is not None:
            return cls(arrays, None, validation, labels)
        count = max((len(array) for array in arrays.values() if array.ndim), default=0)
        if count < HELD_OUT:
            raise OptionError(
                f"{count} examples are too few to tune a model and to measure it",
                hint="give more, or a validation (--validation, validation=)",
            )
        held = np.arange(count) % HELD_OUT == HELD_OUT - 1

        def part(which: np.ndarray) -> dict[str, Any]:
            return {
                name: array[which] if array.ndim and len(array) == count else array
                for name, array in arrays.items()
            }

        if labels is None or len(np.asarray(labels)) != count:
            return cls(part(~held), None, part(held), labels)
        own = np.asarray(labels)
        return cls(part(~held), own[~held], part(held), own[held])

    def lessons(self, source: Graph, metric: Metric, threads: int | None) -> Lessons:
        """What is learned: the original's answers, and classes where the metric is of these."""
        assert isinstance(self.learned, Mapping)
        tells_classes = metric.name.split(":")[0] in CLASS_METRICS
        labels = self.learned_labels if tells_classes else None
        return Lessons.of(source, self.learned, labels, tells_classes, threads)


def _joined(data: Data) -> dict[str, Any]:
    """The examples of all parts as one array for each input."""
    parts = [data] if isinstance(data, Mapping) else list(data)
    arrays = [{name: np.asarray(array) for name, array in part.items()} for part in parts]
    shapes = [{name: array.shape[1:] for name, array in part.items()} for part in arrays]
    if not arrays or any(part != shapes[0] for part in shapes):
        raise OptionError(
            "tuning needs examples of the same size in all parts of the data",
            hint="bring them to one size",
        )
    return {name: np.concatenate([part[name] for part in arrays]) for name in arrays[0]}


def require_examples(graph: Graph, data: Data) -> None:
    """InputError where data that a graph is to learn from have sequences in place of examples along
    their first axis.
    """
    for value, node in sequence_inputs(graph).items():
        for part in [data] if isinstance(data, Mapping) else data:
            if value.name in part and np.ndim(part[value.name]) == value.rank:
                raise InputError(
                    f"{node.kind} {node.name!r} computes the places of the first axis of input "
                    f"{value.name!r} from one another, so that they are not examples to learn from",
                    hint="give whole sequences along one more axis in front",
                )
