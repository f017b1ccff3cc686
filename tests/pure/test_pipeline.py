"""The pipeline: levels and options, the report, folding, common subexpressions, inlining."""

from typing import Any

import numpy as np
import pytest

import infuse
from infuse import dtypes, ops
from infuse.errors import OptionError, RuleError
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Graph, Value, constant
from infuse.ir.types import tensor
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.samples import Ints
from infuse.ops.core.sizes import int64s
from infuse.passes.cse import EliminateCommonSubexpressions
from infuse.passes.run import check_order, optimize_in_place
from infuse.passes.selection import Selection
from infuse.rewrite import Pass, Patch, Report, Rule
from infuse.rewrite.record import Rewrite
from tests.pure.rewriting import X, Y, kinds, with_branch, written

# -- pipeline --------------------------------------------------------------------------------------


def test_options_choose_rules_by_name_and_level() -> None:
    def left(**options: Any) -> list[str]:
        graph = written(ops.identity(X) * ops.sigmoid(X))
        optimize_in_place(graph, Selection(**options))
        return kinds(graph)

    assert left() == ["Swish"]
    assert left(level="none") == ["Identity", "Sigmoid", "Mul"]
    assert left(level="basic") == ["Sigmoid", "Mul"]
    assert left(disable=frozenset({"FuseSwish"})) == ["Sigmoid", "Mul"]
    assert left(only=frozenset({"RemoveIdentity"})) == ["Sigmoid", "Mul"]
    with pytest.raises(OptionError, match=r"no rule 'FuseSwitch'.*did you mean 'FuseSwish'"):
        left(disable=frozenset({"FuseSwitch"}))
    with pytest.raises(OptionError, match="no level 'more'"):
        left(level="more")


def test_one_name_and_classes_of_rules_are_taken_as_they_are() -> None:
    class Mine(Rule):
        """Swish by another name."""

        def match(self, x: Any) -> Any:
            return x * ops.sigmoid(x)

        def build(self, x: Value) -> Any:
            return ops.mish(x)

    graph = written(ops.identity(X) * ops.sigmoid(X))
    assert kinds(infuse.optimize(graph, infuse.Rules(disable="FuseSwish"))) == ["Sigmoid", "Mul"]
    assert kinds(infuse.optimize(graph, infuse.Rules(only="RemoveIdentity"))) == ["Sigmoid", "Mul"]
    for extra in (Mine, [Mine], Mine(), (Mine(),)):
        assert kinds(infuse.optimize(graph, infuse.Rules(extra=extra))) == ["Mish"]  # type: ignore[arg-type]
    with pytest.raises(RuleError, match="neither a Rule nor a Pass"):
        infuse.optimize(graph, infuse.Rules(extra=[3]))  # type: ignore[list-item]
    with pytest.raises(OptionError, match="disable takes names of rules, not 3"):
        infuse.optimize(graph, infuse.Rules(disable=3))  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"no rule 'zzz'.*infuse why --list"):
        infuse.optimize(graph, infuse.Rules(disable="zzz"))


def test_rules_of_the_user_take_part_and_go_first() -> None:
    class Mine(Rule):
        """Swish by another name."""

        def match(self, x: Any) -> Any:
            return x * ops.sigmoid(x)

        def build(self, x: Value) -> Any:
            return ops.mish(x)

    class Optional(Mine):
        opt_in = True

    graph = written(X * ops.sigmoid(X))
    assert optimize_in_place(graph, Selection(extra=(Mine(),))).fired["Mine"] == 1
    assert kinds(graph) == ["Mish"]
    graph = written(X * ops.sigmoid(X))
    optimize_in_place(graph, Selection(extra=(Optional(),)))
    assert kinds(graph) == ["Swish"]
    graph = written(X * ops.sigmoid(X))
    optimize_in_place(graph, Selection(extra=(Optional(),), enable=frozenset({"Optional"})))
    assert kinds(graph) == ["Mish"]


def test_a_pass_must_stand_after_those_that_it_requires() -> None:
    class Late(Pass):
        requires = ("EliminateCommonSubexpressions",)

    check_order([EliminateCommonSubexpressions(), Late()])
    with pytest.raises(RuleError, match="pass Late must run after EliminateCommonSubexpressions"):
        check_order([Late(), EliminateCommonSubexpressions()])


