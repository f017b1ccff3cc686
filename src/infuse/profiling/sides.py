"""The two models of a comparison: opened, their inputs and outputs paired, and data for both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.analysis.layers import Layer, layers_of
from infuse.data.dataset import Feeds, feeds_of
from infuse.errors import InputError, OptionError
from infuse.ir import dims
from infuse.ir.graph import Graph, Value
from infuse.ir.types import TensorType
from infuse.ops.core.evaluate import check_feeds
from infuse.options import Examples
from infuse.profiling.inputs import complete_feeds, shown_sizes
from infuse.runtime.hosted import HostedModel
from infuse.runtime.interface import Model
from infuse.runtime.model import CompiledModel

RANDOM_RUNS = 4
"""How many random inputs both models are run on where no data are given."""


@dataclass
class Side:
    """One of two models: how it is called, what opens or compiles it, and its graph, which a
    compiled folder does not have.
    """

    name: str
    open: Callable[[], Model]
    graph: Graph | None
    disk_bytes: int | None
    """The size of its files; None for a graph in memory."""
    names: dict[str, str] = field(default_factory=dict)
    """Its own name of each output of the comparison."""
    inputs: dict[str, str] = field(default_factory=dict)
    """Its own name of each input of the comparison."""

    @cached_property
    def model(self) -> Model:
        """What runs; it is opened when it is asked for first, after all checks that need none."""
        return self.open()

    def close(self) -> None:
        """Free what an opened model holds."""
        if "model" in vars(self):
            self.model.close()

    @property
    def output_names(self) -> list[str]:
        """The names of all outputs of the model."""
        if self.graph is not None:
            return list(self.graph.output_names)
        return [spec.name for spec in self.model.outputs]

    @cached_property
    def interface(self) -> Graph:
        """A graph with the model's inputs."""
        return self.graph if self.graph is not None else _interface(self.model)

    def run(self, feeds: Feeds) -> dict[str, Any]:
        """The outputs of the comparison by name."""
        outputs = self.model.run(feeds)
        return {name: outputs[own] for name, own in self.names.items()}

    @property
    def loaded_bytes(self) -> int:
        """What a process loads of the model: code, or a program, and weights."""
        model = self.model
        parts: Sequence[Any] = model.native if isinstance(model, HostedModel) else [model]
        return sum(
            file["bytes"]
            for part in parts
            if isinstance(part, CompiledModel)
            for file in part.metadata["files"].values()
        )

    def layers(self, feeds: Feeds) -> list[Layer]:
        """The layers of its graph, with the sizes that these inputs have; none for a folder."""
        if self.graph is None:
            return []
        return layers_of(self.graph, shown_sizes(self.graph, feeds)).rows


def _interface(model: Model) -> Graph:
    graph = Graph(model.name)
    for spec in model.inputs:
        if spec.other_type:
            raise InputError(
                f"input {spec.name!r} is not a tensor but {spec.other_type}", where=model.name
            )
        shape = [size if isinstance(size, int) else dims.symbol(size) for size in spec.shape]
        kind = TensorType(dtypes.by_numpy(spec.dtype), tuple(shape))
        value = graph.add_input(spec.name, kind)
        if spec.optional:
            value.default = np.zeros([int(size) for size in spec.shape], spec.dtype)
    return graph


# -- pairs -----------------------------------------------------------------------------------------


def pair(a: Side, b: Side) -> list[str]:
    """Pair the inputs and the outputs of two models, under the names that A has; what one must know
    of it.

    They are paired by name, or in order where the models share no name and have as many. InputError
    where the models do not take the same inputs, or have no output in common.
    """
    notes: list[str] = []
    ours, theirs = a.interface.inputs, b.interface.inputs
    a.inputs = {value.name: value.name for value in ours}
    b.inputs = _paired([v.name for v in ours], [v.name for v in theirs], "input", notes)
    _check_inputs(ours, theirs, b.inputs, notes)
    names, others = a.output_names, b.output_names
    b.names = _paired(names, others, "output", notes)
    if not b.names:
        listed = "; ".join(", ".join(map(repr, each)) for each in (names, others))
        raise InputError(f"the models have no output in common: {listed}")
    a.names = {name: name for name in b.names}
    single = [
        f"output {name!r} of {side.name} is not in the other model"
        for side, own in ((a, names), (b, others))
        for name in own
        if name not in side.names.values()
    ]
    return notes + single


def _paired(
    names: Sequence[str], others: Sequence[str], what: str, notes: list[str]
) -> dict[str, str]:
    shared = {name: name for name in names if name in others}
    if shared or len(names) != len(others) or not names:
        return shared
    notes.append(f"no {what} has the same name in both models: they are paired in order")
    return dict(zip(names, others))


