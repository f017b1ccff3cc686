"""The report page in a browser: it loads nothing, shows both graphs, and highlights what a rewrite
did.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.analysis import Comparison, write_report
from infuse.ir.parser import parse
from infuse.rewrite import Guilty, Verdict
from tests.browser.chromium import Page
from tests.browser.report_page import browser, choose, opened, page, pixels, small
from tests.support.large import FAMILIES

__all__ = ["browser", "page"]
pytestmark = pytest.mark.row("G38")


def assert_well_placed(page: Page, comparison: Comparison) -> None:
    """Every node has a place of its own, below those that it reads, and every edge a way."""
    for name, side in (("before", comparison.before), ("after", comparison.after)):
        boxes = page.run("return infuseReport.boxes(arguments[0])", name)
        assert (
            len(boxes)
            == page.side(name)["placed"]
            == len(side.nodes) + len(side.inputs) + len(side.outputs)
        )
        assert page.side(name)["routed"] == len(side.edges)
        for above, below, _ in side.edges:
            assert boxes[above][1] + boxes[above][3] < boxes[below][1]
        assert not overlapping(boxes)


def overlapping(boxes: list[list[float]]) -> list[tuple[list[float], list[float]]]:
    """Pairs of boxes (left, top, width, height) that share some area."""
    found = []
    ordered = sorted(boxes, key=lambda box: box[1])
    for index, (left, top, width, height) in enumerate(ordered):
        for other in ordered[index + 1 :]:
            if other[1] >= top + height:
                break
            if left < other[0] + other[2] and other[0] < left + width:
                found.append(([left, top, width, height], other))
    return found


# -- loading ---------------------------------------------------------------------------------------


def test_shapes_are_written_with_their_expressions(page: tuple[Page, Comparison]) -> None:
    shown, _ = page
    texts = {
        "float32[1, 64, 56]": "1×64×56",
        "float32[1, min(512, seq)]": "1×min(512, seq)",
        "int64[max(1, min(a, b)), 2*seq, 4]": "max(1, min(a, b))×2*seq×4",
        "bool[]": "scalar",
        "float32": "float32",
    }
    for text, shape in texts.items():
        assert shown.run("return infuseReport.shape(arguments[0])", text) == shape


def test_the_page_loads_without_a_word_and_without_the_network(
    page: tuple[Page, Comparison],
) -> None:
    shown, comparison = page
    assert shown.said() == []
    addresses = shown.requested()
    assert addresses
    assert {address.partition(":")[0] for address in addresses} <= {"file", "data", "blob"}
    assert [a for a in addresses if a.startswith("file:")] == [shown.browser.current_url]
    assert_well_placed(shown, comparison)


def test_totals_and_tables_show_the_figures(page: tuple[Page, Comparison]) -> None:
    shown, comparison = page
    assert shown.browser.title == "a model · Infuse"
    totals = shown.find("#totals").text
    assert f"{comparison.after.totals.nodes} from {comparison.before.totals.nodes}" in totals
    assert "Memory access" in totals
    shown.find("#tab-rules").click()
    rows = {text.replace("\u200b", "").strip() for text in shown.texts("#rules td:first-child")}
    assert rows == set(comparison.rules)
    shown.find("#tab-operators").click()
    kinds = {
        text.replace("\u200b", "").strip() for text in shown.texts("#operators td:first-child")
    }
    assert kinds == set(comparison.before.totals.kinds) | set(comparison.after.totals.kinds)
    shown.find("#tab-notes").click()
    assert "A FLOP is one operation" in shown.find("#notes").text


def test_the_verdict_stands_beside_the_title(browser: Any, tmp_path: Path) -> None:
    graph = small()
    better = infuse.optimize(graph)
    guilty = Verdict(True, guilty=(Guilty("Bad", ("Add(a)",), "it differs"),))
    refused = Verdict(False, reason="too big")
    for verdict, badge in ((None, ""), (guilty, "✓ verified"), (refused, "not verified")):
        better.report.verification = verdict
        write_report(tmp_path / "report.html", graph, better)
        shown = Page(browser, tmp_path / "report.html")
        assert shown.find("#verdict").text == badge
        assert shown.find("#verdict").get_attribute("title") == (str(verdict) if verdict else "")


def test_faults_of_the_exporter_are_a_card_that_opens_the_notes(
    browser: Any, tmp_path: Path
) -> None:
    graph = small()
    better = infuse.optimize(graph)
    write_report(tmp_path / "report.html", graph, better, faults=["pool (a.py:3): <other>"])
    shown = Page(browser, tmp_path / "report.html")
    assert shown.find("#faults").text == "Exporter\n1 fault"
    shown.find("#faults").click()
    assert "Exporter: pool (a.py:3): <other>" in shown.find("#notes").text


# -- rewrites --------------------------------------------------------------------------------------


def test_a_click_on_a_rewrite_shows_it_on_both_sides(page: tuple[Page, Comparison]) -> None:
    shown, comparison = page
    index = next(i for i, s in enumerate(comparison.steps) if s.rule == "FuseErfGelu")
    before = shown.side("before")["view"]
    shown.run("document.getElementById(`list-${arguments[0]}`).scrollIntoView()", index)
    shown.find(f"#list-{index}").click()
    assert shown.state["rewrite"] == index
    assert shown.marked("before", "removed") == comparison.consumed(index)
    assert shown.marked("after", "created") == comparison.produced(index)
    assert "0.5 · x · (1 + erf(x / √2)) → Gelu(x)" in shown.find("#detail .equation").text
    assert "FuseErfGelu" in shown.find("#detail h3").text
    shown.settle()
    assert shown.side("before")["view"] != before
    assert pixels(shown, "before", "removed") > 100
    assert pixels(shown, "after", "created") > 50
    assert shown.said() == []


def test_every_rewrite_marks_exactly_what_was_recorded(page: tuple[Page, Comparison]) -> None:
    shown, comparison = page
    assert len(comparison.steps) >= 5
    for index in range(len(comparison.steps)):
        shown.run("infuseReport.choose(arguments[0])", index)
        assert shown.marked("before", "removed", "created", "heir") == comparison.consumed(index)
        assert shown.marked("after", "created") == comparison.produced(index)
        assert shown.marked("after", "heir") == comparison.inherited(index)
    shown.run("infuseReport.choose(-1)")
    assert shown.side("before")["ids"] == shown.side("after")["ids"] == []
    assert shown.find("#detail").text == ""
    shown.settle()
    assert pixels(shown, "before", "removed") == 0


def test_rules_filter_the_rewrites(page: tuple[Page, Comparison]) -> None:
    shown, comparison = page
    rule, effect = next(iter(comparison.rules.items()))
    shown.find("#tab-rules").click()
    shown.find("#rules tbody tr").click()
    assert shown.texts("#list .rule") == [rule] * effect.fired
    shown.find("#filter button").click()
    assert len(shown.all("#list .rule")) == len(comparison.steps)


# -- other models ----------------------------------------------------------------------------------


def test_hostile_names_stay_names(browser: Any, tmp_path: Path) -> None:
    graph = small()
    graph.nodes[0].name = name = "</script><img src=x onerror=\"document.title='broken'\">"
    shown, _ = opened(browser, tmp_path, graph, "none")
    choose(shown, "conv")
    assert name in shown.find("#detail").text
    assert shown.browser.title == "a model · Infuse"
    assert shown.said() == []


def test_bodies_and_untouched_graphs_are_shown(browser: Any, tmp_path: Path) -> None:
    graph = parse("""graph "g" (%x: float32[5], %c: bool[]) {
      %y = If(%c) {
        then_branch = graph "t" () {
          %a = Exp(%x)
          return a = %a
        }
        else_branch = graph "e" () {
          %b = Sin(%x)
          return b = %b
        }
      }
      return y = %y
    }""")
    shown, comparison = opened(browser, tmp_path, graph)
    assert_well_placed(shown, comparison)
    choose(shown, "sin")
    assert "else_branch" in shown.find("#detail").text
    assert "No rewrite fired" in shown.find("#list").text
    assert shown.said() == []


def test_a_graph_without_nodes_is_shown(browser: Any, tmp_path: Path) -> None:
    shown, comparison = opened(
        browser, tmp_path, parse('graph "g" (%x: float32[5]) {\n  return y = %x\n}')
    )
    assert_well_placed(shown, comparison)
    assert shown.said() == []


@pytest.mark.timeout(600)
def test_five_thousand_nodes_can_be_used(
    browser: Any, tmp_path: Path, rng: np.random.Generator
) -> None:
    graph = FAMILIES["transformer"](5000)
    assert sum(len(inner) for inner in graph.all_graphs()) >= 4500
    shown, comparison = opened(
        browser, tmp_path, graph, infuse.Rules(only=["FuseErfGelu", "FuseLayerNormalization"])
    )
    assert_well_placed(shown, comparison)
    for index in rng.choice(len(comparison.steps), 5, replace=False).tolist():
        shown.run("infuseReport.choose(arguments[0])", index)
        assert shown.marked("before", "removed") == comparison.consumed(index)
        assert shown.marked("after", "created") == comparison.produced(index)
    assert len(shown.all("#list .entry")) < 60
    shown.find("#fit").click()
    shown.settle()
    zooms = [shown.side(name)["view"]["zoom"] for name in ("before", "after")]
    assert all(a < 0.2 for a in zooms)
    assert all(a <= b for a, b in pairwise(zooms))
    assert shown.said() == []
