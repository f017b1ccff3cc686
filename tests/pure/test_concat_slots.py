"""Parts of joined values are written where they are read and joined: no copies, and less memory."""

import numpy as np
import pytest

from infuse import optimize
from infuse.build.staged import generate
from infuse.lowering import lowering
from infuse.ops.core.evaluate import evaluate
from infuse.targets import Target
from tests.native.builder import Builder
from tests.native.concat_models import MODELS, Joined, chain, copies
from tests.pure.kernel_runs import TARGETS
from tests.support.lowered import run_lowered

pytestmark = pytest.mark.row("R1")
named = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


@named
@pytest.mark.parametrize("level", ["none", "all"])
def test_parts_are_copied_only_where_they_must_be(model: Joined, level: str) -> None:
    for sizes in ((1, 10), ("n", 10), (3, "side")):
        graph = optimize(model.make(*sizes).graph, level)
        for target in TARGETS:
            assert copies(graph, target) == model.copies, (sizes, target)


@named
def test_they_were_copied_where_kernels_read_no_parts(
    model: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lowering.Lowering, "_reads_parts", lambda low, node, axis: False)
    assert copies(model.make(1, 10).graph, TARGETS[1]) == model.apart


@named
def test_every_part_lies_where_it_is_read(model: Joined) -> None:
    for batch, target in zip((1, 3, 2, 3, 1), TARGETS):
        b = model.make(batch, 10)
        feeds = b.feeds(low=-9, high=9)
        run = run_lowered(b.graph, Target.resolve(target), feeds, threads=2)
        for name, expected in evaluate(b.graph, feeds).items():
            bound = 2e-3 if expected.dtype == np.float16 else 1e-4
            np.testing.assert_allclose(run.outputs[name], expected, bound, bound)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_rounded_kernels_read_parts(precision: str) -> None:
    b = chain(2, 10)
    run_lowered(b.graph, Target.resolve(TARGETS[2]), b.feeds(), precision=precision)
    program, _ = generate(b.graph, Target.resolve(TARGETS[2]), precision=precision)
    assert not [step for step in program.steps if step.label in ("concat", "reorder")][1:]


@pytest.mark.parametrize("target", TARGETS)
def test_what_only_leaves_the_graph_is_joined_as_it_leaves(target: str) -> None:
    """Parts that lie otherwise are turned one by one, not all of the result once more."""
    b = Builder()
    planes = b("Relu", b.input(2, 50, 8, 6, name="x"))
    rows = b("Reshape", b("Transpose", planes, perm=(0, 2, 3, 1)), np.array([2, -1, 50]))
    b.output(b("Concat", rows, b.input(2, 35, 50, name="y"), axis=1))
    program, _ = generate(b.graph, Target.resolve(target))
    labels = [step.label for step in program.steps]
    assert labels.count("concat") == 2
    assert "output" not in labels
    feeds = b.feeds()
    run = run_lowered(b.graph, Target.resolve(target), feeds, threads=1)
    for name, expected in evaluate(b.graph, feeds).items():
        np.testing.assert_array_equal(run.outputs[name], expected)


def test_a_chain_needs_the_memory_of_its_last_result() -> None:
    def arena() -> int:
        return generate(chain(1, 40).graph, Target.resolve("x86-64-v3"))[1].total

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lowering.Lowering, "_reads_parts", lambda low, node, axis: False)
        apart = arena()
    image = 40 * 40 * 4
    assert arena() == image * (16 + 3 * 8)
    assert apart >= image * (32 + 40)


def test_a_long_chain_is_placed_without_recursion() -> None:
    b = Builder()
    first = x = b("Tanh", b.input(1, 4, name="x"))
    for _ in range(1500):
        x = b("Concat", x, b("Relu", first), axis=1)
    b.output(x)
    program, _ = generate(b.graph, Target.resolve("x86-64-v3"))
    assert not [step for step in program.steps if step.label == "concat"]


def test_a_long_chain_is_lowered_without_recursion() -> None:
    b = Builder("chain")
    x = value = b("Relu", b.input(1, 4))
    for _ in range(700):
        value = b("Concat", value, b("Tanh", x), axis=1)
    b.output(value)
    program, _ = generate(b.graph, Target.resolve("x86-64-v3"))
    assert not [step for step in program.steps if step.label in ("concat", "reorder")]
