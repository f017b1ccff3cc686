"""The page of two models side by side in a browser: bars, outputs, layers, and their plot."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import ops
from infuse.analysis import write_sheet
from infuse.ir.graph import Graph
from infuse.profiling import ModelComparison
from infuse.testing.patterns import graph_of
from tests.browser.chromium import Page, chromium
from tests.pure.costs import X

pytestmark = pytest.mark.row("A2")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


def network(step: float) -> Graph:
    """Three products; the weights of the second are multiples of `step`."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((16, 16)).astype(np.float32) for _ in range(3)]
    if step:
        weights[1] = (np.round(weights[1] / step) * step).astype(np.float32)
    hidden: Any = X
    for each in weights:
        hidden = ops.tanh(hidden @ each)
    graph = graph_of(hidden @ weights[0], x=(4, 16))
    for number, node in enumerate(graph.nodes):
        node.name = f"{node.kind}_{number}"
        node.output.name = f"value_{number}"
    return graph


@pytest.fixture(scope="module")
def comparison() -> ModelComparison:
    return infuse.compare(
        network(0.0),
        network(0.5),
        options=infuse.CompileOptions(threads=1),
        turns=infuse.Turns(rounds=1, seconds=0.0),
    )


@pytest.fixture
def page(browser: Any, comparison: ModelComparison, tmp_path: Path) -> Page:
    write_sheet(tmp_path / "page.html", "pair", comparison.to_dict(), "first | second")
    return Page(browser, tmp_path / "page.html")


def cells(page: Page, card: str, column: str) -> list[str]:
    """What the table of a card shows in a column."""
    heads = page.texts(f"[aria-label='{card}'] th")
    texts = page.texts(f"[aria-label='{card}'] td:nth-child({heads.index(column) + 1})")
    return [text.replace("\u200b", "") for text in texts]


def test_it_loads_nothing_and_says_nothing(page: Page) -> None:
    assert page.said() == []
    asked = [url for url in page.requested() if not url.startswith("data:")]
    assert asked == [page.browser.current_url]
    assert page.browser.title == "first | second · Infuse"


def test_bars_are_as_long_as_their_figures(page: Page, comparison: ModelComparison) -> None:
    names = page.texts(".figure .name")
    figure = names.index("least time")
    widths = [
        float(page.run("return getComputedStyle(arguments[0]).width", bar).removesuffix("px"))
        for bar in page.all(".figure")[figure].find_elements("css selector", ".bar i")
    ]
    times = comparison.a.min_ms, comparison.b.min_ms
    assert widths[0] / widths[1] == pytest.approx(times[0] / times[1], rel=0.02)
    assert page.texts(".figure .ratio")[figure] == f"{times[1] / times[0]:.2f} ×"
    assert "size on disk" not in names
    assert f"{comparison.speedup:.2f} ×" in page.find("#totals").text


def test_outputs_and_notes(page: Page, comparison: ModelComparison) -> None:
    (output,) = comparison.outputs
    assert cells(page, "Outputs", "SQNR") == [f"{output.agreement.sqnr:.1f} dB"]
    assert cells(page, "Outputs", "cosine") == [f"{output.agreement.cosine:.6f}"]
    assert "random" in page.find("[aria-label='Notes']").text


def test_layers_in_table_and_plot(page: Page, comparison: ModelComparison) -> None:
    assert page.state == {"dots": 6, "rows": 6}
    assert cells(page, "Layers", "layer") == [row.name for row in comparison.layers]
    shown = cells(page, "Layers", "SQNR")
    assert shown[:2] == ["equal", "equal"]
    assert shown[2:] == [f"{row.agreement.sqnr:.1f} dB" for row in comparison.layers[2:]]
    heights = [float(dot.get_attribute("cy")) for dot in page.all("svg.plot circle")]
    assert heights[0] == heights[1] < min(heights[2:])
    numbers = [row.agreement.sqnr for row in comparison.layers[2:]]
    steps = np.diff(heights[2:]) / np.diff(numbers)
    assert steps == pytest.approx(np.full(3, steps[0]), rel=1e-2)


def test_a_dot_tells_its_layer_and_a_click_sorts(page: Page, comparison: ModelComparison) -> None:
    from selenium.webdriver import ActionChains

    dot = page.all("svg.plot circle")[2]
    ActionChains(page.browser).move_to_element(dot).perform()
    tip = page.find("#tip").text
    assert comparison.layers[2].name in tip
    assert f"{comparison.layers[2].agreement.sqnr:.1f} dB" in tip
    heads = page.texts("[aria-label='Layers'] th")
    button = page.all("[aria-label='Layers'] th button")[heads.index("SQNR")]
    button.click()
    button.click()
    worst = min(comparison.layers, key=lambda row: row.agreement.sqnr)
    assert cells(page, "Layers", "layer")[0] == worst.name
    page.find("#filter").send_keys("Tanh")
    assert set(cells(page, "Layers", "operator")) == {"Tanh"}


def test_nodes_by_kind(page: Page, comparison: ModelComparison) -> None:
    assert cells(page, "Nodes by kind", "operator") == ["MatMul", "Tanh"]
    assert cells(page, "Nodes by kind", "A") == ["4", "3"]
    assert cells(page, "Nodes by kind", "difference") == ["", ""]
