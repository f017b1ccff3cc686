"""The largest and smallest of many, with ties, NaN and infinities, and running sums along every
axis.
"""

from typing import Any

import numpy as np
import pytest

from infuse import dtypes, ops
from infuse.build.compile import compile_graph
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.types import TensorType
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from tests.native.kernel_tools import targets

SHAPES = (
    ((3, 517), 1, 5),
    ((2, 300, 3), 1, 7),
    ((1000,), 0, 1),
    ((5, 64), 1, 64),
    ((4, 130), 1, 33),
    ((2, 0), 1, 0),
)
TYPES = (np.float32, np.float64, np.int64, np.int32)


def odd(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    """Numbers of which many are equal, and of floats some are none or infinite."""
    x = rng.integers(-20, 20, shape).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        chance = rng.random(shape)
        x[chance < 0.02] = np.nan
        x[(chance > 0.02) & (chance < 0.04)] = np.inf
        x[chance > 0.97] = -np.inf
        x[(chance > 0.5) & (chance < 0.6)] += 0.25
    return x


def add(graph: Graph, feeds: dict[str, Any], op: Any, x: Any, parameter: Any, outputs: int) -> None:
    name = f"x{len(feeds)}"
    value = graph.add_input(name, TensorType(dtypes.by_numpy(x.dtype), x.shape))
    feeds[name] = x
    results = [Value(TensorType(dtypes.float32, None)) for _ in range(outputs)]
    node = graph.add_node(Node(op, [value, constant(parameter)], results))
    node.op.infer_node(node)
    for i, result in enumerate(node.outputs):
        graph.add_output(result, f"{name}_{i}")


@pytest.mark.parametrize("target", targets())
def test_the_first_of_many_in_order(target: str, rng: np.random.Generator) -> None:
    graph, feeds = Graph("first"), dict[str, Any]()
    for dtype in TYPES:
        for shape, axis, k in SHAPES:
            for largest in (0, 1):
                op = ops.REGISTRY["", "TopK"](axis=axis, largest=largest)
                add(graph, feeds, op, odd(rng, shape, dtype), np.array([k]), 2)
    wanted = evaluate(graph, feeds)
    with compile_graph(graph, CompileOptions(target=target)) as model:
        found = model.run(feeds)
    for name, result in wanted.items():
        np.testing.assert_array_equal(found[name], result, err_msg=name)


@pytest.mark.parametrize("target", targets())
def test_running_sums_along_every_axis(target: str, rng: np.random.Generator) -> None:
    graph, feeds = Graph("running"), dict[str, Any]()
    for shape in (
        (17, 33),
        (9, 1),
        (5, 7, 16),
        (2, 3, 48),
        (3, 5, 1030),
        (1, 4, 64),
        (0, 3),
        (3, 0),
    ):
        for axis in range(len(shape)):
            for exclusive, reverse in ((0, 0), (1, 1)):
                op = ops.REGISTRY["", "CumSum"](exclusive=exclusive, reverse=reverse)
                x = rng.integers(-99, 99, shape).astype(rng.choice(["float32", "float64", "int32"]))
                add(graph, feeds, op, x, np.array(axis), 1)
    wanted = evaluate(graph, feeds)
    with compile_graph(graph, CompileOptions(target=target, threads=2)) as model:
        found = model.run(feeds)
    for name, result in wanted.items():
        np.testing.assert_array_equal(found[name], result, err_msg=name)
