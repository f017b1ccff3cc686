"""Generated tests of rewrite rules: a rule's own pattern is built as a graph, and both sides are
run.

`check_rule(MyRule())` is the whole test of a rule; the functions below it are its parts. What it
tries besides the graphs themselves: other types, sizes, attributes and constants (variants), and
other surroundings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from infuse import dtypes
from infuse.errors import InfuseError, UnsupportedOperatorError
from infuse.exporters.onnx.decompose import OWN
from infuse.ir.clone import clone
from infuse.ir.graph import Array, Graph, Node, Value
from infuse.ir.printer import print_graph
from infuse.ir.registry import make_operator
from infuse.ir.types import TensorType
from infuse.ops.core.base import Rounding
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.inference import infer_graph
from infuse.rewrite import Report, Rule
from infuse.rewrite.driver import refusal
from infuse.rewrite.matcher import is_commutative, matches
from infuse.rewrite.refine import Change, compare_types
from infuse.testing.compare import difference
from infuse.testing.rule_cases import Case, cases, optimized, random_feeds
from infuse.testing.variants import (
    CHANGES,
    bindings,
    forget_rank,
    make_symbolic,
)
from infuse.testing.wrapping import CONDITION, around_branch, in_branches, in_loop, reread

EXACT = Rounding(ulp=0)
COARSE = {"float16": 2.0**-6, "bfloat16": 2.0**-3}
"""Some roundings in types of few digits."""
LARGE = 1e20
VARIANTS = 300
"""Variants of a rule that are tried by default."""
LEAST_VARIANTS = 30
"""Variants of one of its cases that are tried at least."""
SPECIAL = "on infinities and NaN"
SPECIALS = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3e38, -1.0], dtype=np.float32)


# -- checks ----------------------------------------------------------------------------------------


@dataclass
class Evidence:
    """What a rule was tried on: its own cases, and how many variants it fired on, by change."""

    cases: list[Case]
    tried: int = 0
    fired: int = 0
    changes: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {count}" for name, count in sorted(self.changes.items()))
        return f"{len(self.cases)} cases; fired on {self.fired} of {self.tried} variants: {parts}"


def check_rule(
    rule: Rule, seed: int = 0, variants: int = VARIANTS, least: int = LEAST_VARIANTS
) -> Evidence:
    """Everything below for every spelling of a rule; AssertionError says what is wrong.

    `variants` is how many are tried for the rule as a whole, and `least` how many at least for
    each of its cases.
    """
    rng = np.random.default_rng(seed)
    return check_cases(cases(rule, rng), rng, variants, least)


def check_cases(
    several: Sequence[Case],
    rng: np.random.Generator,
    variants: int = VARIANTS,
    least: int = LEAST_VARIANTS,
) -> Evidence:
    """`check_rule` on cases of one rule, which stay as they are."""
    evidence = Evidence([*several])
    each = max(least, variants // len(several))
    for case in several:
        check_meaning(case)
        check_swapped(case)
        check_readers(case)
        check_surroundings(case, evidence)
        for _ in range(each):
            check_variant(case, rng, evidence)
    return evidence


@dataclass(frozen=True)
class _Variant:
    """What is said of a variant that is wrong: what was changed, and the graph."""

    changes: Sequence[str]
    graph: Graph
    more: str = ""

    def __str__(self) -> str:
        return f"{self.more}after {', '.join(self.changes)}:\n{print_graph(self.graph)}"


def check_meaning(case: Case) -> None:
    """The rule fires, and the result computes the same under the same names and types, special
    numbers included.
    """
    after = _rewritten(case.graph, case)
    _compare(case, case.graph, after, case.feeds)
    _check_specials(case, case.graph, after, case.feeds, SPECIAL)


def _check_specials(
    case: Case, before: Graph, after: Graph, feeds: Mapping[str, Array], what: object
) -> None:
    """A rule that is exact is so for infinities, NaN and zeros too."""
    special = {name: _with_specials(array) for name, array in feeds.items()}
    if case.rule.rounding or all(special[name] is array for name, array in feeds.items()):
        return
    try:
        expected = evaluate(before, special)
    except InfuseError:  # some inputs are no plain numbers: sizes, places
        return
    _agree(case, before, after, expected, special, what)


def check_swapped(case: Case) -> None:
    """The rule fires with the operands of each commutative operator swapped, and means the same."""
    for index, node in enumerate(case.graph.nodes):
        if is_commutative(node) and len(node.inputs) == 2 and node.inputs[0] is not node.inputs[1]:
            graph = clone(case.graph)
            swapped = graph.nodes[index]
            swapped.set_inputs(swapped.inputs[::-1])
            _compare(case, graph, _rewritten(graph, case), case.feeds)


def check_readers(case: Case) -> None:
    """With an interior value read elsewhere or given out, the rule refuses with that reason, or
    leaves the value.
    """
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
            _compare(case, graph, optimized(graph, case.rule)[0], case.feeds)


def check_surroundings(case: Case, evidence: Evidence) -> None:
    """The rule fires in branches and loops, on constants of either spelling in a file, and means
    the same.
    """
    inner = {v.name for v in case.interior}
    places: dict[str, Callable[[], Graph]] = {
        "in branches": lambda: in_branches(case.graph),
        "in a loop": lambda: in_loop(case.graph, carried=False),
        "in a loop that carries the inputs": lambda: in_loop(case.graph, carried=True),
    }
    if all(node.op.domain != OWN for node in case.graph.nodes):  # else a file has other operators
        places["with initializers"] = lambda: reread(case.graph, nodes=False)
        places["with Constant nodes"] = lambda: reread(case.graph, nodes=True)
    for place, make in places.items():
        try:
            graph = make()
        except UnsupportedOperatorError:  # ONNX does not have it in this form
            continue
        feeds = {**case.feeds, CONDITION: np.array(True)}
        feeds = {v.name: feeds[v.name] for v in graph.inputs}
        after = _rewritten(graph, case, place)
        _compare(case, graph, after, feeds, place)
        evidence.changes[place] += 1
    if inner:
        graph = around_branch(case.graph, case.root)
        feeds = {**case.feeds, CONDITION: np.array(True)}
        _compare(
            case, graph, optimized(graph, case.rule)[0], feeds, "with the last node in a branch"
        )


def check_variant(case: Case, rng: np.random.Generator, evidence: Evidence) -> None:
    """A random variant means the same if the operators accept it and the rule fires on it."""
    graph = clone(case.graph)
    chosen = [CHANGES[i] for i in rng.integers(len(CHANGES), size=int(rng.integers(1, 4)))]
    made = [change.__name__ for change in chosen if change(graph, rng)]
    if not _accepted(graph):
        return
    sizes: dict[str, int] = {}
    types = {v.name: v.tensor for v in graph.inputs}
    if rng.random() < 0.4:
        if make_symbolic(graph, rng):
            made.append(make_symbolic.__name__)
            pairs = [
                (d, n) for v in graph.inputs for d, n in zip(v.shape, types[v.name].shape or ())
            ]
            sizes = {str(d): n for d, n in pairs if not isinstance(d, int) and isinstance(n, int)}
    elif rng.random() < 0.15 and forget_rank(graph, rng):
        made.append(forget_rank.__name__)
    if not made or not _accepted(graph) or (case.rule.rounding and _has_extremes(graph)):
        return
    evidence.tried += 1
    what = _Variant(made, graph)
    for number, binding in enumerate(bindings(list(sizes), sizes, rng) if sizes else ({},)):
        feeds = random_feeds(graph, rng, binding, types)
        expected = _run_all(graph, feeds, binding, finite=bool(case.rule.rounding))
        if expected is None:
            if not number:
                return
            continue
        if not number:
            after, report = _try(graph, case, what)
            if not report.fired[case.rule.name]:
                return
            evidence.fired += 1
            evidence.changes.update(made)
        _agree(case, graph, after, expected, feeds, what)
        _check_specials(case, graph, after, feeds, replace(what, more=f"{SPECIAL} "))


def _has_extremes(graph: Graph) -> bool:
    """Whether a constant has huge elements or none that are numbers: what rounds otherwise need not
    agree on them.
    """
    floats = [
        v.const.astype(np.float64)
        for v in graph.constants()
        if v.const is not None and v.dtype.is_float
    ]
    return not all((np.abs(array) < LARGE).all() for array in floats)


def _accepted(graph: Graph) -> bool:
    """Whether the operators take each other's results; their outputs have types then."""
    try:
        infer_graph(graph)
    except (InfuseError, TypeError, ValueError, IndexError, AssertionError):
        return False
    return True


