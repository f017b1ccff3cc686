"""The graphs that rules are tested on: every spelling of a rule's own pattern, with operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from infuse.errors import InfuseError
from infuse.ir.clone import clone
from infuse.ir.expression import Call
from infuse.ir.graph import Array, Graph, Node, Value
from infuse.ir.types import TensorType
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from infuse.rewrite import Driver, Report, Rule
from infuse.rewrite.driver import refusal
from infuse.rewrite.matcher import matches
from infuse.testing.patterns import build, names_of, spellings
from infuse.testing.variants import (
    random_array,
)


@dataclass
class Case:
    """One spelling of a rule as a graph, with inputs to run it on."""

    rule: Rule
    pattern: Call
    """The spelling as the rule returns it, alternatives included."""
    text: str
    graph: Graph
    root: Node
    feeds: dict[str, Array] = field(default_factory=dict)

    def __str__(self) -> str:
        types = ", ".join(f"{v.name}: {v.type}" for v in self.graph.inputs)
        return f"{self.rule.name} on {self.text} with {types or 'constants only'}"

    @property
    def interior(self) -> list[Value]:
        """Values that the pattern makes below its root."""
        return [v for node in self.graph.nodes if node is not self.root for v in node.outputs]


def cases(rule: Rule, rng: np.random.Generator) -> list[Case]:
    """A graph for every spelling of a rule, on which it fires; AssertionError where none is
    found.
    """
    result = []
    for pattern, concrete in spellings(rule, rng):
        candidates = _candidates(rule, pattern, concrete, rng)
        fitting = list(candidates) if rule.examples else list(islice(candidates, 1))
        if not fitting:
            raise AssertionError(
                f"no operands were found on which {rule.name} fires on {concrete}; give it "
                "`examples`"
            )
        result += fitting
    return result


def _candidates(
    rule: Rule, pattern: Call, concrete: Call, rng: np.random.Generator
) -> Iterator[Case]:
    for graph, root in build(concrete, rule.examples, rng):
        case = Case(rule, pattern, str(concrete), graph, root, random_feeds(graph, rng))
        if not _runs(case):
            continue
        if any(refusal(rule, match) is None for match in matches(pattern, root)) and fires(
            graph, rule
        ):
            yield case


def _runs(case: Case) -> bool:
    """Whether the graph computes something: operators cannot refuse all nonsense when types are
    inferred.
    """
    try:
        evaluate(case.graph, case.feeds)
    except InfuseError:
        return False
    return True


def example_case(rule: Rule, example: Mapping[str, Any], rng: np.random.Generator) -> Case:
    """A spelling built on the operands of `example`, if possible one that takes them all; the rule
    may fire or not.
    """
    ordered = sorted(spellings(rule, rng), key=lambda pair: len(example.keys() - names_of(pair[1])))
    for pattern, concrete in ordered:
        for graph, root in build(concrete, (example,), rng):
            return Case(rule, pattern, str(concrete), graph, root, random_feeds(graph, rng))
    raise AssertionError(
        f"{rule.name} has no spelling that takes {', '.join(example) or 'nothing'}"
    )


def random_feeds(
    graph: Graph,
    rng: np.random.Generator,
    sizes: Mapping[str, int] | None = None,
    declared: Mapping[str, TensorType] | None = None,
) -> dict[str, Array]:
    """Random inputs, symbols having these sizes, and inputs of unknown rank being of a `declared`
    type.
    """
    types = {
        v.name: v.tensor if v.tensor.shape is not None else (declared or {})[v.name]
        for v in graph.inputs
    }
    return {name: random_array(type.substitute(sizes or {}), rng) for name, type in types.items()}


def optimized(graph: Graph, rule: Rule) -> tuple[Graph, Report]:
    """A verified copy of a graph after this rule alone (constants read-only), and the report."""
    result = clone(graph)
    for value in (v for inner in result.all_graphs() for v in inner.constants()):
        if value.const is not None:
            value.const = value.const.view()
            value.const.flags.writeable = False  # as in a mapped file
    driver = Driver([rule])
    driver.run(result)
    verify(result)
    return result, driver.report


def fires(graph: Graph, rule: Rule) -> bool:
    """Whether the rule alone finds something to rewrite."""
    return optimized(graph, rule)[1].fired[rule.name] > 0
