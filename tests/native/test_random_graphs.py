"""Random networks, compiled as they are and optimized, against the interpreter; many networks share one library."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from infuse import optimize
from infuse.codegen.compile import compile_graph, generate
from infuse.codegen.toolchain import Target
from infuse.ir.graph import Graph
from infuse.ops.evaluate import evaluate
from infuse.testing.noise import Judge
from tests.native.builder import Builder, assert_plan_is_safe
from tests.native.random_models import RandomModel, random_graph

STEPS = 10
TOLERANCE = 2e-4
"""Of the largest magnitude of a result, at least of one: the interpreter too computes in float32. More is allowed where
rounding explains it: of two float32 that differ in the last bit, one may be rounded up to bfloat16 and one down."""


def feeds_of(graph: Graph, size: int) -> dict[str, Any]:
    b = Builder(seed=size)
    b.graph = graph
    return b.feeds({"n": size})


def differences(
    found: Mapping[str, Any], graph: Graph, feeds: Mapping[str, Any], origin: Mapping[str, int]
) -> list[str]:
    messages = []
    expected = evaluate(graph, feeds)
    judge = Judge(graph, feeds, expected, rewritten=True)
    for name, wanted in expected.items():
        actual = found[name]
        if actual.shape != wanted.shape or actual.dtype != wanted.dtype:
            messages.append(f"seed {origin[name]}, {name}: {actual.dtype}{actual.shape}")
            continue
        error = np.max(np.abs(actual.astype(np.float64) - wanted), initial=0)
        if not error <= TOLERANCE * max(1, np.max(np.abs(wanted), initial=0)) and judge.complaint(found, (name,)):
            messages.append(f"seed {origin[name]}, {name}: {error:.3g} off at magnitude {np.max(np.abs(wanted)):.3g}")
    return messages


def check(seeds: range, level: str, threads: int) -> None:
    graph, origin = random_graph(seeds, STEPS)
    compiled = optimize(graph, level)
    with compile_graph(compiled, threads=threads) as model:
        for size in (3, 1, 4):
            feeds = feeds_of(graph, size)
            messages = differences(model.run(feeds), graph, feeds, origin)
            assert not messages, f"{len(messages)} of {len(origin)} outputs differ, n = {size}:\n" + "\n".join(messages)


@pytest.mark.parametrize(("level", "threads"), [("none", 2), ("all", 1)])
def test_random_networks(level: str, threads: int) -> None:
    check(range(40), level, threads)


@pytest.mark.parametrize("seed", range(30))
def test_plans_of_random_networks_are_safe(seed: int) -> None:
    b = Builder()
    RandomModel(b, seed, steps=40, open_=False)
    program, memory = generate(b.graph, Target.resolve())
    assert_plan_is_safe(program, memory)
    assert memory.total <= 1.05 * memory.lower_bound


@pytest.mark.full
@pytest.mark.parametrize("level", ["none", "basic", "all"])
@pytest.mark.parametrize("start", range(100, 900, 100))
def test_many_random_networks(level: str, start: int) -> None:
    check(range(start, start + 100), level, threads=2)
