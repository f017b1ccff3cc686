"""The rewriting engine: what patterns match, and what the driver guarantees whatever a rule
does.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from infuse import dtypes, ops
from infuse.dtypes import DType
from infuse.errors import RuleError
from infuse.ir.dims import symbol
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Graph, Node, constant
from infuse.ir.types import TensorType, tensor
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from infuse.passes.explain import why
from infuse.passes.fold import Folder
from infuse.passes.run import optimize_in_place
from infuse.passes.selection import Selection
from infuse.rewrite import Driver, Patch, Report, Rule, explain, require
from infuse.rewrite.matcher import Trace, is_number, matches
from infuse.rewrite.refine import Change, compare_types
from tests.pure.rewriting import C, X, Y, kinds, rule_of, with_branch, written


def found(pattern: Call, graph: Graph) -> list[Any]:
    """All matches at the node that makes the first output."""
    root = graph.outputs[0].producer
    assert root is not None
    return list(matches(pattern, root))


def run(graph: Graph, *rules: Rule, fold: bool = False) -> Report:
    driver = Driver(rules, fold=Folder() if fold else None)
    driver.run(graph)
    verify(graph)
    return driver.report


# -- matcher ---------------------------------------------------------------------------------------


def test_operands_of_commutative_operators_match_in_any_order() -> None:
    pattern = ops.relu(X) + 1.0
    assert len(found(pattern, written(ops.relu(X) + 1.0))) == 1
    assert len(found(pattern, written(1.0 + ops.relu(X)))) == 1
    assert not found(ops.relu(X) - 1.0, written(1.0 - ops.relu(X)))


def test_the_matcher_goes_back_when_the_first_order_fails_further_up() -> None:
    pattern = ops.relu(X) * (ops.relu(X) + Y)
    relu = ops.relu(X)
    (match,) = [m for m in found(pattern, written((Y + relu) * relu)) if m.bound["x"].name == "x"]
    assert match.bound["y"].name == "y"


def test_a_variable_stands_for_one_value_wherever_it_occurs() -> None:
    assert found(X * ops.sigmoid(X), written(X * ops.sigmoid(X)))
    assert not found(X * ops.sigmoid(X), written(X * ops.sigmoid(Y)))


def test_the_same_call_stands_for_one_node() -> None:
    shared = ops.exp(X)
    pattern = shared / ops.reduce_sum(shared)
    power = ops.exp(X)
    assert found(pattern, written(power / ops.reduce_sum(power)))
    assert not found(pattern, written(ops.exp(X) / ops.reduce_sum(ops.exp(X))))


def test_constant_variables_match_constants_alone() -> None:
    assert found(X + ops.const(C), written(X + C))[0].bound["c"].const == 2
    assert not found(X + ops.const(C), written(X + Y))


def test_optional_variables_match_absent_inputs() -> None:
    pattern = ops.clip(X, ops.maybe(Variable("low")), ops.maybe(Variable("high")))
    both, none = written(ops.clip(X, 0.0, 1.0)), written(ops.clip(X))
    assert found(pattern, both)[0].bound["high"] is not None
    assert found(pattern, none)[0].bound["low"] is None
    assert not found(ops.clip(X), both)
    assert not found(ops.clip(X, Variable("low")), none)


def test_a_variadic_variable_takes_all_remaining_inputs() -> None:
    graph = written(ops.concat(X, Y, X, axis=0))
    (match,) = found(ops.concat(X, ops.rest(Variable("others"))), graph)
    assert [v.name for v in match.bound["others"]] == ["y", "x"]
    assert found(ops.relu(X, ops.rest(Y)), written(ops.relu(X)))[0].bound["y"] == ()


def test_labels_bind_nodes_and_alternatives_are_tried_in_order() -> None:
    pattern = ops.one_of(ops.relu(X, name="inner"), X) + Y
    graph = written(ops.relu(X) + Y)
    with_label, without = [m for m in found(pattern, graph) if m.bound["y"].name == "y"]
    assert with_label.bound["inner"].kind == "Relu"
    assert "inner" not in without.bound
    assert with_label.nodes[0] is with_label.root


def test_given_attributes_must_agree_and_others_are_free() -> None:
    graph = written(ops.leaky_relu(X, alpha=0.2))
    assert found(ops.leaky_relu(X), graph)
    assert found(ops.leaky_relu(X, alpha=0.2000001), graph)
    assert not found(ops.leaky_relu(X, alpha=0.21), graph)


def test_outputs_of_one_operation_are_told_apart() -> None:
    halves = ops.split(X, axis=0, num_outputs=2)
    graph = written(halves - halves[1])
    pattern = ops.split(X)
    assert found(pattern - pattern[1], graph)
    assert not found(pattern[1] - pattern, graph)


def test_nodes_of_an_enclosing_graph_are_not_matched() -> None:
    graph, body = with_branch(lambda outer: ops.abs(outer))
    root = body.outputs[0].producer
    assert root is not None
    trace = Trace()
    assert not list(matches(ops.abs(ops.relu(X)), root, trace))
    assert trace.reason == "Relu lies in another graph"
    assert graph.nodes


@pytest.mark.parametrize(
    ("array", "number", "expected"),
    [
        (np.float32(1.0), 1.0, True),
        (np.full((3, 1), 0.5, np.float32), 0.5, True),
        (np.array([0.5, 0.25], np.float32), 0.5, False),
        (np.float32(1.000001), 1.0, False),
        (np.float32(0.70710677), 0.5**0.5, True),
        (np.float32(0.7071), 0.5**0.5, False),
        (np.float16(0.044715), 0.044715, True),
        (np.float16(0.0448), 0.044715, False),
        (np.int64(2), 2.0, True),
        (np.bool_(True), 1.0, False),
        (np.bool_(True), True, True),
        (np.float32(1.0), True, False),
        (np.float32(np.inf), np.inf, True),
        (np.float32(np.nan), 0.0, False),
        (np.zeros((0,), np.float32), 0.0, False),
    ],
)
def test_numbers_match_exactly_unless_they_are_rounded(
    array: Any, number: Any, expected: bool
) -> None:
    assert is_number(constant(np.asarray(array)), number) is expected


# -- driver ----------------------------------------------------------------------------------------


def test_names_origins_and_the_record_are_carried_over() -> None:
    graph = written(ops.relu(ops.abs(X)))
    absolute, relu = graph.nodes
    absolute.origin = ("first",)
    relu.name, relu.origin, relu.output.name = "last", ("a", "b"), "result"
    report = run(graph, rule_of(lambda x: ops.relu(ops.abs(x)), lambda x: ops.sqrt(x * x)))
    sqrt = graph.outputs[0].producer
    assert sqrt is not None
    assert kinds(graph) == ["Mul", "Sqrt"]
    assert (sqrt.name, sqrt.output.name, graph.output_names) == ("last", "result", ["y0"])
    assert sqrt.origin == ("first", "a", "b")
    (rewrite,) = report.rewrites
    assert (rewrite.rule, rewrite.removed, rewrite.saved) == ("Made", ("Relu(last)", "Abs(n0)"), 0)


def test_a_rule_is_tried_only_where_what_it_reads_makes_an_operand() -> None:
    seen = []

    def when(root: Node) -> None:
        seen.append([v.producer.kind for v in root.operands() if v.producer is not None])
        require(False, "it only looks")

    graph = written((ops.relu(X) + Y) + (ops.abs(X) + ops.exp(Y)))
    run(graph, rule_of(lambda x, y: x + y, lambda x: x, when=when, reads=("Exp", "Relu")))
    assert seen == [["Relu"], ["Relu"], ["Abs", "Exp"], ["Abs", "Exp"]]


def test_what_a_condition_returns_serves_the_functions_after_it() -> None:
    graph = written(ops.relu(X))
    report = run(
        graph,
        rule_of(
            lambda x: ops.relu(x),
            lambda x, analysis: ops.abs(x) + analysis,
            when=lambda root: 2.5,
            note=staticmethod(lambda analysis: f"{analysis} is added"),
        ),
    )
    assert kinds(graph) == ["Abs", "Add"]
    assert report.rewrites[0].note == "2.5 is added"


def test_what_a_rule_says_of_a_rewrite_stands_in_the_report() -> None:
    rule = rule_of(
        lambda x: ops.relu(x),
        lambda x: ops.abs(x),
        note=staticmethod(lambda root: f"it was {root.kind}"),
    )
    assert [r.note for r in run(written(ops.relu(X)), rule).rewrites] == ["it was Relu"]


def test_a_result_of_another_type_is_refused_as_an_error() -> None:
    rule = rule_of(lambda x: ops.relu(x), lambda x: ops.cast(x, to=dtypes.float64))
    with pytest.raises(
        RuleError,
        match=r"rule Made at Relu node 'n0': it would change the type from float32\[2, 3\]",
    ):
        run(written(ops.relu(X)), rule)


def test_a_result_whose_shape_would_be_known_less_is_left_alone() -> None:
    graph = written(ops.relu(X), x=tensor(dtypes.float32, "n", 3))
    sizes = graph.add_input("sizes", TensorType(dtypes.int64, (2,)))
    report = run(graph, rule_of(lambda x: ops.relu(x), lambda x: ops.reshape(ops.relu(x), sizes)))
    assert kinds(graph) == ["Relu"]
    assert not report.rewrites


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ((symbol("n"), 3), (4, 3), Change.BETTER),
        ((4, 3), (symbol("n"), 3), Change.WEAKER),
        ((symbol("n"), 3), (symbol("m"), 3), Change.WEAKER),
        ((symbol("_reshape_1"), 3), (symbol("n"), 3), Change.BETTER),
        ((symbol("n"), 3), (symbol("_reshape_1"), 3), Change.WEAKER),
        (None, (4, 3), Change.BETTER),
        ((4, 3), None, Change.WEAKER),
        ((4, 3), (4, 2), Change.CLASH),
        ((4, 3), (4, 3, 1), Change.CLASH),
        ((symbol("n"),), (symbol("n") + 1,), Change.CLASH),
    ],
)
def test_types_are_compared_by_what_they_say(old: Any, new: Any, change: Change) -> None:
    assert compare_types(TensorType(dtypes.float32, old), TensorType(dtypes.float32, new)) is change


def test_better_types_travel_downstream() -> None:
    graph = written(
        ops.relu(ops.reshape(X, Variable("sizes"))), sizes=TensorType(dtypes.int64, (2,))
    )
    run(graph, rule_of(lambda x, s: ops.reshape(x, s), lambda x: ops.reshape(x, np.array([3, 2]))))
    assert graph.outputs[0].shape == (3, 2)


def test_interior_values_with_other_readers_are_left_alone_unless_the_rule_shares() -> None:
    match, build = (lambda x: ops.relu(ops.abs(x))), (lambda x: ops.abs(x))
    abs_of_x = ops.abs(X)
    graph = written(ops.relu(abs_of_x), -abs_of_x)
    assert not run(graph, rule_of(match, build)).rewrites
    assert run(graph, rule_of(match, build, shares=True)).fired == {"Made": 1}
    assert sorted(kinds(graph)) == ["Abs", "Abs", "Neg"]


@pytest.mark.parametrize(
    "build",
    [
        lambda x: ops.relu(ops.relu(x)),
        lambda x: ops.relu(x * 2.0),
        lambda x: ops.relu(ops.neg(ops.neg(x))) + 0.0,
    ],
)
def test_rules_that_feed_themselves_are_stopped_by_name(build: Callable[..., Any]) -> None:
    with pytest.raises(
        RuleError, match=r"rewriting does not come to an end: Made fired \d+ times"
    ) as caught:
        run(written(ops.relu(X)), rule_of(lambda x: ops.relu(x), build))
    assert "disable Made" in str(caught.value)


def test_rules_that_feed_each_other_are_stopped() -> None:
    there = rule_of(lambda x: ops.relu(x), lambda x: ops.clip(x, 0.0))
    back = rule_of(lambda x: ops.clip(x, 0.0), lambda x: ops.relu(x))
    with pytest.raises(RuleError, match="does not come to an end"):
        run(written(ops.relu(X)), there, back)


def test_a_long_chain_of_legitimate_rewrites_is_not_stopped() -> None:
    graph = written(X + 1.0)
    for _ in range(3000):
        graph.set_operand(0, Patch(graph).value(graph.outputs[0] + 1.0))
    optimize_in_place(graph, Selection("basic", only=frozenset({"MergeAddedConstants"})))
    assert len(graph) == 1
    assert evaluate(graph, {"x": np.zeros((2, 3), np.float32)})["y0"].tolist() == [[3001.0] * 3] * 2


@pytest.mark.parametrize("part", ["match", "when", "build", "infer"])
def test_a_rule_that_raises_is_named(part: str) -> None:
    def fail(x: Any) -> Any:
        raise KeyError("no such thing")

    parts: dict[str, Any] = {
        "match": lambda x: ops.relu(x),
        "when": lambda x: None,
        "build": lambda x: x,
    }
    parts[part] = fail
    if part == "infer":
        parts["build"] = lambda x: ops.gather(x, x)
    if part == "match":
        parts["match"] = lambda x: 3
    with pytest.raises(RuleError, match="rule Made") as caught:
        run(written(ops.relu(X)), rule_of(**parts))
    if part != "match":
        assert "Relu node 'n0'" in str(caught.value)
    if part in ("when", "build"):
        assert f"{part} failed: KeyError: 'no such thing'" in str(caught.value)


def test_a_rule_may_not_ask_for_what_its_pattern_does_not_bind() -> None:
    with pytest.raises(RuleError, match="it asks for 'z', which its pattern does not bind"):
        run(written(ops.relu(X)), rule_of(lambda x: ops.relu(x), lambda z: z))


def test_a_rule_that_gives_back_what_was_there_does_not_fire() -> None:
    graph = written(ops.relu(X) + 2.0)
    assert not run(
        graph, rule_of(lambda x, y: x + ops.const(y), lambda x, y: x + np.asarray(y.const))
    ).rewrites
    assert kinds(graph) == ["Relu", "Add"]


def test_dead_nodes_are_removed_with_what_only_they_kept_alive() -> None:
    graph = written(ops.relu(X), ops.exp(ops.abs(Y)))
    graph.outputs[1].uses.clear()
    del graph.outputs[1], graph.output_names[1]
    report = run(graph)
    assert kinds(graph) == ["Relu"]
    assert report.rewrites[0].removed == ("Exp(n2)", "Abs(n1)")


def test_bodies_of_control_flow_are_rewritten() -> None:
    graph, body = with_branch(lambda outer: ops.abs(ops.abs(outer)))
    report = run(graph, rule_of(lambda x: ops.abs(ops.abs(x)), lambda x: ops.abs(x)))
    assert report.fired == {"Made": 2}
    assert kinds(body) == ["Abs"]


def test_work_outside_of_a_body_is_not_pulled_into_it() -> None:
    graph, body = with_branch(lambda outer: ops.abs(outer))
    assert not run(
        graph, rule_of(lambda x: ops.abs(ops.relu(x)), lambda x: ops.relu(x), shares=True)
    ).rewrites
    assert kinds(body) == ["Abs"]


# -- patch -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "expression", "expected"),
    [
        (dtypes.float16, lambda x: x + 1.5, dtypes.float16),
        (dtypes.float64, lambda x: 2 * x, dtypes.float64),
        (dtypes.int32, lambda x: x + 1, dtypes.int32),
        (dtypes.bool_, lambda x: ops.where(x, 0.5, 1.0), dtypes.float32),
    ],
)
def test_numbers_take_the_type_of_their_neighbours(
    dtype: DType, expression: Any, expected: DType
) -> None:
    graph = Graph("g")
    x = graph.add_input("x", TensorType(dtype, (2,)))
    assert Patch(graph).value(expression(x)).dtype == expected


def test_values_may_be_replaced_by_what_reads_them() -> None:
    graph = written(ops.relu(X))
    run(
        graph, rule_of(lambda x: ops.relu(x), lambda root: root.outputs[0] * 2.0, when=_reads_input)
    )
    assert kinds(graph) == ["Relu", "Mul"]


def _reads_input(root: Node) -> None:
    require(len(root.output.uses) == 1 and root.output.is_graph_output, "it has been doubled")


# -- explanations ----------------------------------------------------------------------------------


def test_an_explanation_tells_the_refusal_or_the_best_partial_match() -> None:
    rule = rule_of(
        lambda x, c: ops.relu(ops.abs(x) + ops.const(c)),
        lambda x: x,
        when=lambda c: require(c.tensor.size == 1, "the constant varies"),
    )
    (fits,) = explain(rule, written(ops.relu(ops.abs(X) + C)))
    assert (fits.fires, fits.kind, fits.node, str(fits)) == (
        True,
        "Relu",
        "n2",
        "Relu node 'n2': fires",
    )
    (refused,) = explain(rule, written(ops.relu(ops.abs(X) + np.ones(3, np.float32))))
    assert (refused.complete, refused.reason) == (True, "the constant varies")
    (partial,) = explain(rule, written(ops.relu(ops.abs(X) + Y)))
    assert not partial.complete
    assert partial.reason == "c must be a constant"
    assert partial.covered == ("Relu(n2)", "Add(n1)", "Abs(n0)")
    assert "matched so far: Relu(n2) ← Add(n1) ← Abs(n0)" in str(partial)
    (nothing,) = explain(rule, written(ops.abs(X)))
    assert nothing.reason == "the graph has no Relu node"


def test_why_looks_at_the_graph_after_the_other_rules() -> None:
    graph = written(ops.relu(ops.identity(ops.relu(X))))
    (fits,) = why(graph, "RemoveRepeated")
    assert fits.fires
    assert len(graph) == 3