@pytest.mark.parametrize("checks", ["1", "2"])
def test_a_pass_or_rule_that_breaks_the_graph_is_named(
    checks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Breaker(Pass):
        def run(self, graph: Graph, report: Report) -> None:
            graph.outputs[0].uses.clear()
            report.add(Rewrite("Breaker", (), ()))

    monkeypatch.setenv("INFUSE_CHECK", checks)
    with pytest.raises(RuleError, match="Breaker left a broken graph"):
        optimize_in_place(written(ops.relu(X)), Selection(extra=(Breaker(),)))


def test_the_report_tells_what_each_rule_did() -> None:
    graph = written(ops.identity(ops.identity(X)) + 0.0)
    report = optimize_in_place(graph, Selection("basic"))
    assert (report.nodes_before, report.nodes_after) == (3, 0)
    facts = report.to_dict()
    assert facts["nodes"] == {"before": 3, "after": 0}
    assert facts["rules"]["RemoveIdentity"] == {
        "fired": 2,
        "saved": 2,
        "level": "basic",
    }
    assert facts["fired"] == {"RemoveIdentity": 2, "RemoveNeutral": 1}
    assert [r["rule"] for r in facts["rewrites"]] == [
        "RemoveIdentity",
        "RemoveIdentity",
        "RemoveNeutral",
    ]
    lines = str(report).splitlines()
    assert lines[0].startswith("3 → 0 nodes in 0.")
    assert lines[1].split() == [
        "RemoveIdentity",
        "×2",
        "-2",
        "nodes,",
        "at",
        "Identity(n0),",
        "Identity(n1)",
    ]
    assert "Identity 2→0" in lines[-1]


@pytest.mark.row("G16")
@pytest.mark.parametrize(("size", "fires"), [(64, True), (600, False)])
def test_large_weights_that_others_read_are_not_copied(size: int, fires: bool) -> None:
    weights = constant(np.ones((size, size), np.float32))
    graph = written(
        ops.matmul(X, weights) * 0.5, ops.gather(weights, Y), x=(2, size), y=Ints((2,), 0, 4)
    )
    report = optimize_in_place(graph, Selection("all"))
    assert (report.fired["FuseMatMulScale"] == 1) is fires


# -- folding and common subexpressions -------------------------------------------------------------


@pytest.mark.row("G1")
def test_constants_are_folded_unless_they_would_grow_too_much() -> None:
    small = written(ops.relu(X) + ops.exp(np.float32(0)) * 3.0)
    optimize_in_place(small, Selection("basic"))
    assert kinds(small) == ["Relu", "Add"]
    big = written(X + ops.expand(np.float32(1), int64s(600, 600)), x=(600, 600))
    report = optimize_in_place(
        big, Selection("basic", fold_limit=1000, disable=frozenset({"RemoveExpandBeforeBroadcast"}))
    )
    assert kinds(big) == ["Expand", "Add"]
    assert report.notes == [
        "n0 is not folded: Expand would turn 20 bytes of constants into 1440000"
    ]


@pytest.mark.row("G1")
def test_a_transposed_weight_is_a_view_of_the_stored_one() -> None:
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    graph = written(ops.matmul(X, ops.transpose(weights)), x=(2, 4))
    optimize_in_place(graph, Selection("basic"))
    product = graph.outputs[0].producer
    assert product is not None
    assert product.inputs[1] is not None
    assert np.shares_memory(product.inputs[1].const, weights)


@pytest.mark.row("G1")
def test_a_constant_that_cannot_be_computed_stays_with_a_note() -> None:
    graph = written(ops.relu(X) + ops.gather(np.ones(2, np.float32), np.array(5)))
    report = optimize_in_place(graph, Selection("basic"))
    assert "Gather" in kinds(graph)
    assert "an index of Gather lies outside" in report.notes[0]


@pytest.mark.row("G10")
def test_equal_work_and_equal_constants_are_kept_once() -> None:
    first, second = (np.arange(3000, dtype=np.float32).copy() for _ in range(2))
    graph = written(ops.relu(X + first), ops.relu(second + X), x=(3000,))
    optimize_in_place(graph, Selection("basic"))
    assert kinds(graph) == ["Add", "Relu"]
    assert graph.outputs[0] is graph.outputs[1]


@pytest.mark.row("G10")
def test_constants_that_differ_anywhere_are_not_merged() -> None:
    first = np.arange(5000, dtype=np.float32)
    second = first.copy()
    second[-1] = 0
    arrays = (first, second, first.reshape(50, 100), first.astype(np.int32))
    graph = written(*(ops.cast(ops.identity(a), to=dtypes.float64) + 1 for a in arrays))
    EliminateCommonSubexpressions().run(graph, Report())
    assert len(graph) == 12


@pytest.mark.row("G10")
def test_random_numbers_are_not_common() -> None:
    draw = [Call("RandomNormalLike", (X,)) for _ in range(2)]
    graph = written(draw[0] - draw[1])
    optimize_in_place(graph, Selection("basic"))
    assert len(graph) == 3


@pytest.mark.row("G10")
def test_sizes_known_to_be_equal_are_one_value() -> None:
    n = tensor(dtypes.float32, "n", 3)
    rows = ops.gather(ops.shape(ops.relu(X)), int64s(0))
    graph = written(ops.expand(Y, ops.concat(rows, int64s(3), axis=0)), ops.shape(X), x=n, y=(1, 3))
    optimize_in_place(graph, Selection("basic"))
    assert kinds(graph) == ["Shape", "Expand"]


@pytest.mark.row("C7", "G1")
@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_that_is_taken_for_sure_takes_the_place_of_the_if(condition: bool) -> None:
    graph, _ = with_branch(lambda outer: ops.abs(outer) * 3.0)
    choice = graph.outputs[1].producer
    assert choice is not None
    other = choice.subgraphs["else_branch"]
    for node in list(other.unordered_nodes):
        other.set_operand(
            0, Patch(other).value(node.inputs[0] if node.kind == "Mul" else node.output)
        )
    choice.set_operand(0, constant(np.asarray(condition)))
    feeds = {"x": np.array([[-1, 2, 3], [4, 5, 6]], np.float32), "condition": np.asarray(condition)}
    expected = evaluate(graph, feeds)["chosen"]
    optimize_in_place(graph, Selection("basic"))
    verify(graph)
    assert "If" not in kinds(graph)
    assert evaluate(graph, feeds)["chosen"].tolist() == expected.tolist()


def part(start: int, end: int, axis: int = 1, step: int = 1) -> Call:
    return ops.slice(X, *(int64s(n) for n in (start, end, axis, step)))


@pytest.mark.row("G8", "G9")
@pytest.mark.parametrize(
    ("parts", "left"),
    [
        ((part(0, 2), part(2, 9)), ["Split"]),
        ((part(-4, 99), part(0, 1), part(1, 2)), ["Split"]),
        ((part(0, 2), part(3, 6)), ["Slice", "Slice"]),
        ((part(0, 3), part(2, 6)), ["Slice", "Slice"]),
        ((part(0, 2, 0), part(2, 6)), ["Slice"]),
        ((part(0, 6, 1, 2), part(1, 6, 1, 2)), ["Slice", "Slice"]),
        ((part(0, 2),), ["Slice"]),
    ],
)
def test_slices_that_cut_one_axis_into_pieces_are_one_split(
    parts: tuple[Call, ...], left: list[str]
) -> None:
    graph = written(*parts, x=(2, 6))
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(2, 6)}
    expected = evaluate(graph, feeds)
    optimize_in_place(
        graph, Selection("basic", disable=frozenset({"RemoveSlice"} if left == ["Slice"] else ()))
    )
    verify(graph)
    assert set(kinds(graph)) == set(left)
    assert all(
        np.array_equal(expected[name], array) for name, array in evaluate(graph, feeds).items()
    )


