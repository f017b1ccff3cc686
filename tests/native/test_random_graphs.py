"""Random networks, compiled as they are and optimized, against the interpreter; many networks share
one library.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from infuse import optimize
from infuse.build.compile import compile_graph
from infuse.build.staged import generate
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.targets import Target
from tests.native.builder import assert_plan_is_safe
from tests.native.random_models import native_network, together
from tests.support.sensitivity import Judge

NODES = 10
TOLERANCE = 2e-4
"""Of the largest magnitude of a result, at least of one: the interpreter too computes in float32.
More is allowed where rounding explains it: of two float32 that differ in the last bit, one may be
rounded up to bfloat16 and one down.
"""
# NumPy warns of means of nothing and of casts of what is not a number: both have a result.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def differences(found: Mapping[str, Any], graph: Graph, feeds: Mapping[str, Any]) -> list[str]:
    expected = evaluate(graph, feeds)
    judge = Judge(graph, feeds, expected, rewritten=True)
    messages = []
    for name, wanted in expected.items():
        wrong = None if is_close(found[name], wanted) else judge.complaint(found, (name,))
        messages += [wrong] if wrong else []
    return messages


def is_close(actual: Any, wanted: Any) -> bool:
    if actual.shape != wanted.shape or actual.dtype != wanted.dtype or wanted.dtype.kind in "iub":
        return False
    with np.errstate(all="ignore"):
        error = np.max(np.abs(actual.astype(np.float64) - wanted.astype(np.float64)), initial=0)
        return bool(
            error <= TOLERANCE * max(1, np.max(np.abs(wanted.astype(np.float64)), initial=0))
        )


def check(seeds: range, level: str, threads: int) -> None:
    graph, runs = together(seeds, NODES)
    assert len(graph.outputs) > 2 * len(seeds)
    with compile_graph(optimize(graph, level), CompileOptions(threads=threads)) as model:
        for feeds in runs:
            messages = differences(model.run(feeds), graph, feeds)
            assert not messages, (
                f"{len(messages)} of {len(graph.outputs)} outputs differ:\n" + "\n".join(messages)
            )


@pytest.mark.usefixtures("product_compiler")
@pytest.mark.parametrize(("level", "threads"), [("none", 2), ("all", 1)])
def test_random_networks(level: str, threads: int) -> None:
    check(range(40), level, threads)


@pytest.mark.parametrize("seed", range(30))
def test_plans_of_random_networks_are_safe(seed: int) -> None:
    found = (native_network(number, 40, symbolic=False) for number in range(seed, 1000, 30))
    network = next(filter(None, found))
    program, memory = generate(network.graph, Target.resolve())
    assert_plan_is_safe(program, memory)
    assert memory.total <= 1.05 * memory.lower_bound


@pytest.mark.full
@pytest.mark.parametrize("level", ["none", "basic", "all"])
@pytest.mark.parametrize("start", range(100, 900, 100))
def test_many_random_networks(level: str, start: int) -> None:
    check(range(start, start + 100), level, threads=2)
