"""An optimized graph is compared with its original; a rule that is wrong is found, left out, and
named.
"""

import math
import re

import numpy as np
import pytest

import infuse
from infuse import dtypes, ops
from infuse.errors import InputError, OptionError, RuntimeFailure, ShapeError, VerificationError
from infuse.ir.expression import Variable
from infuse.ir.graph import Graph
from infuse.ir.types import tensor
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.feeds import trial_sizes
from infuse.passes import verification
from infuse.passes.selection import Selection
from infuse.passes.verification import (
    Witness,
    distance,
    optimize_verified,
    relative_difference,
)
from infuse.rewrite import Pass, Report, Rewrite, Rule
from infuse.testing.patterns import graph_of

X, Y = Variable("X"), Variable("Y")


class TanhForErf(Rule):
    """erf(x) → tanh(x), which is wrong"""

    def match(self, x):
        return ops.erf(x)

    def build(self, x):
        return ops.tanh(x)


class LongAxesOnly(Rule):
    """cos(x) → sin(x) where there are at least 20 rows, which only some sizes show to be wrong"""

    def match(self, x):
        return ops.cos(x)

    def build(self, x):
        rows = ops.gather(ops.shape(x), np.int64(0))
        return ops.where(
            ops.less(rows, np.int64(20)), ops.sin(x + np.float32(np.pi / 2)), ops.sin(x)
        )


class Divides(Rule):
    """sinh(x) → an element that is not there, which fails when it runs"""

    def match(self, x):
        return ops.sinh(x)

    def build(self, x):
        far = ops.cast(ops.reduce_max(ops.abs(x), keepdims=0), to=dtypes.int64) + 99
        return x + ops.gather(ops.reshape(x, np.array([-1])), far)


class NegatesAsin(Pass):
    """Puts −asin(x) in place of every asin(x), and more that is right."""

    def run(self, graph, report):
        for node in graph.nodes:
            if node.kind == "Asin":
                node.op = next(n.op for n in graph.nodes if n.kind == "Neg")
                report.add(Rewrite(self.name, (f"Asin({node.name})",), (f"Neg({node.name})",)))


def model(*results: ops.Call, **shapes: object) -> Graph:  # type: ignore[name-defined]
    return graph_of(*results, **shapes)


def guilty(graph: Graph) -> list[str]:
    return [g.rule for g in graph.report.verification.guilty]


@pytest.mark.row("G39")
def test_a_right_result_is_said_to_be_right() -> None:
    better = infuse.optimize(model(ops.erf(ops.neg(-X)) + 0.0, X=(4, 3)), verify=True)
    verdict = better.report.verification
    assert verdict.checked
    assert verdict.difference == 0
    assert not verdict.guilty
    assert "same result" in str(verdict)


@pytest.mark.row("G39")
def test_the_guilty_rule_is_left_out_and_the_others_still_fire() -> None:
    graph = model(ops.erf(ops.neg(-X)) + 0.0, X=(4, 3))
    better = infuse.optimize(graph, infuse.Rules(extra=[TanhForErf()]), verify=True)
    assert [n.kind for n in better.nodes] == ["Erf"]
    assert guilty(better) == ["TanhForErf"]
    assert better.report.verification.difference == 0
    assert "Erf" in better.report.verification.guilty[0].nodes[0]
    assert any("TanhForErf is wrong on this model" in note for note in better.report.notes)
    assert [n.kind for n in infuse.optimize(graph, infuse.Rules(extra=[TanhForErf()])).nodes] == [
        "Tanh"
    ]


def test_the_text_of_a_report_tells_what_was_left_out_and_where_rules_fired() -> None:
    graph = model(ops.identity(ops.erf(X)), X=(4, 3))
    text = str(infuse.optimize(graph, infuse.Rules(extra=[TanhForErf()]), verify=True).report)
    assert re.search(r"RemoveIdentity +×1 .*, at Identity\(", text)
    assert text.count("TanhForErf is wrong on this model at Erf(") == 1
    assert "verified on random inputs" in text


@pytest.mark.row("G39")
def test_several_guilty_rules_are_found_among_many_rewrites() -> None:
    total = X
    for number in range(12):
        total = ops.erf(ops.neg(-total)) if number == 7 else ops.asin(ops.sigmoid(ops.neg(-total)))
    graph = model(ops.cos(total), -total, X=(4, 3))
    better = infuse.optimize(graph, infuse.Rules(extra=[TanhForErf(), NegatesAsin()]), verify=True)
    assert sorted(guilty(better)) == ["NegatesAsin", "TanhForErf"]
    feeds = {"X": np.random.default_rng(5).standard_normal((4, 3), np.float32)}
    for found, wanted in zip(evaluate(better, feeds).values(), evaluate(graph, feeds).values()):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert len(better) < len(graph)