def _run_all(
    graph: Graph, feeds: Mapping[str, Array], sizes: Mapping[str, int], finite: bool
) -> dict[str, Array] | None:
    """The outputs, None where a node cannot run or finds sizes that its types rule out, or, if all
    results are to be `finite`, where one is not.
    """
    names = [
        v.name
        for node in graph.nodes
        for v in node.outputs
        if v.name and isinstance(v.type, TensorType)
    ]
    try:
        results = evaluate(graph, feeds, fetch=[*graph.output_names, *names])
    except InfuseError:
        return None
    for value in (v for node in graph.nodes for v in node.outputs if v.name in results):
        declared = value.tensor.substitute(sizes)
        if declared.is_static and declared.shape != results[value.name].shape:
            return None
        if (
            finite
            and value.dtype.is_float
            and not np.isfinite(results[value.name].astype(np.float64)).all()
        ):
            return None
    return {name: results[name] for name in graph.output_names}


def _try(graph: Graph, case: Case, what: object) -> tuple[Graph, Report]:
    try:
        return optimized(graph, case.rule)
    except Exception as error:
        raise AssertionError(f"{case.rule.name} fails {what}: {error}") from error


def _with_reader(case: Case, index: int, outside: bool) -> tuple[Graph, Node, Value]:
    """A copy in which an interior value is given out, or read by another node."""
    copies: dict[Value, Value] = {}
    graph = clone(case.graph, copies)
    value, root = copies[case.interior[index]], copies[case.root.output].producer
    assert root is not None
    if outside:
        graph.add_output(value, "extra")
    else:
        node = graph.add_node(
            Node(make_operator("", "Identity", {}), [value], [Value(value.type, "extra")])
        )
        graph.add_output(node.output)
    return graph, root, value


