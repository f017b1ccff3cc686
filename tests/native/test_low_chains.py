"""Chains of convolutions whose 1 x 1 products round or split their operands."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from infuse.build.compile import compile_graph
from infuse.build.staged import generate
from infuse.lowering.choice import Chooser, Key
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.targets import Target
from infuse.targets.cpu.lower import separable_block
from tests.native.kernel_tools import has_target
from tests.native.test_chains import network
from tests.support.emulation import NARROW_DOTS, NEWEST, obstacle, resolve

pytestmark = pytest.mark.row("R1", "R3")
ERRORS = {"bf16": 2e-2, "bf16x2": 2e-4}
"""How far outputs may be from those in float32, in parts of the largest: a few roundings of eight
bits and of sixteen.
"""


def low_form(key: Key) -> str | None:
    return next((name for name in key.names if "bf16" in name), None)


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products are rounded or split wherever they may be, and chains formed however small images
    are.
    """
    monkeypatch.setattr("infuse.build.compile.Chooser", partial(Chooser, forced=low_form))
    monkeypatch.setattr(separable_block, "ROOM", 0)
    monkeypatch.setattr(separable_block, "HALO", 10)


def outputs(target: str, precision: str, threads: int, feeds: dict[str, Any]) -> dict[str, Any]:
    graph = network().graph
    with compile_graph(
        graph, CompileOptions(target=target, precision=precision, threads=threads)
    ) as model:
        result: dict[str, Any] = model.run(feeds)
        return result


@pytest.mark.usefixtures("forced")
@pytest.mark.parametrize(
    ("name", "precision"), [(NARROW_DOTS, "bf16"), (NEWEST, "bf16"), (NEWEST, "bf16x2")]
)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_chain_gives_what_its_layers_give(
    name: str, precision: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_target(name):
        pytest.skip(f"this machine does not run {name}; {obstacle()}")
    target = resolve(name)
    b = network()
    feeds, chooser = b.feeds(), Chooser(target.machine, forced=low_form)
    program, _ = generate(b.graph, target, precision=precision, chooser=chooser)
    headers = set().union(*(step.function.includes for step in program.steps))
    assert f"chain_{precision}.hpp" in headers
    result = outputs(name, precision, threads, feeds)
    monkeypatch.setattr(separable_block, "ROOM", 1 << 60)
    alone, exact = outputs(name, precision, threads, feeds), evaluate(b.graph, feeds)
    for output, values in exact.items():
        largest = np.abs(values).max()
        error = np.abs(result[output] - values).max()
        assert 1e-7 * largest < error < ERRORS[precision] * largest
        np.testing.assert_allclose(result[output], alone[output], rtol=0, atol=1e-5 * largest)


@pytest.mark.usefixtures("bf16_processor", "forced")
def test_all_layers_of_a_chain_are_reported() -> None:
    b, target = network(), Target.resolve()
    chooser = Chooser(target.machine, forced=low_form)
    program, _ = generate(b.graph, target, precision="bf16", chooser=chooser)
    low = [node for node in b.graph.nodes if program.layers.get(node.serial) == "bf16"]
    assert len([node for node in low if node.kind == "Conv"]) >= 8