def _check_inputs(
    ours: Sequence[Value], theirs: Sequence[Value], names: Mapping[str, str], notes: list[str]
) -> None:
    required = [
        [v.name for v in values if v.default is None and v.name not in paired]
        for values, paired in ((ours, names.keys()), (theirs, set(names.values())))
    ]
    for label, missing in zip("AB", required):
        if missing:
            listed = ", ".join(map(repr, missing))
            raise InputError(f"only model {label} has the input {listed}")
    by_name = {value.name: value for value in theirs}
    for value in ours:
        if value.name in names:
            _check_types(value, by_name[names[value.name]], notes)


def _check_types(a: Value, b: Value, notes: list[str]) -> None:
    kinds = (a.type, b.type)
    if not all(isinstance(kind, TensorType) for kind in kinds):
        raise InputError(f"input {a.name!r} is not a tensor: {kinds[0]} and {kinds[1]}")
    if a.dtype != b.dtype:
        if not (a.dtype.is_float and b.dtype.is_float):
            raise InputError(f"input {a.name!r} is {a.type} in A and {b.type} in B")
        notes.append(f"input {a.name!r} is {a.dtype} in A, and cast to {b.dtype} for B")
    ours, theirs = a.tensor.shape, b.tensor.shape
    if ours is None or theirs is None:
        return
    fits = len(ours) == len(theirs) and all(
        x == y or not (isinstance(x, int) and isinstance(y, int)) for x, y in zip(ours, theirs)
    )
    if not fits:
        hint = "export both for the same sizes, or with symbolic ones"
        raise InputError(f"input {a.name!r} is {a.type} in A and {b.type} in B", hint=hint)


# -- data ------------------------------------------------------------------------------------------


def both_feeds(a: Side, b: Side, examples: Examples) -> list[tuple[Feeds, Feeds]]:
    """The inputs of every run of A and of B: of the data, or random ones.

    InputError where the data do not fit, OptionError for a batch that a model does not take.
    """
    if examples.inputs is None:
        runs = _random_runs(a, {**_fixed_sizes(a, b), **examples.sizes}, examples.seed)
    else:
        runs = feeds_of(a.interface, examples.inputs, _batch(a, b, examples.batch))
    interface = b.interface
    types = {value.name: value for value in interface.inputs}
    pairs = []
    for feeds in runs:
        other = {
            b.inputs[name]: np.asarray(array).astype(types[b.inputs[name]].dtype.numpy, copy=False)
            for name, array in feeds.items()
            if name in b.inputs
        }
        pairs.append(({n: x for n, x in feeds.items() if n in a.inputs}, other))
    for _, other in pairs[:1] + pairs[-1:]:
        try:
            check_feeds(interface, other)
        except InputError as error:
            error.within("model B")
            raise
    return pairs


def _random_runs(a: Side, sizes: Mapping[str, int], seed: int) -> list[Feeds]:
    return [complete_feeds(a.interface, {}, sizes, seed + run) for run in range(RANDOM_RUNS)]


def _fixed_sizes(a: Side, b: Side) -> dict[str, int]:
    """The sizes that symbols of A must have for B's inputs."""
    theirs = {value.name: value for value in b.interface.inputs}
    fixed: dict[str, int] = {}
    for value in a.interface.inputs:
        other = theirs.get(b.inputs.get(value.name, ""))
        if other is None:
            continue
        for ours, size in zip(value.tensor.shape or (), other.tensor.shape or ()):
            if isinstance(size, int) and not isinstance(ours, int):
                fixed.update(
                    {name: size for name in dims.symbols(ours) if dims.symbol(name) == ours}
                )
    return fixed


def _batch(a: Side, b: Side, batch: int | None) -> int:
    """The rows of a run where A leaves them open: those that B takes, else `batch`, else one.
    OptionError for a batch that one of them does not take.
    """
    theirs = {value.name: value.tensor.shape for value in b.interface.inputs}
    firsts = [
        (shape[0], other[0])
        for value in a.interface.inputs
        if value.default is None
        and (shape := value.tensor.shape)
        and (other := theirs.get(b.inputs.get(value.name, "")))
    ]
    is_open = any(not isinstance(ours, int) for ours, _ in firsts)
    fixed = {
        size
        for ours, other in firsts
        for size in (ours, other)
        if isinstance(size, int) and not (is_open and isinstance(ours, int))
    }
    if batch is None:
        return min(fixed, default=1)
    if fixed and batch not in fixed:
        raise OptionError(
            f"a batch of {batch} is asked for, and a model takes {min(fixed)} rows a run"
        )
    return batch
