"""The page of a compression in a browser: candidates, the Pareto front, both axes, and layers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.compression import CompressionReport, LayerReport
from infuse.compression.report import BlockReport, CandidateReport, GroupReport, PruningReport
from tests.browser.chromium import Page, chromium

pytestmark = pytest.mark.row("A2")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


@pytest.fixture
def report() -> CompressionReport:
    """Six candidates, one without a time; the third is the slowest, though its weights are few."""
    return CompressionReport(
        *("top1", 500, 0.98, 0.976),
        max_drop="0.5%",
        float_seconds=0.004,
        seconds=0.002,
        weight_bytes_before=4_000_000,
        weight_bytes=1_500_000,
        layers=[
            LayerReport("first", "Conv", "int8", "", "mse", -41.5, 2e-4, 0.002, 0.001),
            LayerReport("second", "MatMul", "int4 weights", "", "GPTQ", -20.0, 4e-4, 0.001, 2e-4),
            LayerReport("third", "Gemm", "float32", "it changes the outputs most", "", -60.0),
        ],
        tried=[
            CandidateReport("original", 0.98, {}, 4_000_000, 0.004),
            CandidateReport("", 0.9, {"int8": 2, "int4 weights": 1}, 1_000_000, 0.001),
            CandidateReport("", 0.97, {"int4 weights": 2}, 900_000, 0.005),
            CandidateReport("", 0.972, {"int8": 2}, 2_000_000, 0.003),
            CandidateReport("", 0.977, {"int8": 1}, 3_000_000),
            CandidateReport(
                *("", 0.976, {"int8": 1, "int4 weights": 1}, 1_500_000, 0.002), is_result=True
            ),
        ],
        notes=["a note of <the> search"],
    )


@pytest.fixture
def page(browser: Any, report: CompressionReport, tmp_path: Path) -> Page:
    return opened(browser, report, tmp_path)


def opened(browser: Any, report: CompressionReport, folder: Path) -> Page:
    report.write(folder / "page.html", "a <model>")
    return Page(browser, folder / "page.html")


def cells(page: Page, card: str, column: str) -> list[str]:
    """What the table of a card shows in a column."""
    heads = page.texts(f"[aria-label='{card}'] th")
    texts = page.texts(f"[aria-label='{card}'] td:nth-child({heads.index(column) + 1})")
    return [text.replace("\u200b", "") for text in texts]


def dots(page: Page) -> dict[tuple[float, float], set[str]]:
    """The kinds of the dots by place."""
    return {
        (float(each.get_attribute("cx")), float(each.get_attribute("cy"))): set(
            each.get_attribute("class").split()
        )
        for each in page.all("svg.plot circle")
    }


def corners(page: Page, kind: str) -> list[tuple[float, float]]:
    """The corners of a line of the plot."""
    steps = page.find(f"svg.plot path.{kind}").get_attribute("d")[1:].split("L")
    return [(float(x), float(y)) for x, y in map(str.split, steps)]


def test_it_loads_nothing_and_says_nothing(page: Page) -> None:
    assert page.said() == []
    asked = [url for url in page.requested() if not url.startswith("data:")]
    assert asked == [page.browser.current_url]
    assert page.browser.title == "a <model> · Infuse"


def test_totals_and_lines(page: Page, report: CompressionReport) -> None:
    totals = page.find("#totals").text
    for text in ("0.976", "was 0.98", "met", "2.00 ×", "2.67 × smaller"):
        assert text in totals
    assert page.texts("[aria-label='Notes'] p") == report.lines()


def test_dots_lie_at_their_score_and_time(page: Page, report: CompressionReport) -> None:
    assert page.state == {"dots": 5, "rows": 3, "candidates": 6}
    shown = [row for row in report.tried if row.seconds is not None]
    places = list(dots(page))
    for axis, numbers in enumerate(([row.seconds for row in shown], [r.score for r in shown])):
        at = np.array([place[axis] for place in places])
        slope, start = np.polyfit(numbers, at, 1)
        np.testing.assert_allclose(slope * np.array(numbers) + start, at, atol=0.02)
        assert (slope > 0) == (axis == 0)
    assert "1 candidate without a time or a finite score" in page.find(".key").text


def test_the_front_goes_through_what_nothing_beats(page: Page, report: CompressionReport) -> None:
    kinds = dots(page)
    on_front = sorted(place for place, kind in kinds.items() if "first" in kind)
    assert len(on_front) == len(report.front("seconds")) == 3
    steps = corners(page, "front")
    assert steps[::2] == on_front
    assert all(a[0] == b[0] for a, b in zip(steps[1::2], steps[2::2]))
    assert sum("beyond" in kind for kind in kinds.values()) == 3
    (result,) = (place for place, kind in kinds.items() if "result" in kind)
    (original,) = (place for place, kind in kinds.items() if "original" in kind)
    assert result[0] < original[0]
    (_, bound), (_, end) = corners(page, "bound")
    assert bound == end
    assert original[1] < result[1] < bound  # further down is worse
    texts = page.run(
        "return Array.from(document.querySelectorAll('svg.plot text'), (each) => each.textContent)"
    )
    assert {"bound: 0.9751", "original", "result"} <= set(texts)


def test_bytes_are_the_other_axis(page: Page, report: CompressionReport) -> None:
    page.find("#by-size").click()
    assert page.state["dots"] == 6
    kinds = dots(page)
    on_front = sorted(place for place, kind in kinds.items() if "first" in kind)
    assert len(on_front) == len(report.front("weight_bytes")) == 4
    assert corners(page, "front")[::2] == on_front
    assert page.find("#unmeasured").text == ""
    assert page.find("#by-size").get_attribute("aria-pressed") == "true"
    page.find("#by-time").click()
    assert page.state["dots"] == 5


def test_a_dot_tells_its_candidate(page: Page) -> None:
    from selenium.webdriver import ActionChains

    dot = page.find("svg.plot circle.result")
    ActionChains(page.browser).move_to_element(dot).perform()
    tip = page.find("#tip").text
    for text in ("result", "0.976", "2 ms", "1 int8, 1 int4 weights"):
        assert text in tip
    assert len(page.all("[aria-label='Candidates'] tr.hot")) == 1


def test_a_click_sorts_and_words_filter(page: Page) -> None:
    assert cells(page, "Layers", "layer") == ["first", "second", "third"]
    heads = page.texts("[aria-label='Layers'] th")
    button = page.all("[aria-label='Layers'] th button")[heads.index("error")]
    button.click()
    assert cells(page, "Layers", "error") == ["-20.0 dB", "-41.5 dB", "-60.0 dB"]
    button.click()
    assert cells(page, "Layers", "layer") == ["third", "first", "second"]
    assert cells(page, "Layers", "float32") == ["–", "2 ms", "1 ms"]
    page.find("#filter").send_keys("outputs")
    assert cells(page, "Layers", "why") == ["it changes the outputs most"]
    heads = page.texts("[aria-label='Candidates'] th")
    page.all("[aria-label='Candidates'] th button")[heads.index("weights")].click()
    assert cells(page, "Candidates", "#") == ["1", "5", "4", "6", "2", "3"]
    assert cells(page, "Candidates", "on the front of")[0] == "time, size"


def test_light_and_dark(page: Page) -> None:
    look = (
        "return ['svg.plot .front', 'svg.plot .bound', 'svg.plot .dot.beyond', 'body'].map((each) "
        "=> { const style = getComputedStyle(document.querySelector(each)); "
        "return [style.stroke, style.fill, style.backgroundColor].join(); })"
    )
    theme = "return document.documentElement.dataset.theme"
    was, seen = page.run(theme), page.run(look)
    page.find("#theme").click()
    assert {was, page.run(theme)} == {"dark", "light"}
    assert all(a != b for a, b in zip(seen, page.run(look)))


def test_a_pruning_has_its_groups(browser: Any, report: CompressionReport, tmp_path: Path) -> None:
    report.pruning = PruningReport(
        *("half of the MACs", 2_000_000, 900_000),
        groups=[GroupReport(["first", "second"], 64, 32)],
        blocks=[BlockReport("layer1.0", 700, is_removed=True), BlockReport("layer1.1", 7, False)],
        closed=[LayerReport("third", "Gemm", "float32", "it makes an output")],
    )
    report.layers, report.tried = [], report.tried[:1]
    report.tried[0].seconds, report.max_drop = None, ""
    page = opened(browser, report, tmp_path)
    assert page.said() == []
    assert page.state == {"dots": 1, "rows": 0, "candidates": 1}
    assert page.find("#by-size").get_attribute("aria-pressed") == "true"
    assert cells(page, "Groups of channels", "layers") == ["first, second", "third"]
    assert cells(page, "Groups of channels", "left") == ["50.0 %", "–"]
    assert cells(page, "Residual blocks", "block") == ["layer1.0", "layer1.1"]
    assert cells(page, "Residual blocks", "is") == ["removed", "there"]
    assert "2.22 × fewer" in page.find("#totals").text
    page.find("#by-time").click()
    assert "nothing was measured" in page.find("#front").text
