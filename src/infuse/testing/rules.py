"""Generated tests of rewrite rules: a rule's own pattern is built as a graph, and both sides are run.

`check_rule(MyRule())` is the whole test of a rule; the functions below it are its parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from infuse.errors import InfuseError
from infuse.ir import dims
from infuse.ir.clone import clone
from infuse.ir.expression import Call, make_operator
from infuse.ir.graph import Array, Graph, Node, Value
from infuse.ir.types import TensorType
from infuse.ir.verify import verify
from infuse.ops.base import Elementwise, Rounding
from infuse.ops.evaluate import evaluate
from infuse.rewrite import Driver, Report, Rule
from infuse.rewrite.driver import refusal
from infuse.rewrite.matcher import is_commutative, matches
from infuse.rewrite.refine import Change, compare_types
from infuse.testing.compare import difference
from infuse.testing.patterns import build, names_of, spellings

EXACT = Rounding(ulp=0)
ROUNDED = Rounding(ulp=4, abs=2e-5, why="the rule says why it rounds otherwise")
SPECIALS = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3e38, -1.0], dtype=np.float32)


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
    """A graph for every spelling of a rule, on which it fires; AssertionError where none is found."""
    found = []
    for pattern, concrete in spellings(rule, rng):
        candidates = _candidates(rule, pattern, concrete, rng)
        fitting = list(candidates) if rule.examples else list(islice(candidates, 1))
        if not fitting:
            raise AssertionError(f"no operands were found on which {rule.name} fires on {concrete}; give it `examples`")
        found += fitting
    return found


def _candidates(rule: Rule, pattern: Call, concrete: Call, rng: np.random.Generator) -> Iterator[Case]:
    for graph, root in build(concrete, rule.examples, rng):
        case = Case(rule, pattern, str(concrete), graph, root, random_feeds(graph, rng))
        if not _runs(case):
            continue
        if any(refusal(rule, match) is None for match in matches(pattern, root)) and _fires(graph, rule):
            yield case


def _runs(case: Case) -> bool:
    """Whether the graph computes something: operators cannot refuse all nonsense when types are inferred."""
    try:
        evaluate(case.graph, case.feeds)
    except InfuseError:
        return False
    return True


def example_case(rule: Rule, example: Mapping[str, Any], rng: np.random.Generator) -> Case:
    """A spelling built on the operands of `example`, if possible one that takes them all; the rule may fire or not."""
    ordered = sorted(spellings(rule, rng), key=lambda pair: len(example.keys() - names_of(pair[1])))
    for pattern, concrete in ordered:
        for graph, root in build(concrete, (example,), rng):
            return Case(rule, pattern, str(concrete), graph, root, random_feeds(graph, rng))
    raise AssertionError(f"{rule.name} has no spelling that takes {', '.join(example) or 'nothing'}")


def random_feeds(graph: Graph, rng: np.random.Generator) -> dict[str, Array]:
    """Random inputs; floats lie between -3 and 3."""
    return {v.name: _random(v.tensor, rng) for v in graph.inputs}


def _random(type: TensorType, rng: np.random.Generator) -> Array:
    shape = [int(d) if isinstance(d, int) else 4 for d in type.shape or ()]
    if type.dtype.is_bool:
        return np.asarray(rng.random(shape) < 0.5)
    if type.dtype.is_integer:
        return np.asarray(rng.integers(0, 4, shape)).astype(type.dtype.numpy)
    return np.asarray(rng.uniform(-3, 3, shape)).astype(type.dtype.numpy)


# -- checks ------------------------------------------------------------------------------------------------------


def check_rule(rule: Rule, seed: int = 0) -> list[Case]:
    """Everything below for every spelling of a rule; AssertionError says what is wrong. The cases."""
    rng = np.random.default_rng(seed)
    found = cases(rule, rng)
    for case in found:
        check_meaning(case)
        check_swapped(case)
        check_readers(case)
        check_symbols(case)
    return found


def check_meaning(case: Case) -> None:
    """The rule fires, and the result computes the same under the same names and types, special numbers included."""
    after = _rewritten(case.graph, case)
    _compare(case, case.graph, after, case.feeds)
    operators = [node.op for node in case.graph.unordered_nodes]
    if not case.rule.rounding and all(isinstance(op, Elementwise) for op in operators):
        special = {name: _with_specials(array) for name, array in case.feeds.items()}
        _compare(case, case.graph, after, special)


def check_swapped(case: Case) -> None:
    """The rule fires with the operands of each commutative operator swapped, and means the same."""
    for index, node in enumerate(case.graph.nodes):
        if is_commutative(node) and len(node.inputs) == 2 and node.inputs[0] is not node.inputs[1]:
            graph = clone(case.graph)
            swapped = graph.nodes[index]
            swapped.set_inputs(swapped.inputs[::-1])
            _compare(case, graph, _rewritten(graph, case), case.feeds)


def check_readers(case: Case) -> None:
    """With an interior value read elsewhere or given out, the rule refuses with that reason, or leaves the value."""
    for index in range(len(case.interior)):
        for outside in (False, True):
            graph, root, value = _with_reader(case, index, outside)
            expected = "is an output of the graph" if outside else "is also read by Identity"
            for match in matches(case.pattern, root):
                inside = value.producer in match.nodes
                reason = refusal(case.rule, match)
                assert case.rule.shares or not inside or (reason and expected in reason), (
                    f"{case}: {value.producer} has another reader, but the rule says {reason!r}"
                )
            _compare(case, graph, _optimized(graph, case.rule)[0], case.feeds)


def check_symbols(case: Case) -> None:
    """Where the first sizes of the inputs are symbolic and the rule fires all the same, the result is the same."""
    graph = clone(case.graph)
    for value in graph.inputs:
        if value.shape and value.shape[0] == 4:
            value.type = _symbolic(value.tensor)
    try:
        for node in graph.nodes:
            node.op.infer_node(node)
    except InfuseError:  # a constant fixes the size
        return
    _compare(case, graph, _optimized(graph, case.rule)[0], case.feeds)


def _symbolic(type: TensorType) -> TensorType:
    assert type.shape is not None
    return TensorType(type.dtype, (dims.symbol("n"), *type.shape[1:]))


def _with_reader(case: Case, index: int, outside: bool) -> tuple[Graph, Node, Value]:
    """A copy in which an interior value is given out, or read by another node."""
    copies: dict[Value, Value] = {}
    graph = clone(case.graph, copies)
    value, root = copies[case.interior[index]], copies[case.root.output].producer
    assert root is not None
    if outside:
        graph.add_output(value, "extra")
    else:
        node = graph.add_node(Node(make_operator("", "Identity", {}), [value], [Value(value.type, "extra")]))
        graph.add_output(node.output)
    return graph, root, value


def _with_specials(array: Array) -> Array:
    if array.dtype != np.float32:
        return array
    result: Array = array.copy()
    result.reshape(-1)[: SPECIALS.size] = SPECIALS[: result.size]
    return result


def _optimized(graph: Graph, rule: Rule) -> tuple[Graph, Report]:
    result = clone(graph)
    driver = Driver([rule])
    driver.run(result)
    verify(result)
    return result, driver.report


def _fires(graph: Graph, rule: Rule) -> bool:
    return _optimized(graph, rule)[1].fired[rule.name] > 0


def _rewritten(graph: Graph, case: Case) -> Graph:
    result, report = _optimized(graph, case.rule)
    assert report.fired[case.rule.name] > 0, f"{case}: the rule does not fire"
    return result


def _compare(case: Case, before: Graph, after: Graph, feeds: Mapping[str, Array]) -> None:
    assert after.output_names == before.output_names, f"{case}: outputs were {before.output_names}"
    for old, new in zip(before.outputs, after.outputs):
        change = compare_types(old.type, new.type)
        assert change in (Change.SAME, Change.BETTER), f"{case}: the type {old.type} became {new.type}"
    expected, found = evaluate(before, feeds), evaluate(after, feeds)
    accuracy = ROUNDED if case.rule.rounding else EXACT
    for name, wanted in expected.items():
        wrong = difference(found[name], wanted, accuracy)
        assert wrong is None, f"{case}: output {name}: {wrong}"