@pytest.mark.row("G39")
def test_a_result_that_cannot_be_evaluated_is_wrong() -> None:
    better = infuse.optimize(
        model(ops.sinh(X), X=(4, 3)), infuse.Rules(extra=[Divides()]), verify=True
    )
    assert guilty(better) == ["Divides"]
    assert [n.kind for n in better.nodes] == ["Sinh"]
    assert "cannot be evaluated" in better.report.verification.guilty[0].what


@pytest.mark.row("G39")
def test_several_sizes_are_tried() -> None:
    graph = model(ops.cos(X), X=tensor(dtypes.float32, "rows", 3))
    assert trial_sizes(graph, {}) == [{"rows": 32}, {"rows": 13}]
    assert guilty(infuse.optimize(graph, infuse.Rules(extra=[LongAxesOnly()]), verify=True)) == [
        "LongAxesOnly"
    ]
    short = Witness.on_random(graph, {"rows": 5})
    assert [trial.sizes for trial in short.trials] == [{"rows": 5}]
    assert not guilty(optimize_verified(graph, Selection(extra=[LongAxesOnly()]), short))


@pytest.mark.row("G39")
def test_given_inputs_decide() -> None:
    graph = model(ops.erf(X), X=(2,))
    zeros = infuse.optimize(
        graph, infuse.Rules(extra=[TanhForErf()]), verify={"X": np.zeros(2, np.float32)}
    )
    assert [n.kind for n in zeros.nodes] == ["Tanh"]
    assert "verified on the given inputs" in str(zeros.report.verification)
    ones = infuse.optimize(
        graph, infuse.Rules(extra=[TanhForErf()]), verify={"X": np.ones(2, np.float32)}
    )
    assert guilty(ones) == ["TanhForErf"]
    with pytest.raises(InputError, match="'X' missing"):
        infuse.optimize(graph, verify={})