@pytest.mark.row("G9")
def test_what_is_sliced_apart_and_joined_again_is_left_alone() -> None:
    graph = written(ops.relu(ops.concat(part(0, 2), part(2, 6), axis=1)), x=(2, 6))
    optimize_in_place(graph, Selection("basic"))
    assert kinds(graph) == ["Relu"]


FOLDING = frozenset({"FoldConstants"})


@pytest.mark.row("G1")
def test_many_small_constants_blow_up_a_file_too() -> None:
    wide = [ops.expand(np.float32(n), int64s(100, 1000)) for n in range(60)]
    graph = written(*(ops.relu(X) + each for each in wide), x=(100, 1000))
    report = optimize_in_place(graph, Selection("basic", only=FOLDING))
    assert kinds(graph).count("Expand") == 19
    assert len([note for note in report.notes if "bytes were added before" in note]) == 19


@pytest.mark.row("G1")
def test_a_chain_of_constants_is_folded_to_its_end_on_one_budget() -> None:
    value: Any = ops.expand(np.float32(1), int64s(500, 500))
    for number in range(40):
        value = ops.exp(value) * np.float32(number)
    graph = written(ops.relu(X) + value, x=(500, 500))
    report = optimize_in_place(graph, Selection("basic", only=FOLDING))
    assert "Exp" not in kinds(graph)
    assert not report.notes


@pytest.mark.row("G1")
@pytest.mark.parametrize(
    ("side", "left"), [(1000, ["MatMul", "Mul", "MatMul"]), (100, ["MatMul", "MatMul"])]
)
def test_weights_that_others_read_are_not_copied_by_folding(side: int, left: list[str]) -> None:
    weights = np.random.default_rng(0).standard_normal((side, side)).astype(np.float32)
    shared = Variable("w")
    graph = written(ops.matmul(X, shared), ops.matmul(X, ops.exp(shared)), x=(2, side), w=weights)
    optimize_in_place(graph, Selection("basic", only=FOLDING))
    assert sorted(kinds(graph)) == sorted("Exp" if kind == "Mul" else kind for kind in left)
