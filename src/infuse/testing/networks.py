"""Random networks of standard operators, to hold whole optimizations to their meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import InfuseError
from infuse.ir.dims import symbol
from infuse.ir.expression import Call
from infuse.ir.graph import Array, Graph, Value, constant
from infuse.ir.types import TensorType
from infuse.ops.evaluate import evaluate
from infuse.rewrite.patch import Patch

UNARY = ("Relu", "Neg", "Sigmoid", "Tanh", "Abs", "Identity", "Exp", "Softplus", "Erf", "Reciprocal", "Dropout")
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")
REDUCE = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
SIZES = (1, 2, 3, 4)
LARGEST = 512
BATCH = 3
"""The size that `feeds` gives the symbolic first axis."""


def random_network(rng: np.random.Generator, nodes: int, symbolic: bool = False) -> Graph:
    """A graph of about that many nodes, one to three inputs, and what nobody reads as outputs; it runs on `feeds`.

    With `symbolic` the first axis of the inputs is the symbol n.
    """
    while True:
        graph = _grow(rng, nodes, symbolic)
        try:
            evaluate(graph, feeds(graph, rng))
        except InfuseError:  # sizes that are symbols turn out not to fit
            continue
        return graph


def _grow(rng: np.random.Generator, nodes: int, symbolic: bool) -> Graph:
    graph = Graph("random")
    patch = Patch(graph)
    grown = _Growth(rng, patch)
    for number in range(int(rng.integers(1, 4))):
        shape: list[Any] = [int(d) for d in rng.choice(SIZES, int(rng.integers(1, 5)))]
        if symbolic:
            shape[0] = symbol("n")
        grown.values.append(graph.add_input(f"x{number}", TensorType(dtypes.float32, tuple(shape))))
    for _ in range(8 * nodes):
        if len(graph) >= nodes:
            break
        grown.step()
    made = [v for v in grown.values if v.producer is not None] or grown.values
    unread = [v for v in made if not v.uses] or made[-1:]
    for number, value in enumerate(unread):
        graph.add_output(value, f"y{number}")
    for number, node in enumerate(graph.nodes):
        node.name = f"n{number}"
        node.origin = (node.name,)
        for index, value in enumerate(node.outputs):
            value.name = f"{node.name}.{index}"
    return graph


def feeds(graph: Graph, rng: np.random.Generator) -> dict[str, Array]:
    """Random inputs away from zero, so that quotients stay small."""
    return {v.name: _numbers(rng, [d if isinstance(d, int) else BATCH for d in v.shape]) for v in graph.inputs}


def _numbers(rng: np.random.Generator, shape: Any) -> Array:
    return np.asarray(rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape)).astype(np.float32)


class _Growth:
    """A network that grows node by node."""

    def __init__(self, rng: np.random.Generator, patch: Patch) -> None:
        self.rng = rng
        self.patch = patch
        self.values: list[Value] = []
        self.ways: tuple[Callable[[Value], Any], ...] = (
            *(self._unary, self._binary, self._binary, self._with_constant, self._with_constant, self._reshape),
            *(self._transpose, self._transpose, self._axes, self._slice, self._concat, self._split, self._matmul),
            *(self._reduce, self._softmax, self._limits, self._where, self._expand, self._cast, self._normalize),
        )

    def step(self) -> None:
        """Add what one of the ways makes of a value, if the operators accept it."""
        recent = self.values[-6:] if self.rng.random() < 0.8 else self.values
        way = self.ways[int(self.rng.integers(len(self.ways)))]
        before = len(self.patch.created)
        try:
            results = way(recent[int(self.rng.integers(len(recent)))])
            made = [self.patch.value(r) for r in (results if isinstance(results, tuple) else (results,))]
        except InfuseError:
            made = []
        fits = [v for v in made if v.dtype == dtypes.float32 and self._size(v) <= LARGEST]
        if len(fits) == len(made) and made:
            self.values += made
        else:
            for node in reversed(self.patch.created[before:]):
                self.patch.graph.remove(node)
            del self.patch.created[before:]

    def _size(self, value: Value) -> int:
        return int(np.prod([d if isinstance(d, int) else BATCH for d in value.shape]))

    def _one_of(self, kinds: tuple[str, ...]) -> str:
        return kinds[int(self.rng.integers(len(kinds)))]

    def _axis(self, x: Value) -> int:
        return int(self.rng.integers(x.rank)) if x.rank else 0

    def _int(self, *numbers: int) -> Array:
        return np.array(numbers, dtype=np.int64)

    # -- ways --------------------------------------------------------------------------------------------------------

    def _unary(self, x: Value) -> Call:
        return Call(self._one_of(UNARY), (x,))

    def _binary(self, x: Value) -> Call:
        return Call(self._one_of(BINARY), (x, self.values[int(self.rng.integers(len(self.values)))]))

    def _with_constant(self, x: Value) -> Call:
        shape = [d if isinstance(d, int) and self.rng.random() < 0.5 else 1 for d in x.shape]
        shape = shape[int(self.rng.integers(len(shape) + 1)) :]
        special = self.rng.choice([0.0, 1.0, 2.0, 0.5, -1.0])
        number = np.full(shape, special, np.float32) if self.rng.random() < 0.4 else _numbers(self.rng, shape)
        pair = (x, constant(number))
        kind = self._one_of((*BINARY, "Pow"))
        return Call(kind, pair[::-1] if kind != "Pow" and self.rng.random() < 0.3 else pair)

    def _reshape(self, x: Value) -> Call:
        sizes = [d if isinstance(d, int) else 0 for d in x.shape]
        fixed = sizes[1:] if x.rank and sizes[0] == 0 else sizes
        total = max(int(np.prod(fixed)), 1)
        divisors = [n for n in range(1, total + 1) if total % n == 0]
        part = int(self.rng.choice(divisors))
        tail = [part, total // part]
        return Call("Reshape", (x, self._int(*([0] if len(fixed) < len(sizes) else []), *tail)))

    def _transpose(self, x: Value) -> Call:
        return Call("Transpose", (x,), {"perm": tuple(int(i) for i in self.rng.permutation(x.rank))})

    def _axes(self, x: Value) -> Call:
        ones = [i for i, d in enumerate(x.shape) if d == 1]
        if ones and self.rng.random() < 0.5:
            return Call("Squeeze", (x, self._int(int(self.rng.choice(ones)))))
        return Call("Unsqueeze", (x, self._int(int(self.rng.integers(x.rank + 1)))))

    def _slice(self, x: Value) -> Call:
        axis = self._axis(x)
        start, end = sorted(int(n) for n in self.rng.integers(-4, 5, 2))
        step = int(self.rng.choice([1, 1, 2]))
        return Call("Slice", (x, self._int(start), self._int(end), self._int(axis), self._int(step)))

    def _concat(self, x: Value) -> Call:
        return Call("Concat", (x, self.values[int(self.rng.integers(len(self.values)))]), {"axis": self._axis(x)})

    def _split(self, x: Value) -> tuple[Call, ...]:
        halves = Call("Split", (x,), {"axis": self._axis(x), "num_outputs": 2})
        return halves, halves[1]

    def _matmul(self, x: Value) -> Call:
        depth = x.shape[-1] if x.rank else 0
        return Call("MatMul", (x, _numbers(self.rng, (depth, int(self.rng.choice(SIZES))))))

    def _reduce(self, x: Value) -> Call:
        return Call(self._one_of(REDUCE), (x, self._int(self._axis(x))), {"keepdims": int(self.rng.integers(2))})

    def _softmax(self, x: Value) -> Call:
        return Call("Softmax", (x,), {"axis": self._axis(x)})

    def _limits(self, x: Value) -> Call:
        low, high = sorted(float(n) for n in self.rng.choice([-1.0, 0.0, 0.5, 6.0], 2))
        return Call("Clip", (x, low if self.rng.random() < 0.7 else None, high if self.rng.random() < 0.7 else None))

    def _where(self, x: Value) -> Call:
        y = self.values[int(self.rng.integers(len(self.values)))]
        condition = Call("Greater", (x, 0.0))
        return Call("Where", (Call("Not", (condition,)) if self.rng.random() < 0.5 else condition, x, y))

    def _expand(self, x: Value) -> Call:
        shape = [int(self.rng.choice(SIZES)) if d == 1 else 1 for d in x.shape]
        return Call("Expand", (x, self._int(*shape)))

    def _cast(self, x: Value) -> Call:
        return Call("Cast", (Call("Cast", (x,), {"to": dtypes.float64}),), {"to": dtypes.float32})

    def _normalize(self, x: Value) -> Call:
        size = x.shape[-1] if x.rank else 0
        return Call("LayerNormalization", (x, _numbers(self.rng, (size,))), {"axis": -1, "epsilon": 1e-2})