def test_what_is_wrong_without_any_rule_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = model(ops.erf(X), X=(2,))
    witness = Witness.on_random(graph)

    def off(original: Graph, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {
            name: array + (original is not graph)
            for name, array in evaluate(original, feeds).items()
        }

    monkeypatch.setattr(verification, "evaluate", off)
    with pytest.raises(VerificationError, match=r"no rule is to blame.*report it"):
        optimize_verified(graph, Selection(), witness)


def test_the_index_of_a_maximum_among_equals_says_nothing() -> None:
    nearly = np.float32([[1, 1 + 1e-7, 1], [3, 1, 2]])

    class Reorders(Rule):
        """asinh(x) → asinh(x) + 1e-7·x, within rounding"""

        def match(self, x):
            return ops.asinh(x)

        def build(self, x):
            return ops.log(x + ops.sqrt(x * x + 1.0))

    graph = model(ops.arg_max(ops.asinh(X), axis=1, keepdims=0), X=(2, 3))
    better = infuse.optimize(graph, infuse.Rules(extra=[Reorders()]), verify={"X": nearly})
    assert not guilty(better)
    assert "Log" in [n.kind for n in better.nodes]


def test_models_that_draw_random_numbers_are_not_compared() -> None:
    verdict = infuse.optimize(
        model(ops.random_normal_like(X), X=(2,)), verify=True
    ).report.verification
    assert not verdict.checked
    assert "draws random numbers" in verdict.reason


def test_an_original_that_cannot_be_evaluated_is_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(graph: Graph, feeds: object) -> None:
        raise RuntimeFailure("it cannot be evaluated")

    monkeypatch.setattr(verification, "evaluate", failing)
    verdict = infuse.optimize(model(ops.erf(X), X=(2,)), verify=True).report.verification
    assert not verdict.checked
    assert "the original cannot be evaluated" in str(verdict)


def test_unknown_symbols_are_refused() -> None:
    graph = model(ops.erf(X), X=tensor(dtypes.float32, "n", 2))
    with pytest.raises(OptionError, match=r"no dynamic axis 'm'.*its dynamic axes are n"):
        trial_sizes(graph, {"m": 2})


@pytest.mark.parametrize(
    ("found", "expected", "difference"),
    [
        (np.float32([1, 2]), np.float32([1, 2]), 0.0),
        (np.float32([1, 3]), np.float32([1, 4]), 0.25),
        (np.float32([np.nan, 1]), np.float32([np.nan, 1]), 0.0),
        (np.float32([np.inf, 1]), np.float32([-np.inf, 1]), np.inf),
        (np.float32([np.nan]), np.float32([1]), np.inf),
        (np.float64([1]), np.float32([1]), np.inf),
        (np.float32([1]), np.float32([[1]]), np.inf),
        (np.int64([1, 2]), np.int64([1, 3]), np.inf),
        ([np.float32([1])], [np.float32([2])], 0.5),
        ([], [np.float32([2])], np.inf),
        (None, None, 0.0),
    ],
)
def test_differences(found: object, expected: object, difference: float) -> None:
    assert relative_difference(found, expected) == difference


def test_unequal_elements_are_counted() -> None:
    assert distance(np.int64([1, 2, 3, 4]), np.int64([1, 2, 3, 5])) == 0.25
    assert math.isinf(distance(np.int64([1]), np.int32([1])))


# -- sizes -----------------------------------------------------------------------------------------


@pytest.mark.row("R4")
def test_symbols_are_fixed_on_request() -> None:
    rows = ops.gather(ops.shape(X), np.array([0]))
    graph = model(
        ops.reshape(X, ops.concat(rows, np.array([-1]), axis=0)),
        X=tensor(dtypes.float32, "n", "m", 2),
    )
    fixed = infuse.optimize(graph, set_dims={"n": 3})
    assert str(fixed.inputs[0].type) == "float32[3, m, 2]"
    assert str(fixed.outputs[0].type) == "float32[3, 2*m]"
    assert str(graph.inputs[0].type) == "float32[n, m, 2]"
    both = infuse.optimize(graph, set_dims={"n": 3, "m": 4}, verify=True)
    assert str(both.outputs[0].type) == "float32[3, 8]"
    assert both.report.verification.checked


@pytest.mark.parametrize(
    ("sizes", "kind", "complaint"),
    [
        ({"k": 1}, infuse.InfuseError, "no dynamic axis 'k'"),
        ({"n": -1}, infuse.InfuseError, "cannot be -1"),
        ({"n": 5}, ShapeError, "with n = 5"),
    ],
)
def test_sizes_that_the_model_does_not_allow_are_refused(
    sizes: dict[str, int], kind: type[Exception], complaint: str
) -> None:
    graph = model(
        ops.add(X, np.zeros((3, 2), np.float32)),
        ops.reshape(X, np.array([3, 2])),
        X=tensor(dtypes.float32, "n", 2),
    )
    with pytest.raises(kind, match=complaint):
        infuse.optimize(graph, set_dims=sizes)


# -- a user's rules that are not in order ----------------------------------------------------------


class Raises(Rule):
    """erf(x), and then an error"""

    def match(self, x):
        return ops.erf(x)

    def build(self, x):
        raise ValueError("no idea")


class Doubts(Raises):
    """An error in the condition"""

    def when(self, x):
        raise KeyError("nothing")


class BadMatch(Raises):
    """An error in the pattern"""

    def match(self, x):
        raise TypeError("no pattern")


class Back(Rule):
    """tanh(x) → erf(x), which undoes the other rule"""

    def match(self, x):
        return ops.tanh(x)

    def build(self, x):
        return ops.erf(x)


class Retypes(Rule):
    """erf(x) → an integer"""

    def match(self, x):
        return ops.erf(x)

    def build(self, x):
        return ops.cast(x, to=dtypes.int64)


class FailingPass(Pass):
    """Raises."""

    def run(self, graph: Graph, report: Report) -> None:
        raise LookupError("lost")


@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        ([Raises()], r"Raises.*no idea"),
        ([Doubts()], r"Doubts.*nothing"),
        ([BadMatch()], r"BadMatch.*no pattern"),
        ([TanhForErf(), Back()], r"(?=.*TanhForErf)(?=.*Back)"),
        ([Retypes()], r"Retypes.*int64"),
        ([FailingPass()], r"FailingPass.*lost"),
    ],
)
def test_rules_that_are_not_in_order_are_named(extra: list[Rule | Pass], complaint: str) -> None:
    with pytest.raises(infuse.errors.RuleError, match=complaint):
        infuse.optimize(model(ops.erf(X), X=(2,)), infuse.Rules(extra=extra))
