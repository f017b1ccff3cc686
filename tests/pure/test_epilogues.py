"""Elementwise work of lowered programs as data: what it loads, computes and stores, for processors
that this machine need not be.
"""

from collections.abc import Callable

import numpy as np
import pytest

from infuse import dtypes
from infuse.immutable import replace
from infuse.ir.graph import Graph
from infuse.lowering.elementwise import Applied, Elementwise, Place, RowStep, Store
from infuse.lowering.epilogue import Epilogue
from infuse.lowering.iteration_space import IterationSpace
from infuse.ops.core.formula import E, inputs
from infuse.targets import Target
from infuse.targets.cpu.emit.elementwise import work_lines
from tests.native.builder import Builder
from tests.support import kernel_calls, lowered
from tests.support.epilogues import EpilogueError, check_work
from tests.support.lowered import run_lowered

pytestmark = pytest.mark.row("R1")
TARGETS = ("x86-64", "x86-64-v3", "x86-64-v4", "aarch64")


def block() -> Graph:
    """A convolution with a bias, a residual of another layout and a scale by channel."""
    b = Builder("block")
    x, skip = b.input(2, 5, 7, 6, name="x"), b.input(2, 7, 6, 9, name="skip")
    y = b("Conv", x, b.weight(9, 5, 3, 3), b.weight(9), pads=(1, 1, 1, 1))
    y = b("Add", y, b("Transpose", skip, perm=(0, 3, 1, 2)))
    b.output(b("Mul", b("Relu", y), b.weight(9, 1, 1)))
    return b.graph


def product() -> Graph:
    b = Builder("product")
    x, row = b.input(3, 4, 5, name="x"), b.input(3, 1, 7, name="row")
    b.output(b("Add", b("MatMul", x, b.weight(5, 7)), row))
    return b.graph


def elementwise() -> Graph:
    """Operands that are repeated along the first, an inner, and the last axis."""
    b = Builder("elementwise")
    x, y, z = b.input(4, 1, 6, name="x"), b.input(3, 6, name="y"), b.input(4, 3, 1, name="z")
    b.output(b("Tanh", b("Mul", b("Add", x, y), z)))
    return b.graph


def divided() -> Graph:
    b = Builder("divided")
    x = b.input(4, 6, dtype=dtypes.int64, name="x")
    y = b.input(6, dtype=dtypes.int64, name="y")
    b.output(b("Div", x, y))
    return b.graph


def run(graph: Graph, target: str) -> int:
    """How many pieces of elementwise work were looked at."""
    rng = np.random.default_rng(1)
    feeds = {
        v.name: rng.integers(1, 9, [int(str(n)) for n in v.shape]).astype(v.dtype.numpy)
        for v in graph.inputs
    }
    count = 0

    def counted(*arguments: object) -> None:
        nonlocal count
        count += 1
        check_work(*arguments)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        for module in (kernel_calls, lowered):
            patch.setattr(module, "check_work", counted)
        run_lowered(graph, Target.resolve(target), feeds)
    return count


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("graph", [block, product, elementwise, divided])
def test_it_loads_computes_and_stores_what_its_nodes_mean(
    graph: Callable[[], Graph], target: str
) -> None:
    assert run(graph(), target) == 1


def test_it_prints_as_definitions() -> None:
    acc, other = inputs(dtypes.float32, dtypes.float32)
    place = Place("p0", (RowStep(6, None, "n1"), RowStep(2, 3, "1")), "", dtypes.float32)
    target = Place("p2", (), "1", dtypes.float32)
    sum_or_zero = Applied(E.max(acc + other, 0.0), {0: "acc", 1: 0})
    work = Elementwise((place, sum_or_zero), (Store(1, target),))
    lines = work_lines(work)
    assert lines == [
        "const auto t0 = splat<L>(load(p0 + (row / 6L) * n1 + ((row / 2L) % 3L), One{}));",
        "const auto t1 = acc + t0;",
        "const auto t2 = infuse::max(t1, splat<L>(0.0f));",
        "store(p2 + 0L + col, t2, lanes);",
    ]
    assert work_lines(replace(work, result="acc")) == [*lines, "return acc;"]


def test_integers_that_may_be_divided_by_zero_are_told() -> None:
    x, y = inputs(dtypes.int32, dtypes.int32)
    assert Elementwise((Applied(x / y + 1, {0: "a", 1: "b"}),)).divides
    assert not Elementwise((Applied(x / 2, {0: "a"}),)).divides


# -- what is wrong is seen -------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [block, product, elementwise])
def test_rows_that_go_elsewhere_are_seen(
    monkeypatch: pytest.MonkeyPatch, graph: Callable[[], Graph]
) -> None:
    steps = IterationSpace.row_steps

    def longer(space: IterationSpace, tensor: object) -> object:
        return [(below, size, stride * 2) for below, size, stride in steps(space, tensor)]

    monkeypatch.setattr(IterationSpace, "row_steps", longer)
    with pytest.raises(EpilogueError):
        run(graph(), TARGETS[1])


@pytest.mark.parametrize("graph", [block, elementwise])
def test_operands_that_are_exchanged_are_seen(
    monkeypatch: pytest.MonkeyPatch, graph: Callable[[], Graph]
) -> None:
    load = Epilogue.load
    monkeypatch.setattr(Epilogue, "load", lambda body, tensor: load(body, tensor) and 0)
    with pytest.raises(EpilogueError, match="something else"):
        run(graph(), TARGETS[1])


def test_a_bias_that_is_left_out_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Epilogue, "apply", lambda body, term, start, *others: start)
    with pytest.raises(EpilogueError, match="something else"):
        run(block(), TARGETS[1])
