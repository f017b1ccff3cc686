"""Random arithmetic over sizes: what the sizes determine costs next to nothing, and stays right for
all sizes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from infuse import dtypes, ops
from infuse.errors import InfuseError
from infuse.ir.dims import Expr, symbol
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import TensorType
from infuse.ops.core.evaluate import evaluate
from infuse.passes.run import optimize_in_place
from infuse.passes.selection import Selection
from infuse.passes.sizes import Places, SizeWriter
from infuse.rewrite import Patch

LONGEST = 12
SIZES = (
    {"batch": 2, "seq": 5},
    {"batch": 1, "seq": 1},
    {"batch": 3, "seq": 64},
    {"batch": 7, "seq": 12},
)


class Program:
    """A graph that computes lists of sizes step by step."""

    def __init__(self, rng: np.random.Generator, steps: int) -> None:
        self.rng = rng
        self.graph = Graph("program")
        self.patch = Patch(self.graph)
        batch, seq = symbol("batch"), symbol("seq")
        shapes = [(batch, seq, 8), (seq, 3), (batch, 2 * seq, seq + 1)]
        self.inputs = [
            self.graph.add_input(f"x{i}", TensorType(dtypes.float32, shape))
            for i, shape in enumerate(shapes)
        ]
        self.lists = [self.patch.value(ops.shape(x)) for x in self.inputs]
        self.numbers = [
            self.patch.value(ops.gather(self.lists[0], np.array(i), axis=0)) for i in range(2)
        ]
        while len(self.graph) < steps:
            self.step()

    def pick(self, values: list[Value]) -> Value:
        return values[int(self.rng.integers(len(values)))]

    def number(self) -> Any:
        return (
            self.pick(self.numbers)
            if self.rng.random() < 0.6
            else np.array(int(self.rng.integers(1, 5)))
        )

    def step(self) -> None:
        way = self.ways[int(self.rng.integers(len(self.ways)))]
        try:
            made = self.patch.value(way(self))
        except InfuseError:
            return
        if made.producer is not None and made.dtype == dtypes.int64:
            if made.rank == 0:
                self.numbers.append(made)
            elif made.rank == 1 and isinstance(made.shape[0], int) and 0 < made.shape[0] <= LONGEST:
                self.lists.append(made)

    ways: tuple[Callable[["Program"], Any], ...] = (
        lambda p: ops.shape(p.pick(p.inputs), start=int(p.rng.integers(-2, 2))),
        lambda p: ops.shape(p.pick(p.inputs), end=int(p.rng.integers(1, 3))),
        lambda p: ops.size(p.pick(p.inputs)),
        lambda p: ops.gather(p.pick(p.lists), np.array(int(p.rng.integers(-1, 2))), axis=0),
        lambda p: ops.gather(p.pick(p.lists), p.rng.integers(0, 2, 2), axis=0),
        lambda p: ops.slice(
            p.pick(p.lists), np.array([int(p.rng.integers(0, 2))]), np.array([9]), np.array([0])
        ),
        lambda p: ops.slice(
            p.pick(p.lists), np.array([-1]), np.array([-99]), np.array([0]), np.array([-1])
        ),
        lambda p: ops.concat(p.pick(p.lists), p.pick(p.lists), axis=0),
        lambda p: ops.concat(ops.unsqueeze(p.number(), np.array([0])), p.pick(p.lists), axis=0),
        lambda p: ops.unsqueeze(p.pick(p.numbers), np.array([0])),
        lambda p: ops.reshape(p.pick(p.numbers), np.array([1])),
        lambda p: ops.squeeze(
            ops.slice(p.pick(p.lists), np.array([0]), np.array([1])), np.array([0])
        ),
        lambda p: ops.add(p.number(), p.number()),
        lambda p: ops.sub(ops.mul(p.pick(p.numbers), 3), p.pick(p.numbers)),
        lambda p: ops.mul(p.number(), p.number()),
        lambda p: ops.div(p.number(), np.array(int(p.rng.integers(1, 5)))),
        lambda p: ops.mod(p.number(), np.array(int(p.rng.integers(1, 5)))),
        lambda p: ops.max(p.number(), p.number()),
        lambda p: ops.min(p.number(), p.number()),
        lambda p: ops.add(p.pick(p.lists), np.array([1])),
        lambda p: ops.reduce_prod(p.pick(p.lists), np.array([0]), keepdims=int(p.rng.integers(2))),
        lambda p: ops.reduce_sum(p.pick(p.lists), np.array([0]), keepdims=0),
        lambda p: ops.cast(ops.cast(p.pick(p.lists), to=dtypes.int32), to=dtypes.int64),
        lambda p: ops.where(
            ops.equal(p.pick(p.numbers), np.array(-1)), np.array(1), p.pick(p.numbers)
        ),
        lambda p: ops.where(np.array([True]), p.pick(p.lists), np.array([1])),
        lambda p: ops.expand(p.number(), np.array([2])),
        lambda p: ops.concat(
            *(ops.split(p.pick(p.lists), num_outputs=1)[0] for _ in range(2)), axis=0
        ),
        lambda p: ops.constant_of_shape(ops.shape(p.pick(p.lists)), value=np.array([1])),
        lambda p: ops.tile(p.pick(p.lists), np.array([2])),
        lambda p: ops.identity(p.pick(p.numbers)),
        lambda p: ops.transpose(p.pick(p.lists)),
        lambda p: ops.abs(p.pick(p.numbers)),
        lambda p: ops.neg(ops.neg(p.pick(p.numbers))),
        lambda p: ops.shape(ops.transpose(p.pick(p.inputs))),
        lambda p: ops.shape(ops.expand(np.float32(1), p.pick(p.lists))),
        lambda p: ops.cast(ops.equal(p.pick(p.numbers), p.pick(p.numbers)), to=dtypes.int64),
    )


def program(seed: int, outputs: int) -> Graph:
    made = Program(np.random.default_rng(seed), 16)
    for number, value in enumerate([*made.lists[3:], *made.numbers[2:]][-outputs:]):
        made.graph.add_output(value, f"y{number}")
    for number, node in enumerate(made.graph.nodes):
        node.name = f"n{number}"
    return made.graph


def feeds(graph: Graph, sizes: dict[str, int]) -> dict[str, Any]:
    found = {}
    for value in graph.inputs:
        shape = value.tensor.substitute(sizes).shape
        found[value.name] = np.zeros([int(d) for d in shape or ()], np.float32)
    return found


def is_needed(node: Node) -> bool:
    """Whether the elements of a node are more than numbers that are known."""
    content = node.output.content
    return content is None or any(isinstance(d, Expr) for d in content.reshape(-1))


def shortest(graph: Graph) -> int | None:
    """How many nodes write the only output from the sizes of the inputs; None where these do not
    determine it.
    """
    value = graph.outputs[0]
    if value.is_const or value.content is None or value.content.ndim > 1:
        return 0 if value.is_const else None
    writer = SizeWriter(Places(graph.inputs))
    return None if writer.value(value) is None else writer.count


@pytest.mark.row("G1", "G6")
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize(
    "seeds", [range(60), pytest.param(range(60, 3000), marks=pytest.mark.full)], ids=len
)
def test_sizes_are_computed_the_short_way(seeds: range, outputs: int) -> None:
    determined = 0
    for seed in seeds:
        graph = program(seed, outputs)
        try:
            before = [evaluate(graph, feeds(graph, sizes)) for sizes in SIZES]
        except InfuseError:  # an index that turns out to lie outside
            continue
        count = len(graph)
        optimize_in_place(graph, Selection("basic"))
        assert len(graph) <= count
        assert all(map(is_needed, graph.nodes)), seed
        for sizes, expected in zip(SIZES, before, strict=True):
            for name, array in evaluate(graph, feeds(graph, sizes)).items():
                assert array.tolist() == expected[name].tolist(), (seed, name, sizes)
        if outputs == 1 and (least := shortest(graph)) is not None:
            determined += 1
            assert len(graph) <= least, seed
    assert outputs > 1 or determined > len(seeds) // 3
