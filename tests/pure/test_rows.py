"""Each row of the graph optimizer does what its sentence says, and what delivers it is what does
it.

The models stand in row_models*.py. Switched off are the rules and passes that name the row in
`rows`.
"""

from typing import Any

import numpy as np
import pytest

import infuse
import infuse.build.compile  # registers what makes native code of operators
from infuse import ops
from infuse.ir.graph import Array, Graph, Node, Value
from infuse.lowering.lowering import lower
from infuse.ops.core.evaluate import evaluate
from infuse.passes.order import PASSES
from infuse.passes.rules import ALL_RULES
from infuse.passes.selection import FOLD
from infuse.rewrite import Rule
from infuse.targets import Machine
from infuse.targets.machine import USUAL
from infuse.testing.variants import random_array
from tests.pure.row_example import Example
from tests.pure.row_models import EXAMPLES
from tests.pure.test_features import rows as features

IDS = [f"G{number}" for number in (*range(1, 34), 38, 39)]
ELSEWHERE = {"G38", "G39"}
AVX2 = Machine.of("x86_64", frozenset(("avx", "avx2", "fma")), USUAL)


def marked(examples: Any) -> Any:
    return [pytest.param(e, id=f"{e.row} {e.what}", marks=pytest.mark.row(e.row)) for e in examples]


def delivering(row: str) -> list[str]:
    """Names of the rules and passes that deliver a row."""
    names = [each.name for each in (*ALL_RULES, *PASSES) if row in each.rows]
    names += [each.name for each in PASSES if set(each.requires) & set(names)]
    return [*names, *([FOLD] if row == "G1" else [])]


def optimized(example: Example, disable: Any = ()) -> Graph:
    return infuse.optimize(
        example.graph(),
        infuse.Rules(
            example.level,
            disable=[*example.disable, *disable],
            enable=example.enable,
            runtime=example.runtime,
        ),
    )


def left(example: Example, graph: Graph) -> str:
    """The operators of a graph in their order, with the steps that windows take; for native rows
    the kernels and how many tensors each reads.
    """
    if not example.native:
        return " ".join(f"{node.kind}{step(node)}{inside(node)}" for node in graph.nodes)
    steps = [step for step in lower(graph, "row", AVX2).steps if step.nodes]
    return ", ".join(f"{step.label} of {len({id(b) for b in step.reads})}" for step in steps)


def step(node: Node) -> str:
    """What a node says of the steps of its windows, nothing where they are one."""
    longest = max(node.op.attributes().get("strides") or (1,))
    return f"/{longest}" if longest > 1 else ""


def inside(node: Node) -> str:
    """The operators in the bodies of a node."""
    kinds = [inner.kind for body in node.subgraphs.values() for inner in body.nodes]
    return f"({' '.join(kinds)})" if kinds else ""


def feeds(graph: Graph) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {
        v.name: random_array(v.tensor.substitute(dict.fromkeys("bmn", 3)), rng)
        for v in graph.inputs
    }


@pytest.mark.parametrize("example", marked(EXAMPLES))
def test_a_row_is_delivered(example: Example) -> None:
    before = example.graph()
    after = optimized(example)
    assert left(example, after) == example.left
    given = feeds(before)
    for name, wanted in evaluate(before, given).items():
        np.testing.assert_allclose(evaluate(after, given)[name], wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("example", marked(EXAMPLES))
def test_a_row_is_not_delivered_when_it_is_switched_off(
    example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, stub in example.off:
        monkeypatch.setattr(path, stub)
    assert left(example, optimized(example, delivering(example.row))) != example.left


def gelu() -> Example:
    return next(e for e in EXAMPLES if e.what == "GELU by erf")


@pytest.mark.row("G38")
def test_a_report_tells_what_fired_and_what_it_saved() -> None:
    example = gelu()
    report = optimized(example).report
    assert (report.nodes_before, report.nodes_after) == (5, 1)
    assert report.effects["FuseErfGelu"].saved == 4
    assert "FuseErfGelu" not in optimized(example, ["FuseErfGelu"]).report.effects


class WrongGelu(Rule):
    """Gelu(x) → Relu(x), which is wrong"""

    level = "extended"

    def match(self, x: Any) -> Any:
        return ops.gelu(x)

    def build(self, x: Value) -> Any:
        return ops.relu(x)


@pytest.mark.row("G39")
def test_a_guilty_rule_is_found_and_left_out() -> None:
    before = gelu().graph()
    kinds = {
        verify: [
            n.kind
            for n in infuse.optimize(
                before, infuse.Rules("extended", extra=[WrongGelu()]), verify=verify
            ).nodes
        ]
        for verify in (False, True)
    }
    assert kinds == {False: ["Relu"], True: ["Gelu"]}
    verdict = infuse.optimize(
        before, infuse.Rules("extended", extra=[WrongGelu()]), verify=True
    ).report.verification
    assert [guilty.rule for guilty in verdict.guilty] == ["WrongGelu"]


def test_every_row_that_is_there_has_a_model() -> None:
    there = {row.id for row in features() if row.state != "not yet"}
    assert [
        id for id in IDS if id in there - ELSEWHERE and id not in {e.row for e in EXAMPLES}
    ] == []
