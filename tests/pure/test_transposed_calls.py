"""Transposed convolutions as kernel calls that write their pixels to their places: which calls
there are, and what they leave, for processors that this machine need not be.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from infuse.build.staged import generate
from infuse.lowering import memory
from infuse.lowering.program import Program, Step
from infuse.lowering.tensors import Tensor
from infuse.ops.core.evaluate import evaluate
from infuse.targets import Target
from tests.decoders import CASES, drawn, network, sizes_of
from tests.pure.kernel_runs import TARGETS, run
from tests.support import lowered
from tests.support.epilogues import EpilogueError

pytestmark = pytest.mark.row("R1")


def copies(program: Program) -> list[str]:
    """The copies of a program, but for those of its outputs."""
    return [s.label for s in program.steps if "copy" in s.function.name and s.label != "output"]


@pytest.mark.parametrize("tail", ["none", "normalization", "skip", "concatenation"])
@pytest.mark.parametrize("name", CASES)
def test_what_follows_is_done_where_the_pixels_are_made(name: str, tail: str) -> None:
    case = CASES[name]
    program, _ = generate(network(case, sizes_of(case), tail), Target.resolve("x86-64"))
    assert copies(program) == []
    up = [s.label for s in program.steps if s.label.startswith("ConvTranspose")]
    assert len(up) == case.calls
    others = 3 if tail in ("skip", "concatenation") else 2
    assert len(program.steps) == case.calls + others + 1, "the last one delivers the output"


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", TARGETS)
def test_kernels_leave_all_pixels_in_their_places(target: str, name: str) -> None:
    case = CASES[name]
    for tail in ("normalization", "skip", "concatenation"):
        graph = network(case, sizes_of(case), tail)
        feeds = {v.name: drawn(v, n=2) for v in graph.inputs}
        result = run(graph, target, "fp32", feeds=feeds)
        expected = evaluate(graph, feeds)
        for key, array in expected.items():
            # Sums of some hundred products of numbers below 3.
            np.testing.assert_allclose(result.outputs[key], array, rtol=1e-4, atol=1e-3)
        assert result.calls >= 3


@pytest.mark.parametrize(
    ("precision", "target"), [("bf16", TARGETS[2]), ("bf16", TARGETS[4]), ("fp16", TARGETS[1])]
)
def test_operands_may_be_rounded(precision: str, target: str) -> None:
    for case in CASES.values():
        graph = network(case, sizes_of(case), "skip")
        feeds = {v.name: drawn(v, n=2) for v in graph.inputs}
        outputs = run(graph, target, precision, feeds=feeds).outputs
        for name, expected in evaluate(graph, feeds).items():
            # Three layers round numbers to 8 bits, or 11.
            error = np.abs(outputs[name] - expected).max() / np.abs(expected).max()
            assert error < 2e-2, case


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1, 2, 7])
def test_sizes_may_be_unknown(name: str, size: int) -> None:
    case = CASES[name]
    names = ("h", "w", "d")[: len(case.strides)]
    graph = network(case, names, "skip")
    sizes = {"n": 2, **dict.fromkeys(names, size)}
    feeds = {v.name: drawn(v, **sizes) for v in graph.inputs}
    result = run(graph, "x86-64-v3", "fp32", feeds=feeds)
    (expected,) = evaluate(graph, feeds).values()
    (ours,) = result.outputs.values()
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-3)


def changed(monkeypatch: pytest.MonkeyPatch, change: Callable[[Program], None]) -> None:
    """Let `run_lowered` see programs that were changed."""

    def generated(*arguments: Any) -> tuple[Program, memory.Plan]:
        program, _ = generate(*arguments)
        change(program)
        return program, memory.plan(program)

    monkeypatch.setattr(lowered, "generate", generated)


def phases_of(program: Program) -> list[Step]:
    return [s for s in program.steps if s.label.startswith("ConvTranspose")]


def written(step: Step) -> int:
    """The number of the argument that a step writes to."""
    each = enumerate(step.arguments)
    return next(i for i, a in each if isinstance(a, Tensor) and a.buffer in step.writes)


def test_a_phase_that_is_left_out_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["channels that fill no vector"]
    graph = network(case, (3, 3), "none")
    feeds = {v.name: drawn(v, n=1) for v in graph.inputs}

    def twice(program: Program) -> None:
        """The first phase in place of the second one."""
        first, second, *_ = phases_of(program)
        second.arguments[:] = first.arguments

    changed(monkeypatch, twice)
    with pytest.raises(EpilogueError, match="do not make up the whole"):
        run(graph, "x86-64-v3", "fp32", feeds=feeds)


def test_a_phase_in_the_place_of_another_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["channels that fill no vector"]
    graph = network(case, (3, 3), "none")
    feeds = {v.name: drawn(v, n=1) for v in graph.inputs}

    def elsewhere(program: Program) -> None:
        first, second, *_ = phases_of(program)
        one, other = written(first), written(second)
        places = first.arguments[one], second.arguments[other]
        second.arguments[other], first.arguments[one] = places

    changed(monkeypatch, elsewhere)
    with pytest.raises(EpilogueError, match="something else"):
        run(graph, "x86-64-v3", "fp32", feeds=feeds)
