"""What a tuning learns from: examples, the original's answers to them, and their classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from infuse.build.compile import compile_graph
from infuse.compression.evaluation import settled
from infuse.errors import InfuseError, InputError
from infuse.ir import dims
from infuse.ir.clone import clone
from infuse.ir.graph import Array, Graph
from infuse.ir.types import TensorType
from infuse.ops.core.inference import infer_graph
from infuse.options import CompileOptions

ROWS = 64
"""Examples of a run, where a model takes any number."""


@dataclass(frozen=True)
class Lessons:
    """What is learned from: examples by input, one in each row; what the original answers to them,
    by output; and their classes, where these are known.
    """

    original: Graph
    """The original, which takes any number of rows where it can."""
    examples: Mapping[str, Array]
    answers: Mapping[str, Array]
    classes: Array | None = None
    tells_classes: bool = False
    """Whether outputs are scores of classes."""
    remaining: Mapping[tuple[str, int], Array] = field(default_factory=dict)
    """Of the graph that is tuned, which indices of the original's are left along an axis of what a
    node makes, by the name of the node and the axis; all, where nothing is said.
    """

    @classmethod
    def of(
        cls,
        original: Graph,
        examples: Mapping[str, Any],
        classes: Any = None,
        tells_classes: bool = False,
        threads: int | None = None,
    ) -> Lessons:
        """What the original answers. InputError where examples do not lie along the first axes of
        inputs and outputs.
        """
        arrays = {name: np.ascontiguousarray(array) for name, array in examples.items()}
        free = with_free_batch(original) or original
        outputs = list(answers(free, arrays, threads))
        joined = {
            name: np.concatenate([np.atleast_1d(each[name]) for each in outputs])
            for name in (original.output_names if outputs else ())
        }
        count = rows_of(arrays)
        if not joined or any(len(array) != count for array in joined.values()):
            raise InputError(
                "tuning needs examples along the first axis of all inputs and outputs",
                where="tuning",
                hint="give arrays whose rows are examples, as many as a run of the model takes",
            )
        labels = None if classes is None else np.asarray(classes)
        return cls(free, arrays, joined, labels, tells_classes)


def rows_of(arrays: Mapping[str, Array]) -> int:
    """How many examples there are."""
    return min((len(array) if array.ndim else 0 for array in arrays.values()), default=0)


def answers(
    graph: Graph, arrays: Mapping[str, Array], threads: int | None
) -> Iterator[Mapping[str, Array]]:
    """What a graph answers to examples, run by run; a rest that makes no run of its own size is
    left out.
    """
    count = rows_of(arrays)
    size = graph.inputs[0].shape[0] if graph.inputs and graph.inputs[0].rank else 1
    step = size if isinstance(size, int) else ROWS
    with compile_graph(settled(graph), CompileOptions(threads=threads)) as model:
        for start in range(0, count - count % step if isinstance(size, int) else count, step):
            yield model.run({name: array[start : start + step] for name, array in arrays.items()})


def with_free_batch(graph: Graph) -> Graph | None:
    """A copy whose inputs take any number of rows where they took one; None where they take any
    already, or the graph holds only for one.
    """
    inputs = [value for value in graph.inputs if isinstance(value.type, TensorType)]
    if not inputs or any(not v.tensor.shape or v.shape[0] != 1 for v in inputs):
        return None
    copy = clone(graph)
    rows = dims.symbol("rows")
    for value in copy.inputs:
        value.type = TensorType(value.dtype, (rows, *value.shape[1:]))
    try:
        infer_graph(copy)
    except InfuseError:
        return None
    fits = all(v.tensor.shape and v.shape[0] == rows for v in copy.outputs)
    return copy if fits else None
