"""Every rule of the package: fires on its own spellings with the same result, and refuses with the
reason.

The cases are generated from the rules themselves (infuse.testing.rules); what must not fire
stands in the modules refused_*.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from infuse.ir.clone import clone
from infuse.ir.expression import Call
from infuse.ops.core.samples import Ints
from infuse.passes.rules import ALL_RULES
from infuse.passes.run import optimize_in_place
from infuse.passes.selection import Selection
from infuse.rewrite import Driver, Rule, explain
from infuse.testing import rule_cases, rules as generated
from infuse.testing.patterns import graph_of
from tests.pure import (
    refused_activation,
    refused_algebra,
    refused_attention,
    refused_cleanup,
    refused_linear,
    refused_movement,
    refused_normalization,
    refused_onnxruntime,
    refused_quantized,
)
from tests.pure.refused_operands import OPERANDS
from tests.pure.rule_graphs import cases_of

# Rule → operands on which its pattern fits (or a graph on which it does not), and what the refusal
# says.
REFUSALS: dict[str, tuple[Any, str]] = {
    **refused_activation.REFUSED,
    **refused_algebra.REFUSED,
    **refused_attention.REFUSED,
    **refused_cleanup.REFUSED,
    **refused_linear.REFUSED,
    **refused_movement.REFUSED,
    **refused_normalization.REFUSED,
    **refused_onnxruntime.REFUSED,
    **refused_quantized.REFUSED,
}


FEW = 10
"""Variants of each spelling, of which some rules have a hundred; `full` tries more of each."""


def by_rule(select: Callable[[Rule], bool] = lambda rule: True) -> Any:
    rows = [
        pytest.param(rule, id=rule.name, marks=pytest.mark.row(*rule.rows))
        for rule in ALL_RULES
        if select(rule)
    ]
    return pytest.mark.parametrize("rule", rows)


@by_rule()
def test_a_rule_fires_on_every_spelling_and_keeps_the_meaning(rule: Rule) -> None:
    """Same results, names and types; operands swapped; interior values read elsewhere; in branches,
    loops and files; with other types, sizes, axes, attributes and constants, and symbolic sizes.
    """
    evidence = generated.check_cases(cases_of(rule), np.random.default_rng(1), least=FEW)
    assert len(evidence.cases) >= len(rule.patterns)
    assert evidence.fired > 0


@pytest.mark.full
@pytest.mark.timeout(1200)
@by_rule()
def test_a_rule_keeps_the_meaning_of_many_variants(rule: Rule) -> None:
    generated.check_rule(rule, 1, 2000)


# Rules whose generated graphs other rules spoil, and why that is right.
SPOILT = {
    "AbsorbNegation": "an operand is a constant, and so is its negation",
    "FuseUnshiftedSoftmax": "one element is summed",
    "FuseLogSoftmaxParts": "one element is summed",
    "FuseSoftmax": "one element is summed",
    "FuseRotaryEmbedding": "sines stand for cosines, and are a common factor",
    "TransposeInsideMatMul": "it moves axes of size one",
    "RemoveReshapesAround": (
        "a Gemm takes the bias, until UnflattenGemm undoes it at the next level"
    ),
}


@by_rule(lambda rule: rule.name not in SPOILT)
def test_no_other_rule_comes_in_the_way(rule: Rule) -> None:
    """The whole pipeline leaves no more of a rule's pattern than the rule alone."""
    options = Selection(
        rule.level, runtime=rule.runtime, enable=frozenset([rule.name] if rule.opt_in else [])
    )
    for case in cases_of(rule):
        alone, whole = clone(case.graph), clone(case.graph)
        Driver([rule]).run(alone)
        report = optimize_in_place(whole, options)
        assert len(whole) <= len(alone), (
            f"{case}: {dict(report.fired)} leave {[n.kind for n in whole.nodes]}"
        )


@by_rule()
def test_a_rule_refuses_with_the_reason(rule: Rule, rng: np.random.Generator) -> None:
    operands, reason = REFUSALS[rule.name]
    written = isinstance(operands, Call)
    graph = (
        graph_of(operands, **OPERANDS)
        if written
        else rule_cases.example_case(rule, operands, rng).graph
    )
    said = explain(rule, graph)
    assert not any(e.fires for e in said), f"it fires on {graph}"
    assert any(reason in e.reason for e in said), [e.reason for e in said]


def test_embeddings_without_channels_stay(rng: np.random.Generator) -> None:
    """The runtime's operator has no result for them."""
    (rule,) = (rule for rule in ALL_RULES if rule.name == "FuseEmbedNormalization")
    empty = {"w": (9, 0), "t": (2, 0), "p": (7, 0), "gamma": np.ones(0, np.float32), "beta": (0,)}
    operands = {**REFUSALS[rule.name][0], **empty, "kinds": Ints((2, 3), 0, 2)}
    said = explain(rule, rule_cases.example_case(rule, operands, rng).graph)
    assert "its rows may be empty" in [e.reason for e in said]


def test_every_rule_has_a_case_that_it_refuses() -> None:
    assert REFUSALS.keys() == {rule.name for rule in ALL_RULES}


def test_every_rule_says_what_it_does_and_for_which_rows() -> None:
    for rule in ALL_RULES:
        assert "→" in (type(rule).__doc__ or ""), f"{rule.name}: the docstring is the equation"
        assert rule.rows, f"{rule.name} delivers no row"
    assert len({rule.name for rule in ALL_RULES}) == len(ALL_RULES)