def _with_specials(array: Array) -> Array:
    if not dtypes.by_numpy(array.dtype).is_float:
        return array
    result: Array = array.copy()
    with np.errstate(over="ignore"):
        result.reshape(-1)[: SPECIALS.size] = SPECIALS[: result.size].astype(array.dtype)
    return result


def _rewritten(graph: Graph, case: Case, what: object = "") -> Graph:
    result, report = optimized(graph, case.rule)
    assert report.fired[case.rule.name] > 0, f"{case}: the rule does not fire {what}"
    return result


def _compare(
    case: Case, before: Graph, after: Graph, feeds: Mapping[str, Array], what: object = ""
) -> None:
    _agree(case, before, after, evaluate(before, feeds), feeds, what)


def _agree(
    case: Case,
    before: Graph,
    after: Graph,
    expected: Mapping[str, Array],
    feeds: Mapping[str, Array],
    what: object = "",
) -> None:
    """AssertionError unless `after` gives what is expected of `before`, under its names and of its
    types.
    """
    assert after.output_names == before.output_names, (
        f"{case}: outputs were {before.output_names} {what}"
    )
    for old, new in zip(before.outputs, after.outputs):
        change = compare_types(old.type, new.type)
        assert change in (Change.SAME, Change.BETTER), (
            f"{case}: the type {old.type} became {new.type} {what}"
        )
    try:
        results = evaluate(after, feeds)
    except InfuseError as error:
        raise AssertionError(
            f"{case} {what}: the result cannot run: {error}\n{print_graph(after)}"
        ) from error
    for name, array in expected.items():
        wrong = _difference(results[name], array, _accuracy(case.rule, before))
        assert wrong is None, f"{case} {what}: output {name}: {wrong}\n{print_graph(after)}"


def _difference(result: Array, expected: Array, accuracy: Rounding) -> str | None:
    """What is wrong with a result; terms of about one may have cancelled out in it."""
    wrong = difference(result, expected, accuracy)
    if wrong is None or result.shape != expected.shape or not accuracy.abs:
        return wrong
    with np.errstate(invalid="ignore"):
        error = np.abs(result.astype(np.float64) - expected.astype(np.float64))
    same = (result == expected) | (np.isnan(result) & np.isnan(expected))
    return None if bool(np.all(same | (error <= accuracy.abs))) else wrong


def _accuracy(rule: Rule, graph: Graph) -> Rounding:
    """None for a rule that is exact; for others what some roundings in the narrowest type make."""
    if not rule.rounding:
        return EXACT
    values = [
        *graph.inputs,
        *(v for node in graph.unordered_nodes for v in (*node.operands(), *node.outputs)),
    ]
    types = {v.dtype.name for v in values if isinstance(v.type, TensorType)}
    leeway = max((COARSE[name] for name in types & COARSE.keys()), default=1e-4)
    return Rounding(ulp=4, abs=max(leeway, rule.error), why="the rule says why it rounds otherwise")
