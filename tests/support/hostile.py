"""Operators with nothing but ranks and element types declared, and inputs that break what they rely
on.

Every dimension of every input is a symbol of its own, so that whatever a kernel relies on has to be
checked; feeds have sizes that disagree, are zero or large, and elements at the limits of indices,
counts and lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.build.staged import lower_graph
from infuse.errors import InfuseError
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.relations import Relation, must_hold
from infuse.ir.types import TensorType
from infuse.lowering.expand import expand
from infuse.lowering.liveness import relations_of
from infuse.ops.core.sizes import numbering
from infuse.targets import Target
from infuse.testing.samples import Row, is_constant, results

Feeds = dict[str, Any]
FAR = (2**31 - 1, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63))
"""Integers at which narrow types end and products overflow."""


@dataclass(frozen=True)
class Case:
    """A row as a graph whose inputs have free sizes, and the names of the row's inputs that are
    inputs of the graph.
    """

    row: Row
    graph: Graph
    names: Mapping[str, int]

    def __str__(self) -> str:
        return f"{self.row} [{', '.join(self.names)}]"

    @cached_property
    def relations(self) -> list[Relation]:
        """What the operator relies on, and those that it is expressed in."""
        expanded, relied = expand(self.graph)
        own = [
            relation
            for node in (*self.graph.nodes, *expanded.nodes)
            for relation in relations_of(node)
        ]
        return [*own, *(relation for _, relation in relied.get(expanded, ()))]

    def keeps(self, feeds: Feeds) -> bool:
        """Whether the sizes of these inputs keep everything that the operator relies on."""
        values: dict[str, Dim] = {}
        for value in self.graph.inputs:
            pairs = zip(value.shape, feeds[value.name].shape)
            values |= {str(size): int(n) for size, n in pairs if isinstance(size, dims.Expr)}
        exact = (relation.substitute(values) for relation in self.relations)
        return all(must_hold(r.a, r.kind, r.b) for r in exact if not r.symbols)

    @property
    def sample(self) -> Feeds:
        """The arrays of the row itself: these must do."""
        return {name: self.row.inputs[number] for name, number in self.names.items()}

    def meaning(self, feeds: Feeds, zeros: bool = False) -> tuple[Any, ...] | None:
        """All outputs of the operator for these inputs, None where it refuses them.

        With `zeros`, all integer elements are zeros, also those of constants: indices and counts
        that always fit.
        """
        inputs = list(self.row.inputs)
        for name, number in self.names.items():
            inputs[number] = feeds[name]
        if zeros:
            whole = [isinstance(x, np.ndarray) and x.dtype.kind in "iu" for x in inputs]
            inputs = [np.zeros_like(x) if one else x for one, x in zip(whole, inputs)]
        with np.errstate(all="ignore"):
            try:
                return results(Row(self.row.op, tuple(inputs), self.row.fixed))
            except (
                InfuseError,
                ValueError,
                IndexError,
                TypeError,
                OverflowError,
                MemoryError,
                ZeroDivisionError,
            ):
                return None


def cases(row: Row, target: str = "native") -> Iterator[Case]:
    """The row with as much left open as native code takes: all inputs, and constants where the
    sample has them.
    """
    tensors = [isinstance(x, np.ndarray) for x in row.inputs]
    if not all(one or x is None for one, x in zip(tensors, row.inputs)):
        return
    free = (False,) * len(row.inputs)
    fixed = tuple(is_constant(row, i) for i in range(len(row.inputs)))
    for held in dict.fromkeys((free, fixed)):
        for static in _STATIC:
            try:
                case = _case(row, held, static)
                lower_graph(case.graph, Target.resolve(target), 2)
            except InfuseError:
                continue
            if case.keeps(case.sample):
                yield case
                break


_STATIC: tuple[Callable[[int, int, tuple[int, ...]], bool], ...] = (
    lambda number, axis, shape: False,
    lambda number, axis, shape: shape[axis] == 1,
    lambda number, axis, shape: axis == len(shape) - 1,
    lambda number, axis, shape: axis == len(shape) - 1 or shape[axis] == 1,
    lambda number, axis, shape: number > 0,
    lambda number, axis, shape: number > 0 or axis == 1,
)
"""Which sizes stay numbers (of an input's axis), from none to more, until native code takes the
others as symbols.
"""


def _case(
    row: Row, held: Sequence[bool], static: Callable[[int, int, tuple[int, ...]], bool]
) -> Case:
    graph, names = Graph("hostile"), {}
    values: list[Value | None] = []
    with numbering(()):
        for number, x in enumerate(row.inputs):
            if x is None or held[number]:
                values.append(None if x is None else constant(x))
                continue
            names[name := f"x{number}"] = number
            sizes = [
                d if static(number, i, x.shape) else dims.symbol(f"n{number}_{i}")
                for i, d in enumerate(x.shape)
            ]
            values.append(graph.add_input(name, TensorType(dtypes.by_numpy(x.dtype), tuple(sizes))))
        count = len(results(row))
        outputs = [Value(TensorType(dtypes.float32, None), f"y{i}") for i in range(count)]
        node = graph.add_node(Node(row.op, values, outputs, name="n"))
        node.op.infer_node(node)
    for i, value in enumerate(outputs):
        graph.add_output(value, f"y{i}")
    return Case(row, graph, names)


def feeds(case: Case, rng: np.random.Generator, most: int = 60) -> list[Feeds]:
    """Inputs for a case: the sample first, then such that break its relations; up to `most`, evenly
    chosen.
    """
    every = [*resized_feeds(case, rng), *_elements(case, rng)]
    step = max(1, -(-len(every) // most))
    return [case.sample, *every[rng.integers(step) :: step]]


def resized_feeds(case: Case, rng: np.random.Generator) -> Iterator[Feeds]:
    """One size changed; all of one input; everything empty; several at random."""
    sample = case.sample
    free = {v.name: [not isinstance(d, int) for d in v.shape] for v in case.graph.inputs}

    def resized(name: str, sizes: Sequence[int]) -> Feeds:
        x = sample[name]
        shape = tuple(size if open_ else d for size, open_, d in zip(sizes, free[name], x.shape))
        return {name: _resized(x, shape, rng)}

    for name, axes in free.items():
        shape = sample[name].shape
        for axis, size in enumerate(shape):
            for other in (
                sorted({0, 1, size - 1, size + 1, 2 * size + 3, 70} - {size, -1})
                if axes[axis]
                else ()
            ):
                yield sample | resized(name, (*shape[:axis], other, *shape[axis + 1 :]))
        if any(axes):
            yield sample | resized(name, (0,) * len(shape))
            yield sample | resized(name, (1,) * len(shape))
    opened = [name for name, axes in free.items() if any(axes)]
    changes = [[0], [1], *([[0, 1, 2, 3, 33], []] * 6)] if opened else []
    for choices in changes:
        changed: Feeds = {}
        for name in opened:
            shape = sample[name].shape
            changed |= resized(
                name, [int(rng.choice(choices or [d, d, d, 0, 1, d + 1, 2 * d])) for d in shape]
            )
        yield sample | changed
    # The same size wherever the sample has the same: what kernels take, at other sizes.
    for other in (1, 2, 7, 0, 40) if opened else ():
        for size in sorted({d for name in opened for d in sample[name].shape}):
            changed = {}
            for name in opened:
                changed |= resized(name, [other if d == size else d for d in sample[name].shape])
            yield sample | changed


def unchecked(case: Case, rng: np.random.Generator) -> Iterator[Feeds]:
    """Inputs whose sizes the operator refuses whatever their integer elements are (those of the
    sample, or zeros), all at least one, though they keep everything that it relies on.
    """
    for feeds in resized_feeds(case, rng):
        if any(0 in x.shape for x in feeds.values()) or not case.keeps(feeds):
            continue
        if case.meaning(feeds) is None and case.meaning(feeds, zeros=True) is None:
            yield feeds


def _elements(case: Case, rng: np.random.Generator) -> Iterator[Feeds]:
    """Elements at the limits: all of an input, one of it, and a mixture."""
    sample = case.sample
    sizes = sorted({d for x in sample.values() for d in x.shape})
    near = [n for d in sizes for n in (d, d + 1, -d - 1)]
    for name, x in sample.items():
        dtype = dtypes.by_numpy(x.dtype)
        if dtype.is_integer:
            limits = np.iinfo(dtype.numpy) if dtype.bits >= 8 else None
            low, high = (limits.min, limits.max) if limits else (0, 1)
            choices = [n for n in dict.fromkeys((0, 1, -1, *near, *FAR)) if low <= n <= high]
        elif dtype.is_float:
            choices = [np.nan, np.inf, -np.inf, 1e30, -1e30, 0.0, -1.0, 1e9]
        else:
            continue
        with np.errstate(all="ignore"):
            for number in choices:
                yield sample | {name: np.full(x.shape, number, x.dtype)}
            for _ in range(4 if x.size else 0):
                mixed = x.copy().reshape(-1)
                places = rng.random(mixed.size) < 0.4
                places[rng.integers(mixed.size)] = True
                mixed[places] = np.array(rng.choice(choices, int(places.sum()))).astype(x.dtype)
                yield sample | {name: mixed.reshape(x.shape)}


def _resized(x: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """An array of another shape with elements like those of `x`."""
    count = int(np.prod(shape))
    if x.size == 0:
        return np.zeros(shape, x.dtype)
    return x.reshape(-1)[rng.integers(0, x.size, count)].reshape(shape)
