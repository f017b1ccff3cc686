"""The record of an optimization, from the rewrite that fired to the page: who became what, and what
was saved.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import ops
from infuse.analysis import Comparison, compare, render, write_report
from infuse.analysis.comparison import quantity
from infuse.analysis.cost import NOTHING
from infuse.errors import GraphError, OptionError
from infuse.ir.clone import clone
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.passes.run import optimize_in_place
from infuse.passes.selection import Selection
from infuse.rewrite import Rule
from tests.pure.rewriting import X, rule_of, written
from tests.support.generators.networks import random_network

pytestmark = pytest.mark.row("G38")


def optimized(graph: Graph, *rules: Rule, **options: Any) -> tuple[Graph, Comparison]:
    """The result, and the comparison with the original, of the given rules alone (of all, where
    none are given).
    """
    result = clone(graph)
    if rules:
        options["only"] = frozenset(r.name for r in rules)
    result.report = optimize_in_place(result, Selection(extra=rules, **options))
    return result, compare(graph, result)


def named(name: str, match: Any, build: Any) -> Rule:
    rule = rule_of(match, build)
    made: Rule = type(name, (type(rule),), {"__doc__": f"{name} at work"})()
    return made


def kinds(comparison: Comparison, ids: list[int]) -> list[str]:
    nodes = {n.id: n.kind for n in (*comparison.before.nodes, *comparison.after.nodes)}
    return [nodes[i] for i in ids]


# -- who became what -------------------------------------------------------------------------------


def test_copies_of_a_graph_have_the_same_nodes() -> None:
    graph = written(ops.relu(ops.exp(X)))
    assert [n.serial for n in clone(graph).nodes] == [n.serial for n in graph.nodes]
    assert len({n.serial for n in (*graph.nodes, *written(ops.exp(X)).nodes)}) == 3


def test_a_rewrite_knows_its_nodes_through_those_before_and_behind_it() -> None:
    first = named("First", lambda a: ops.neg(ops.exp(a)), lambda a: ops.sin(a))
    second = named("Second", lambda a: ops.abs(ops.sin(a)), lambda a: ops.cos(a))
    _, found = optimized(written(ops.relu(ops.abs(ops.neg(ops.exp(X))))), first, second)
    assert [s.rule for s in found.steps] == ["First", "Second"]
    assert [kinds(found, found.consumed(i)) for i in (0, 1)] == [
        ["Exp", "Neg"],
        ["Exp", "Neg", "Abs"],
    ]
    assert [kinds(found, found.produced(i)) for i in (0, 1)] == [["Cos"], ["Cos"]]
    assert [s.nodes_saved for s in found.steps] == [1, 1]
    assert list(found.labels.values()) == [str(found.labels[found.steps[0].created[0]])]
    assert found.labels[found.steps[0].created[0]].startswith("Sin(")
    assert found.rules["First"].about == "First at work"


def test_what_stands_for_a_removed_node_is_told() -> None:
    _, found = optimized(written(ops.identity(ops.exp(X)) + ops.exp(X)))
    by_rule = {s.rule: i for i, s in enumerate(found.steps)}
    identity, common = by_rule["RemoveIdentity"], by_rule["EliminateCommonSubexpressions"]
    assert kinds(found, found.inherited(identity)) == ["Exp"]
    assert kinds(found, found.inherited(common)) == ["Exp"]
    assert found.inherited(common)[0] in {n.id for n in found.after.nodes}
    assert found.produced(identity) == found.produced(common) == []


def test_nodes_of_an_inlined_branch_stem_from_the_whole_choice() -> None:
    graph = parse("""graph "g" (%x: float32[5]) {
      %y = If(bool[]{True}) {
        then_branch = graph "t" () {
          %a = Exp(%x)
          return a = %a
        }
        else_branch = graph "e" () {
          %b = Sin(%x)
          %c = Cos(%b)
          return c = %c
        }
      }
      return y = %y
    }""")
    _, found = optimized(graph)
    step = next(i for i, s in enumerate(found.steps) if s.rule == "InlineConstantIf")
    assert sorted(kinds(found, found.consumed(step))) == ["Cos", "Exp", "If", "Sin"]
    assert kinds(found, found.produced(step)) == ["Exp"]
    assert found.steps[step].nodes_saved == 3
    assert ["else_branch" in n.body for n in found.before.nodes if n.kind in ("Exp", "Sin")] == [
        False,
        True,
    ]


@pytest.mark.parametrize("seed", range(24))
def test_everything_that_changed_is_accounted_for(seed: int) -> None:
    network = random_network(seed)
    _, found = optimized(network.graph)
    before, after = ({n.id for n in side.nodes} for side in (found.before, found.after))
    removed = {id for s in found.steps for id in s.removed}
    created = {id for s in found.steps for id in s.created}
    assert before - after <= removed, "a node is gone that no rewrite removed"
    assert after - before <= created, "a node has come that no rewrite created"
    assert not removed & after - created
    assert (
        sum(s.nodes_saved for s in found.steps)
        == found.before.totals.nodes - found.after.totals.nodes
    )
    for index in range(len(found.steps)):
        assert set(found.consumed(index)) <= before
        assert {*found.produced(index), *found.inherited(index)} <= after
        assert not set(found.produced(index)) & set(found.inherited(index))


# -- what it saved ---------------------------------------------------------------------------------


def test_the_savings_of_all_rewrites_are_the_difference_of_the_totals() -> None:
    gelu = 0.5 * X * (1.0 + ops.erf(X / float(np.sqrt(2))))
    _, found = optimized(written(ops.identity(gelu) + ops.relu(ops.relu(gelu)), x=(4, 8)))
    assert len(found.steps) >= 3
    saved = sum((s.saved for s in found.steps), NOTHING)
    assert found.before.totals.cost - found.after.totals.cost == saved
    assert sum((e.saved for e in found.rules.values()), NOTHING) == saved
    effect = found.rules["FuseErfGelu"]
    assert (effect.fired, effect.saved.flops, effect.saved.bytes > 0) == (
        effect.nodes // 4,
        0,
        True,
    )
    assert "Gelu(x)" in effect.about


def test_the_text_shows_totals_and_rules() -> None:
    _, found = optimized(written(ops.identity(ops.exp(X)), x=(100, 200)))
    text = str(found)
    assert re.search(r"nodes +2 +1 +-50%", text)
    assert re.search(r"FLOPs +20 k +20 k +\+0%", text)
    assert re.search(r"RemoveIdentity +×1 +-1 nodes, ±0 FLOPs", text)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (9999, "9,999"),
        (12345, "12.3 k"),
        (4_089_000_000, "4.09 G"),
        (-2_500_000, "-2.5 M"),
    ],
)
def test_quantities(number: int, text: str) -> None:
    assert quantity(number) == text


def test_open_sizes_are_told() -> None:
    graph = parse("""graph "g" (%x: float32[batch, 8]) {
      %y = Identity(%x)
      %z = Exp(%y)
      return z = %z
    }""")
    result = infuse.optimize(graph)
    assert compare(graph, result).before.totals.cost.flops == 8
    assert "counted with batch = 1" in str(compare(graph, result))
    assert compare(graph, result, {"batch": 3}).after.totals.cost.flops == 24


# -- as data ---------------------------------------------------------------------------------------


def test_the_report_itself_names_the_heirs() -> None:
    report = infuse.optimize(written(ops.relu(ops.identity(ops.exp(X))))).report
    (entry,) = [r for r in report.to_dict()["rewrites"] if r["rule"] == "RemoveIdentity"]
    assert [text.partition("(")[0] for text in entry["heirs"]] == ["Exp"]
    assert json.dumps(report.to_dict())


def test_json_holds_what_the_page_shows(tmp_path: Path) -> None:
    graph = written(ops.identity(ops.exp(X)))
    result, found = optimized(graph)
    write_report(tmp_path / "report.json", graph, result)
    data = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert data == json.loads(json.dumps(found.to_dict()))
    assert data["before"]["totals"]["nodes"] == 2
    assert data["before"]["edges"][0][2] == "float32[2, 3]"
    assert [r["rule"] for r in data["rewrites"]] == ["RemoveIdentity"]
    node = data["after"]["nodes"][0]
    assert (node["kind"], node["outputs"][0]["type"], node["cost"]["flops"]) == (
        "Exp",
        "float32[2, 3]",
        6,
    )


def test_the_page_is_one_file_that_loads_nothing(tmp_path: Path) -> None:
    graph = written(ops.identity(ops.exp(X)))
    result = infuse.optimize(graph)
    write_report(tmp_path / "report.html", graph, result, title="my model")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<title>my model · Infuse</title>" in page
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:)""", page)
    assert "sourceMappingURL" not in page
    assert "{{" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "Permission is hereby granted" in page
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_names_cannot_break_out_of_the_page() -> None:
    graph = written(ops.identity(ops.exp(X)))
    graph.nodes[0].name = "</script><script>alert(1)</script>{{style}}"
    page = render(compare(graph, infuse.optimize(graph)), "<b>title</b>")
    assert "alert(1)</script>" not in page
    assert "<b>title</b>" not in page
    assert page.count("--canvas: #141922") == 1, "a name was taken for a part of the page"


def test_bad_reports_are_refused(tmp_path: Path) -> None:
    graph = written(ops.identity(ops.exp(X)))
    result = infuse.optimize(graph)
    with pytest.raises(GraphError, match="no report"):
        compare(graph, graph)
    with pytest.raises(GraphError, match="which the original graph does not have"):
        compare(written(ops.identity(ops.exp(X))), result)
    with pytest.raises(OptionError, match=r"ends neither in \.html nor in \.json"):
        write_report(tmp_path / "report.pdf", graph, result)
    with pytest.raises(OptionError, match="cannot be written"):
        write_report(tmp_path / "missing" / "report.html", graph, result)
