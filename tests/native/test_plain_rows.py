"""Kernels of plain C that make rows: of bytes, exactly the same on every processor."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.build.staged import generate
from infuse.ir.graph import Graph
from infuse.lowering.memory import ALIGN
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.runtime.foreign import ForeignModel
from infuse.targets import Target
from tests.native.bare_tools import run_source, sources
from tests.native.boards import boards, run_on_board
from tests.native.builder import Builder

pytestmark = pytest.mark.row("R6")
BYTES = {dtypes.int8: np.int8, dtypes.uint8: np.uint8}


def products() -> tuple[Graph, dict[str, Any]]:
    """Convolutions and products of bytes: both signs, zero points, groups, windows beyond images,
    depths that are no multiples of four, weights that need nine bits, and sums that wrap around.
    """
    rng, make = np.random.default_rng(7), Builder()
    feeds: dict[str, Any] = {}

    def some(shape: tuple[int, ...], dtype: Any) -> Any:
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)

    for number, (signed, weights) in enumerate(
        (a, b) for a in BYTES.values() for b in BYTES.values()
    ):
        name = f"x{number}"
        x = make.input(1, 6, 7, 5, name=name, dtype=dtypes.by_numpy(np.dtype(signed)))
        feeds[name] = some((1, 6, 7, 5), signed)
        zero, points = some((), signed), some((4,), weights)
        for groups, kernel, pads, steps in (
            (1, (3, 3), [1, 0, 2, 1], [2, 1]),
            (2, (1, 2), [0, 0, 0, 0], [1, 1]),
            (1, (1, 1), [0, 0, 0, 0], [1, 1]),
        ):
            w = some((4, 6 // groups, *kernel), weights)
            how = {"group": groups, "pads": pads, "strides": steps}
            make.output(make("ConvInteger", x, w, zero, points, **how))
        alone = make("ConvInteger", x, some((6, 1, 3, 3), weights), zero, group=6, pads=[1] * 4)
        make.output(make("Add", make("Mul", make("Cast", alone, to=dtypes.float32), 0.5), 3.0))
        rows = make("Reshape", x, np.array([6, 35]))
        make.output(make("MatMulInteger", rows, some((35, 3), weights), zero, some((3,), weights)))
    return make.graph, feeds


def test_integers_are_those_of_the_graph(tmp_path: Path) -> None:
    graph, feeds = products()
    expected = evaluate(graph, feeds)
    with compile_graph(graph, CompileOptions("c", threads=1)) as compiled:
        plain = compiled.run(feeds)
    bare = run_source(sources(graph, tmp_path, profile="bare"), feeds, "-fsanitize=undefined")
    for name, array in expected.items():
        np.testing.assert_array_equal(plain[name], array)
        np.testing.assert_array_equal(bare[name], array)


@boards()
def test_integers_are_the_same_on_a_board(target: str, tmp_path: Path) -> None:
    graph, feeds = products()
    model = compile_graph(graph, CompileOptions(target), output=tmp_path / "model")
    assert isinstance(model, ForeignModel)
    results = run_on_board(target, model, feeds, tmp_path)
    for name, array in evaluate(graph, feeds).items():
        np.testing.assert_array_equal(results[name], array)


def chain(*channels: int) -> Graph:
    """Pointwise convolutions, each over as many channels as the one before makes."""
    make, rng = Builder(), np.random.default_rng(3)
    y = make.input(1, channels[0], 8, 8, name="x")
    for inside, outside in itertools.pairwise(channels):
        w = rng.normal(size=(outside, inside, 1, 1)).astype(np.float32)
        y = make("Relu", make("Conv", y, w))
    make.output(make("GlobalAveragePool", y))
    return make.graph


@pytest.mark.parametrize("channels", [(4, 8, 16, 32), (4, 16, 16, 16), (4, 16, 8, 8, 32)])
def test_pointwise_results_lie_over_what_they_are_made_of(
    channels: tuple[int, ...], tmp_path: Path
) -> None:
    graph = chain(*channels)
    _, plan = generate(graph, Target.resolve("c"))
    largest = max(channels[1:]) * 64 * 4
    assert plan.offsets is not None
    assert plan.total <= plan.lower_bound + 2 * ALIGN
    pairs = [(b, b.trails) for b in plan.buffers if b.trails is not None]
    assert pairs
    place = {id(b): o for b, o in zip(plan.buffers, plan.offsets)}
    for large, small in pairs:
        assert isinstance(large.bytes, int)
        assert isinstance(small.bytes, int)
        start, end = place[id(large)], place[id(large)] + large.bytes
        over = place[id(small)] + small.bytes
        assert over >= end or over <= start
    if sorted(channels) == list(channels) and len(set(channels)) == len(channels):
        assert plan.total < largest + largest // 2
    x = np.random.default_rng(1).normal(size=(1, channels[0], 8, 8)).astype(np.float32)
    for name, expected in evaluate(graph, {"x": x}).items():
        actual = run_source(sources(graph, tmp_path, profile="bare"), {"x": x})[name]
        np.testing.assert_allclose(actual, expected, rtol=1e-4)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_pools_read_channels_side_by_side(kind: str, tmp_path: Path) -> None:
    make, rng = Builder(), np.random.default_rng(4)
    x = make.input(2, 3, 9, 8, name="x")
    y = make("Conv", x, rng.normal(size=(5, 3, 3, 3)).astype(np.float32), pads=[1] * 4)
    make.output(make(kind, y, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]))
    program, _ = generate(make.graph, Target.resolve("c"))
    assert [step.label for step in program.steps].count("reorder") <= 2  # the input, and the output
    values = rng.normal(size=(2, 3, 9, 8)).astype(np.float32)
    with compile_graph(make.graph, CompileOptions("c", threads=1)) as compiled:
        (actual,) = compiled.run({"x": values}).values()
    (expected,) = evaluate(make.graph, {"x": values}).values()
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_elementwise_results_lie_as_convolutions_read_them() -> None:
    make, rng = Builder(), np.random.default_rng(2)
    y = make("Mul", make.input(1, 3, 8, 8, name="x"), 2.0)
    for w in (rng.normal(size=(4, 3, 1, 1)), rng.normal(size=(2, 3, 3, 3))):
        make.output(make("Conv", y, w.astype(np.float32)))
    program, _ = generate(make.graph, Target.resolve("c"))
    assert [step.label for step in program.steps].count("reorder") <= 2  # the outputs
    assert program.steps[0].label != "reorder"
    assert program.steps[1].label != "reorder"
    x = rng.normal(size=(1, 3, 8, 8)).astype(np.float32)
    with compile_graph(make.graph, CompileOptions("c", threads=1)) as compiled:
        results = compiled.run({"x": x})
    for name, expected in evaluate(make.graph, {"x": x}).items():
        np.testing.assert_allclose(results[name], expected, rtol=1e-4, atol=1e-5)
