"""The report page in a browser: it loads nothing, shows both graphs, and highlights what a rewrite
did.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import ops
from infuse.analysis import Comparison, compare, write_report
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.rewrite import Guilty, Verdict
from infuse.testing.large import FAMILIES
from tests.browser.chromium import Page, chromium
from tests.pure.rewriting import X, written

pytestmark = pytest.mark.row("G38")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


def small() -> Graph:
    """A few layers with something for many rules to do."""
    hidden = ops.conv(X, np.ones((6, 3, 3, 3), np.float32), name="first")
    gate = hidden * ops.sigmoid(ops.identity(hidden))
    gelu = 0.5 * gate * (1.0 + ops.erf(gate / float(np.sqrt(2))))
    twice = ops.relu(ops.relu(gelu)) + ops.relu(gelu)
    graph = written(
        ops.transpose(ops.transpose(twice, perm=(0, 2, 3, 1)), perm=(0, 3, 1, 2)), x=(1, 3, 12, 12)
    )
    for number, node in enumerate(graph.nodes):
        node.name = f"{node.kind}_{number}"
    return graph


def opened(browser: Any, folder: Path, graph: Graph, **options: Any) -> tuple[Page, Comparison]:
    better = infuse.optimize(graph, **options)
    write_report(folder / "report.html", graph, better, title="a model")
    return Page(browser, folder / "report.html"), compare(graph, better)


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> tuple[Page, Comparison]:
    return opened(browser, tmp_path, small())


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
    rows = {
        row.text.split("\n")[0].replace("\u200b", "").split(" ")[0]
        for row in shown.all("#rules tbody tr")
    }
    assert rows == set(comparison.rules)
    shown.find("#tab-operators").click()
    kinds = {
        cell.text.replace("\u200b", "") for cell in shown.all("#operators tbody td:first-child")
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


# -- rewrites --------------------------------------------------------------------------------------


def test_a_click_on_a_rewrite_shows_it_on_both_sides(page: tuple[Page, Comparison]) -> None:
    shown, comparison = page
    index = next(i for i, s in enumerate(comparison.steps) if s.rule == "FuseErfGelu")
    before = shown.side("before")["view"]
    shown.run("document.getElementById(`rewrite-${arguments[0]}`).scrollIntoView()", index)
    shown.find(f"#rewrite-{index}").click()
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


def pixels(page: Page, side: str, color: str) -> int:
    """Pixels of the graph in exactly this colour of the theme."""
    found: int = page.run(
        """
        const [side, color] = arguments;
        const canvas = document.querySelector(`#pane-${side} canvas`);
        const probe = document.createElement("canvas").getContext("2d");
        probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${color}`);
        probe.fillRect(0, 0, 1, 1);
        const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let count = 0;
        for (let i = 0; i < data.length; i += 4)
            count += data[i] === r && data[i + 1] === g && data[i + 2] === b;
        return count;
        """,
        side,
        color,
    )
    return found


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
    assert [row.text for row in shown.all("#list .rule")] == [rule] * effect.fired
    shown.find("#filter button").click()
    assert len(shown.all("#list .rule")) == len(comparison.steps)


# -- looking around --------------------------------------------------------------------------------


def test_the_wheel_zooms_about_the_pointer_and_dragging_moves(
    page: tuple[Page, Comparison],
) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    shown, _ = page
    canvas = shown.find("#pane-before canvas")
    first = shown.side("before")["view"]
    origin = ScrollOrigin.from_element(canvas, 60, 40)
    ActionChains(shown.browser).scroll_from_origin(origin, 0, -400).perform()
    second = shown.side("before")["view"]
    assert second["zoom"] > 1.5 * first["zoom"]
    x, y = canvas.size["width"] / 2 + 60, canvas.size["height"] / 2 + 40
    for axis, at in (("x", x), ("y", y)):
        under = [view[axis] + at / view["zoom"] for view in (first, second)]
        assert under[0] == pytest.approx(under[1], abs=1.5)
    ActionChains(shown.browser).drag_and_drop_by_offset(canvas, 50, -30).perform()
    third = shown.side("before")["view"]
    assert third["x"] == pytest.approx(second["x"] - 50 / second["zoom"])
    assert third["y"] == pytest.approx(second["y"] + 30 / second["zoom"])
    assert shown.side("after")["view"]["zoom"] != third["zoom"]


def test_a_node_tells_its_type_attributes_and_history(page: tuple[Page, Comparison]) -> None:
    from selenium.webdriver import ActionChains

    shown, comparison = page
    conv = next(i for i, n in enumerate(comparison.before.nodes) if n.kind == "Conv")
    left, top, width, height = shown.run("return infuseReport.boxes('before')")[conv]
    view, canvas = shown.side("before")["view"], shown.find("#pane-before canvas")
    x = (left + width / 2 - view["x"]) * view["zoom"] - canvas.size["width"] / 2
    y = (top + height / 2 - view["y"]) * view["zoom"] - canvas.size["height"] / 2
    ActionChains(shown.browser).move_to_element_with_offset(canvas, int(x), int(y)).perform()
    tip = shown.find("#tip").text
    assert "Conv" in tip
    assert "float32[1, 6, 10, 10]" in tip
    ActionChains(shown.browser).click().perform()
    assert shown.side("before")["selected"] == conv
    assert shown.side("after")["echo"] == [comparison.before.nodes[conv].id]
    assert "float32[6, 3, 3, 3]" in shown.find("#detail").text
    gelu = next(i for i, n in enumerate(comparison.after.nodes) if n.kind == "Gelu")
    choose(shown, "gelu")
    assert shown.side("after")["selected"] == gelu
    fused = next(
        i for i, s in enumerate(comparison.steps) if comparison.after.nodes[gelu].id in s.created
    )
    assert sorted(shown.side("before")["echo"]) == comparison.consumed(fused)
    history = [chip for chip in shown.all("#detail .chip") if "FuseErfGelu" in chip.text]
    history[0].click()
    assert comparison.steps[shown.state["rewrite"]].rule == "FuseErfGelu"


def choose(page: Page, text: str) -> None:
    """Type into the search and take the first node found."""
    from selenium.webdriver import ActionChains, Keys

    page.find("body").click()
    ActionChains(page.browser).send_keys("/").send_keys(text).send_keys(Keys.ENTER).perform()


def test_keys_step_search_zoom_and_clear(page: tuple[Page, Comparison]) -> None:
    from selenium.webdriver import ActionChains, Keys

    shown, comparison = page

    def press(*keys: str) -> None:
        ActionChains(shown.browser).send_keys(*keys).perform()

    press("j", "j")
    assert shown.state["rewrite"] == 1
    press("k")
    assert shown.state["rewrite"] == 0
    press(Keys.ESCAPE)
    assert shown.state["rewrite"] == -1
    zoom = shown.side("before")["view"]["zoom"]
    press("+")
    assert shown.side("before")["view"]["zoom"] > zoom
    press("f")
    shown.settle()
    assert shown.side("before")["view"]["zoom"] < 1.3 * zoom
    theme = "return document.documentElement.dataset.theme"
    was = shown.run(theme)
    press("t")
    assert {was, shown.run(theme)} == {"dark", "light"}
    press("/")
    press("Sigmoid")
    found = [row.text.split("\n") for row in shown.all("#found [role=option]")]
    assert found[0][0] == "Sigmoid"
    press(Keys.ENTER)
    node = comparison.before.nodes[shown.side("before")["selected"]]
    assert node.kind == "Sigmoid"
    press(Keys.ESCAPE)
    press("?")
    assert "next and previous rewrite" in shown.find("#keys").text
    assert shown.said() == []


def test_colours_tell_families_changes_and_costs(page: tuple[Page, Comparison]) -> None:
    from selenium.webdriver import ActionChains

    shown, _ = page
    seen = []
    for _ in range(4):
        shown.settle()
        seen.append(
            {
                color: pixels(shown, "after", color)
                for color in ("family-product", "created-fill", "hot")
            }
        )
        ActionChains(shown.browser).send_keys("c").perform()
    family, change, flops, memory = seen
    assert family["family-product"] > 50 > family["created-fill"]
    assert change["created-fill"] > 50
    assert change["family-product"] == 0
    assert flops["hot"] > 50
    assert memory["hot"] > 50
    shown.settle()
    assert pixels(shown, "after", "family-product") == family["family-product"]


def test_both_themes_can_be_read(page: tuple[Page, Comparison]) -> None:
    shown, _ = page
    pairs = [
        ("text", "page"),
        ("muted", "raised"),
        ("ink", "family-product"),
        ("ink", "family-movement"),
        ("ink", "removed-fill"),
    ]
    pairs += [("ink", "created-fill"), ("ink", "hot")]
    for theme in ("light", "dark"):
        shown.run("document.documentElement.dataset.theme = arguments[0]", theme)
        colors = {
            name: shown.run(
                "return getComputedStyle(document.documentElement)"
                ".getPropertyValue(`--${arguments[0]}`).trim()",
                name,
            )
            for pair in pairs
            for name in pair
        }
        for front, back in pairs:
            assert contrast(colors[front], colors[back]) >= 4.3, (theme, front, back)


def contrast(front: str, back: str) -> float:
    """The contrast of two colours as WCAG 2 defines it."""

    def luminance(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear))

    bright, dark = sorted((luminance(front), luminance(back)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


# -- other models ----------------------------------------------------------------------------------


def test_hostile_names_stay_names(browser: Any, tmp_path: Path) -> None:
    graph = small()
    graph.nodes[0].name = name = "</script><img src=x onerror=\"document.title='broken'\">"
    shown, _ = opened(browser, tmp_path, graph, level="none")
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
        browser, tmp_path, graph, only=["FuseErfGelu", "FuseLayerNormalization"]
    )
    assert_well_placed(shown, comparison)
    for index in rng.choice(len(comparison.steps), 5, replace=False).tolist():
        shown.run("infuseReport.choose(arguments[0])", index)
        assert shown.marked("before", "removed") == comparison.consumed(index)
        assert shown.marked("after", "created") == comparison.produced(index)
    assert len(shown.all("#list .rewrite")) < 60
    shown.find("#fit").click()
    shown.settle()
    zooms = [shown.side(name)["view"]["zoom"] for name in ("before", "after")]
    assert all(a < 0.2 for a in zooms)
    assert all(a <= b for a, b in pairwise(zooms))
    assert shown.said() == []
