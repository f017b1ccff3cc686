"""Graphs that grow node by node: what types do not accept, or what does not run at every size, is
taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import InfuseError
from infuse.immutable import replace
from infuse.ir import dims
from infuse.ir.expression import Call
from infuse.ir.graph import Array, Graph, Node, Value, constant
from infuse.ir.operator import Operator
from infuse.ir.registry import make_operator
from infuse.ir.types import TensorType
from infuse.ops.core.evaluate import evaluate_node
from infuse.ops.core.samples import Floats, Ints
from infuse.rewrite.patch import Patch
from infuse.testing.running import run_graph
from infuse.testing.samples import draw

LOUDEST = 1e4
"""Magnitude of floats, mostly."""
SYMBOLS = ("n", "m")
SPECIALS = (0.0, 1.0, -1.0, 2.0, 0.5, 6.0, -0.0)
EXTREMES = (np.nan, np.inf, -np.inf, -0.0, 1e-40, 3e38)

Sizes = Mapping[str, int]


def _of_type(array: Array, dtype: DType) -> Array:
    """Numbers as elements of a type; texts are those of the numbers."""
    if dtype == dtypes.string:
        return np.asarray([str(x) for x in array.flat], object).reshape(array.shape)
    return array.astype(dtype.numpy)


@dataclass(frozen=True)
class Scale:
    """Sizes of axes, and how many elements a value may have."""

    sizes: Sequence[int] = (1, 2, 3, 4)
    largest: int = 2048


class Misfit(Exception):
    """What was tried does not fit the values that there are."""


class NetworkBuilder:
    """A graph with its values and, for each assignment of sizes to symbols, the arrays that they
    hold there.

    `outer` is the growth of the graph around a body. All choices are drawn from `rng`.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        graph: Graph,
        sizes: Sequence[Sizes],
        dtype: DType,
        outer: NetworkBuilder | None = None,
        scale: Scale | None = None,
    ) -> None:
        self.rng, self.graph, self.sizes, self.dtype, self.outer = rng, graph, sizes, dtype, outer
        self.scale: Scale = scale or (outer.scale if outer else Scale())
        self.patch = Patch(graph)
        self.values: list[Value] = []
        self.arrays: dict[Value, list[Any]] = {}
        self.bodies: list[Graph] = []
        self.symbolic = bool(sizes[0])
        self.extreme = False

    # -- choices -----------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def one(self, choices: Sequence[Any]) -> Any:
        """One of these; Misfit where there are none."""
        if not len(choices):
            raise Misfit("there is nothing to choose from")
        return choices[int(self.rng.integers(len(choices)))]

    def number(self, low: int, high: int) -> int:
        """An integer from low to high, both possible."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, fits: Callable[[Value], object] = lambda v: True) -> Value:
        """A value of the graph or the graphs around it that fits, rather a late one."""
        candidates = [v for v in self.visible() if isinstance(v.type, TensorType) and fits(v)]
        if candidates and self.chance(0.7):
            candidates = candidates[-5:]
        value: Value = self.one(candidates)
        return value

    def pick_float(self, least_rank: int = 0) -> Value:
        return self.pick(lambda v: v.dtype.is_float and v.rank >= least_rank)

    def visible(self) -> list[Value]:
        """All values that a node here may read."""
        return [*(self.outer.visible() if self.outer else ()), *self.values]

    def axis(self, x: Value, extra: int = 0) -> int:
        """An axis of x, counted from the front or from the end."""
        rank = x.rank + extra
        if not rank:
            raise Misfit("a scalar has no axes")
        return self.number(-rank, rank - 1)

    def held(self, value: Value) -> list[Any]:
        """The arrays of a value, one for each assignment of sizes."""
        if value.const is not None:
            return [value.const] * len(self.sizes)
        here = self.arrays.get(value)
        if here is None and self.outer is not None:
            return self.outer.held(value)
        assert here is not None
        return here

    # -- sources -----------------------------------------------------------------------------------

    def root(self) -> NetworkBuilder:
        return self if self.outer is None else self.outer.root()

    def input(self, type: TensorType, spec: Any = None) -> Value:
        """A new input of the outermost graph; its elements are like `spec`, else moderate."""
        root = self.root()
        arrays = []
        for sizes in root.sizes:
            shape = tuple(dims.evaluate(d, sizes) for d in type.shape or ())
            arrays.append(self.elements(shape, type.dtype, spec))
        value = root.graph.add_input(f"x{len(root.graph.inputs)}", type)
        root.arrays[value] = arrays
        root.values.append(value)
        return value

    def elements(self, shape: tuple[int, ...], dtype: DType, spec: Any = None) -> Array:
        """Random elements; floats lie mostly away from zero, so that quotients stay small."""
        if isinstance(spec, (Ints, Floats)):
            return np.asarray(draw(replace(spec, shape=shape, dtype=dtype), self.rng))
        if dtype.is_bool:
            return np.asarray(self.rng.random(shape) < 0.5)
        if dtype.is_integer:
            return np.asarray(self.rng.integers(0 if dtype.kind == "u" else -4, 8, shape)).astype(
                dtype.numpy
            )
        array = _of_type(
            np.asarray(self.rng.uniform(0.5, 1.5, shape) * self.rng.choice([-1, 1], shape)), dtype
        )
        root = self.root()
        if root.extreme and array.size:
            with np.errstate(all="ignore"):
                places = self.rng.integers(array.size, size=2)
                extremes = np.array(self.rng.choice(EXTREMES, 2))
                array.reshape(-1)[places] = _of_type(extremes, dtype)
        return array

    def constant(self, shape: tuple[int, ...], dtype: DType) -> Value:
        """A constant, often of one special number."""
        if self.chance(0.5):
            return self.full(shape, self.one(SPECIALS), dtype)
        return constant(self.elements(shape, dtype), "", dtype)

    def full(self, shape: tuple[int, ...], number: float, dtype: DType) -> Value:
        with np.errstate(all="ignore"):
            return constant(_of_type(np.full(shape, number), dtype), "", dtype)

    def shape(self, least: int = 0, most: int = 5) -> tuple[dims.Dim, ...]:
        """A random shape, some of its sizes symbols."""
        rank = min(self.number(least, most), self.number(least, most))
        sizes: list[dims.Dim] = [self.one(self.scale.sizes) for _ in range(rank)]
        for axis in range(rank):
            if self.symbolic and self.chance(0.5 if axis == 0 else 0.15):
                sizes[axis] = dims.symbol(self.one(SYMBOLS))
            elif self.chance(0.02):
                sizes[axis] = 0
        return tuple(sizes)

    # -- nodes -------------------------------------------------------------------------------------

    def add(self, op: Operator, inputs: Sequence[Value | None], outputs: int = 1) -> list[Value]:
        """The outputs of a new node; InfuseError or Misfit where the operands do not suit it at
        every size.
        """
        node = self.patch.add(op, list(inputs), outputs)
        self.admit(node)
        return node.outputs

    def make(self, expression: Any) -> Value:
        """The value of an expression of calls."""
        if not isinstance(expression, Call):
            return self.patch.value(expression)
        before = len(self.patch.created)
        value = self.patch.value(expression)
        for node in self.patch.created[before:]:
            self.admit(node)
        return value

    def call(self, kind: str, *args: Any, **attributes: Any) -> Value:
        """One operator on values, numbers and lists of integers."""
        return self.make(Call(kind, args, attributes))

    def several(self, count: int, kind: str, *args: Any, **attributes: Any) -> list[Value]:
        """All outputs of one operator with `count` of them."""
        inputs = [a if a is None else self.patch.value(a) for a in args]
        return self.add(make_operator("", kind, attributes), inputs, count)

    def admit(self, node: Node) -> None:
        """Run a new node at every size, and hold what inference says of it against the results."""
        for value in node.outputs:
            for sizes in self.root().sizes:
                size = (
                    dims.substitute(value.type.size or 0, sizes)
                    if isinstance(value.type, TensorType)
                    else 0
                )
                if isinstance(size, int) and size > self.scale.largest:
                    raise Misfit("it is large")
        rows = []
        for run in range(len(self.sizes)):
            arrays = [None if v is None else self.held(v)[run] for v in node.inputs]
            rows.append(evaluate_node(node, arrays, partial(self.run_body, run)))
        for index, value in enumerate(node.outputs):
            column = [row[index] for row in rows]
            if isinstance(value.type, TensorType):
                for sizes, array in zip(self.root().sizes, column):
                    self._bound(np.asarray(array))
                    if self.outer is None:
                        check_type(value, array, sizes)
            self.arrays[value] = column
            self.values.append(value)

    def _bound(self, array: Array) -> None:
        if array.size > self.scale.largest or array.ndim > 6:
            raise Misfit("it is large")
        if array.dtype.kind in "OUS" or not array.size or not dtypes.by_numpy(array.dtype).is_float:
            return
        if (
            not self.root().extreme
            and not np.all(np.abs(array.astype(np.float64)) < LOUDEST)
            and self.chance(0.97)
        ):
            raise Misfit("it is loud")

    def run_body(self, run: int, body: Graph, arguments: Sequence[Any]) -> list[Any]:
        """The outputs of a body whose captured values hold what they hold in this run."""
        return run_graph(body, arguments, lambda v: self.held(v)[run])

    # -- steps -------------------------------------------------------------------------------------

    def step(self, way: Callable[[NetworkBuilder], Any]) -> bool:
        """Add what `way` makes, or nothing where it does not fit; whether it did."""
        root = self.root()
        nodes, inputs, visible = len(self.patch.created), len(root.graph.inputs), len(self.values)
        bodies = len(self.bodies)
        try:
            way(self)
        except (InfuseError, Misfit, MemoryError):
            for body in self.bodies[bodies:]:
                body.clear()
            for node in reversed(self.patch.created[nodes:]):
                if node.graph is not None:
                    self.graph.remove(node)
            del self.patch.created[nodes:]
            self._forget(visible)
            if root is self:
                del self.graph.inputs[inputs:]
            return False
        return True

    def _forget(self, visible: int) -> None:
        for value in self.values[visible:]:
            del self.arrays[value]
        del self.values[visible:]


def check_type(value: Value, array: Any, sizes: Sizes) -> None:
    """AssertionError unless an array is what the type and the content of `value` say at these
    sizes.
    """
    type = value.tensor
    what = (
        f"{value.producer} gives {array.dtype}{list(array.shape)} where {type} is inferred, "
        f"{dict(sizes)}"
    )
    assert dtypes.by_numpy(array.dtype) == type.dtype, what
    if type.shape is not None:
        assert len(type.shape) == array.ndim, what
        for dim, size in zip(type.shape, array.shape):
            expected = dims.substitute(dim, sizes)
            if isinstance(expected, int) and expected != size:
                if array.size == 0:
                    raise Misfit("nothing is left, of which inference does not know")
                if (
                    expected == 0
                    and value.producer is not None
                    and value.producer.kind == "Reshape"
                ):
                    raise Misfit("a size turns out to be the zero that stands for another one")
                raise AssertionError(what)
    if value.content is not None:
        for declared, element in zip(value.content.reshape(-1), array.reshape(-1)):
            expected = dims.substitute(declared, sizes)
            assert isinstance(expected, dims.Expr) or int(expected) == int(element), (
                f"{what}: content {value.content}"
            )
