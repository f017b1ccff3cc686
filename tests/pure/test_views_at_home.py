"""Results that are written where a view of them is wanted: in the memory of an output, in a part of
a concatenation.
"""

import numpy as np
import pytest

from infuse import optimize
from infuse.build.staged import generate
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from infuse.targets import Target
from tests.channels_last import LAST, TAILS, network
from tests.decoders import drawn
from tests.native.builder import Builder
from tests.pure.kernel_runs import TARGETS, run

pytestmark = pytest.mark.row("R1")
SIZES = [(1, 6, 4), ("n", 6, 4), ("n", "h", "w")]


def copied(graph: Graph) -> list[str]:
    """The copies of a program."""
    program, _ = generate(optimize(graph), Target.resolve("x86-64-v3"))
    return [step.label for step in program.steps if "copy" in step.function.name]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("tail", TAILS)
def test_what_a_kernel_makes_is_not_copied_to_the_output(
    tail: str, sizes: tuple[int | str]
) -> None:
    assert copied(network(tail, *sizes)) == []


def agree(graph: Graph, target: str, **sizes: int) -> None:
    """A graph gives what the interpreter gives."""
    feeds = {v.name: drawn(v, **sizes) for v in graph.inputs}
    outputs = run(optimize(graph), target, "fp32", feeds=feeds).outputs
    for name, expected in evaluate(graph, feeds).items():
        # Sums of up to 144 products of numbers below 10.
        np.testing.assert_allclose(outputs[name], expected, rtol=1e-4, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("target", TARGETS)
def test_results_lie_where_they_are_wanted(target: str, tail: str) -> None:
    agree(network(tail, 2, 6, 4), target)
    if target == "x86-64-v3":
        agree(network(tail, "n", "h", "w"), target, n=2, h=5, w=3)


def test_of_two_outputs_the_one_is_written_and_the_other_copied() -> None:
    graph = network("nothing", 2, 6, 4, copies=2)
    assert copied(graph) == ["output"]
    agree(graph, "x86-64-v3")


def test_a_view_of_an_output_is_an_output_of_its_own() -> None:
    """The first is written in its own order, and the second lies in the memory of the first."""
    b = Builder()
    y = b("Relu", b.input(2, 3, 4, 5, name="x"))
    b.output(y, b("Transpose", y, perm=LAST), b("Reshape", y, [6, 20]), y)
    assert copied(b.graph) == ["output"] * 3
    agree(b.graph, "x86-64-v3")


def test_what_others_read_may_lie_in_the_memory_of_an_output() -> None:
    b = Builder()
    y = b("Exp", b.input("n", 3, 4, name="x"))
    b.output(b("Reshape", y, [-1, 12]), b("ReduceSum", y, [1, 2]), b("Tanh", y))
    assert copied(b.graph) == []
    agree(b.graph, "x86-64-v3", n=3)


def test_sizes_that_the_run_finds_out_are_not_written_before_they_are_known() -> None:
    b = Builder()
    x = b.input("n", 6, name="x")
    y = b("Exp", x)
    shape = b("Cast", b("ReduceMax", b("Abs", x), keepdims=0), to=7)
    width = b("Add", b("Mul", shape, np.int64(0)), np.int64(2))
    b.output(b("Reshape", y, b("Concat", np.array([-1]), b("Unsqueeze", width, [0]), axis=0)))
    agree(b.graph, "x86-64-v3", n=2)


def test_a_part_that_is_read_twice_has_a_place_of_its_own() -> None:
    b = Builder()
    y = b("Exp", b.input(2, 3, 4, name="x"))
    turned = b("Transpose", y, perm=(0, 2, 1))
    b.output(
        b("Concat", turned, turned, axis=1),
        b("Concat", b("Reshape", y, [2, 12]), b.input(2, 1, name="z"), axis=1),
    )
    agree(b.graph, "x86-64-v3")


def test_elements_that_lie_apart_are_copied_to_their_places() -> None:
    """Kernels store vectors, so they cannot write every second element."""
    b = Builder()
    x = b.input(3, 20, name="x")
    even, odd = (b("Reshape", b(kind, x), [3, 20, 1]) for kind in ("Exp", "Tanh"))
    b.output(b("Concat", even, odd, axis=-1))
    assert copied(b.graph) == ["concat", "concat"]
    agree(b.graph, "x86-64-v3")
