"""The page of an inspection in a browser: it loads nothing, shows the roofline, and sorts rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse import ops
from infuse.analysis import write_sheet
from infuse.profiling import Inspection, Roof, inspect_graph
from infuse.testing.patterns import graph_of
from tests.browser.chromium import Page, chromium
from tests.pure.costs import X

pytestmark = pytest.mark.row("A1")
ROOF = Roof("native", 2, {"fp32": 1e11, "int8": 4e11}, 1e10)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


@pytest.fixture
def inspection() -> Inspection:
    """Two convolutions of different sizes with what is elementwise, and a copy."""
    wide, narrow = (np.zeros(shape, np.float32) for shape in ((64, 3, 3, 3), (8, 64, 1, 1)))
    hidden = ops.relu(ops.conv(X, wide))
    return inspect_graph(
        graph_of(ops.transpose(ops.conv(hidden, narrow), perm=(0, 2, 3, 1)), x=(1, 3, 20, 20)), ROOF
    )


@pytest.fixture
def page(browser: Any, inspection: Inspection, tmp_path: Path) -> Page:
    write_sheet(tmp_path / "page.html", "inspection", inspection.to_dict(), "a <model>")
    return Page(browser, tmp_path / "page.html")


def column(page: Page, name: str) -> list[str]:
    """What the visible table shows in the column of this name."""
    heads = page.texts(".scroll:not([hidden]) th")
    return page.texts(f".scroll:not([hidden]) td:nth-child({heads.index(name) + 1})")


def test_it_loads_nothing_and_says_nothing(page: Page) -> None:
    assert page.said() == []
    asked = [url for url in page.requested() if not url.startswith("data:")]
    assert asked == [page.browser.current_url]
    assert page.browser.title == "a <model> · Infuse"


def test_totals_and_dots(page: Page, inspection: Inspection) -> None:
    totals = page.find("#totals").text
    assert f"{inspection.total.parameters:,}" in totals
    assert "bound by memory" in totals
    arithmetic = [row for row in inspection.layers if row.flops]
    assert page.state == {"dots": len(arithmetic), "rows": len(inspection.layers)}
    circles = page.all("svg.plot circle")
    assert len(circles) == len(arithmetic) == 3
    assert "1 layer without counted arithmetic" in page.find(".key").text


def svg_texts(page: Page) -> list[str]:
    """Texts of the plot, which have no `innerText`."""
    texts: list[str] = page.run(
        "return Array.from(document.querySelectorAll('svg.plot text'), (each) => each.textContent)"
    )
    return texts


def test_the_roofs_have_their_figures(page: Page) -> None:
    texts = svg_texts(page)
    assert {"fp32: 100 GFLOP/s", "int8: 400 GFLOP/s", "memory: 10 GB/s"} <= set(texts)


def test_dots_lie_on_the_roof_at_their_intensity(page: Page, inspection: Inspection) -> None:
    """Memory-bound layers lie on the slope: in logarithms, as far up as they are to the right."""
    places = sorted(
        (float(each.get_attribute("cx")), float(each.get_attribute("cy")))
        for each in page.all("svg.plot circle")
    )
    rows = sorted((r for r in inspection.layers if r.flops), key=lambda r: r.intensity or 0)
    rights = [x for x, _ in places]
    logs = np.log10([row.intensity or 1 for row in rows])
    steps = np.diff(rights) / np.diff(logs)
    assert steps[0] == pytest.approx(steps[1], rel=1e-3)
    arithmetic = [y for (_, y), row in zip(places, rows) if row.bound_by == "arithmetic"]
    assert len({round(y, 1) for y in arithmetic}) <= 1
    assert places[0][1] == max(y for _, y in places)


def test_a_dot_tells_its_layer(page: Page, inspection: Inspection) -> None:
    from selenium.webdriver import ActionChains

    largest = max(inspection.layers, key=lambda row: row.seconds)
    dot = page.all("svg.plot circle")[0]
    ActionChains(page.browser).move_to_element(dot).perform()
    tip = page.find("#tip").text
    assert largest.label in tip
    assert "FLOP/byte" in tip
    assert len(page.all("tr.hot")) == 1


def test_a_click_sorts_and_words_filter(page: Page, inspection: Inspection) -> None:
    order = [row.label for row in inspection.layers]
    assert column(page, "layer") == order
    heads = page.texts(".scroll:not([hidden]) th")
    page.all(".scroll:not([hidden]) th button")[heads.index("least time")].click()
    slowest = sorted(inspection.layers, key=lambda row: -row.seconds)
    assert column(page, "layer") == [row.label for row in slowest]
    page.all(".scroll:not([hidden]) th button")[heads.index("least time")].click()
    assert column(page, "layer")[-1] == slowest[0].label
    page.find("#filter").send_keys("Conv")
    assert set(column(page, "operator")) == {"Conv"}
    page.find("#filter").send_keys(" nowhere")
    assert column(page, "operator") == []
    assert "no row has these words" in page.texts(".scroll:not([hidden]) p")


def test_rows_by_operator_and_the_theme(page: Page, inspection: Inspection) -> None:
    page.find("#by-operators").click()
    assert set(column(page, "operator")) == {row.kind for row in inspection.kinds}
    assert column(page, "layers") == ["2", "1", "1"]
    theme = "return document.documentElement.dataset.theme"
    was = page.run(theme)
    page.find("#theme").click()
    assert {was, page.run(theme)} == {"dark", "light"}
