"""The console's page in a browser, with invented data: what it shows, and how it looks."""

from __future__ import annotations

import re
from typing import Any

import pytest

from infuse.serving.transports.console import asset
from tests.serving.console_browser import Console
from tests.serving.console_page import browser, resnet, shown
from tests.serving.console_stage import Stage, data, stage

__all__ = ["browser", "shown"]
pytestmark = pytest.mark.row("S6")


def test_it_loads_from_the_server_alone_and_without_complaint(shown: tuple[Console, Stage]) -> None:
    console, served = shown
    asked = console.requested()
    assert asked
    assert all(url.startswith(served.url) for url in asked)
    console.next_update()
    assert console.said() == []


def test_it_shows_models_versions_and_why_one_is_missing(shown: tuple[Console, Stage]) -> None:
    console, _ = shown
    card = console.card("resnet50")
    assert "1 ready stable × 75 % 320 8.25 15.5 21.8 4.2 0 % 0 1 102 MB Label" in card
    assert "2 ready prebuilt – 25 %" in card
    assert "3 unavailable – – – – – – – – – – –" in card
    assert "the file is cut off" in card
    assert "Traffic 1 75 % 2 25 %" in card
    totals = console.text("#totals")
    assert "Requests 640 per second" in totals
    assert "Slowest p99 21.8 ms" in totals
    assert "Waiting 7 rows" in totals
    assert "Versions ready 3 of 4" in totals


def test_it_shows_a_rollout_with_its_step_and_both_sides(shown: tuple[Console, Stage]) -> None:
    console, _ = shown
    panel = console.text(".rollout")
    assert "Rollout 1 → 2 running 22 s of the step are left" in panel
    assert console.text('[aria-current="step"]') == "25 %"
    assert "New: 2 1240 0.16 % 0 7.9 ms 15.1 ms 21 ms 3, oldest 1.25 s 0.47 % of 640" in panel
    assert "Old: 1 3720" in panel


def test_it_draws_rates_and_quantiles_of_each_version(shown: tuple[Console, Stage]) -> None:
    console, _ = shown
    console.until(
        lambda: (
            console.run("return document.querySelector('.line').getAttribute('d')").count("L") > 1
        )
    )
    lines = {
        name: len(console.all(f'[data-plot="{name}/resnet50"] .line'))
        for name in ("throughput", "latency")
    }
    assert lines == {"throughput": 2, "latency": 6}
    label = console.find('[data-plot="latency/resnet50"]').get_attribute("aria-label")
    assert "now version 1 8.25 · 15.5 · 21.8 ms, version 2 8.25" in label
    assert len(console.all('[data-plot="latency/quiet"] .line[d^="M"]')) == 0


def test_pointing_at_a_plot_reads_it_there(shown: tuple[Console, Stage]) -> None:
    console, _ = shown
    for _ in range(3):
        console.next_update()
    point = (
        "const plot = document.querySelector('[data-plot=\"latency/resnet50\"]');"
        "const box = plot.getBoundingClientRect();"
        "const place = {bubbles: true, clientX: box.left + box.width * arguments[0], clientY: "
        "box.top + 20};"
        "plot.dispatchEvent(new PointerEvent('pointermove', place))"
    )
    console.run(point, 0.97)
    assert re.fullmatch(r"\d s ago", console.until(lambda: console.text(".when")))
    assert len(console.all(".cursor")) == 1
    console.run("document.getElementById('models').dispatchEvent(new PointerEvent('pointerleave'))")
    console.until(lambda: not console.all(".cursor"))


@pytest.mark.parametrize("width", [360, 390, 600, 768, 1024, 1280])
def test_it_fits_into_the_window(shown: tuple[Console, Stage], width: int) -> None:
    console, _ = shown
    console.size(width)
    console.next_update()
    assert console.run("return document.documentElement.scrollWidth") <= width
    hidden = (
        "return [...document.querySelectorAll('main button')].filter((b) => "
        "!b.getClientRects().length).length"
    )
    assert console.run(hidden) == 0
    if width >= 1280:
        assert (
            console.run(
                "const box = document.querySelector('.versions'); return box.scrollWidth - "
                "box.parentNode.clientWidth"
            )
            <= 0
        )


def test_it_is_dark_where_that_is_wanted(browser: Any) -> None:
    color = "return getComputedStyle(document.body).backgroundColor"
    with stage(lambda: data(resnet())) as served:
        found = {}
        for theme in ("light", "dark"):
            feature = {"name": "prefers-color-scheme", "value": theme}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
            found[theme] = Console(browser, served.url).run(color)
        assert found["light"] != found["dark"]
        console = Console(browser, served.url)
        console.press("theme")
        assert console.run(color) == found["light"]
        assert Console(browser, served.url).run(color) == found["light"]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def colors(theme: str) -> dict[str, tuple[float, ...]]:
    """The colors of a theme, as parts of 1, from the style sheet."""
    entry = asset("/console/console.css")
    assert entry is not None
    block = {"light": ":root {", "dark": ':root[data-theme="dark"] {'}[theme]
    text = entry[1].decode().split(block)[1].split("}")[0]
    found = re.findall(r"--([a-z0-9-]+): #([0-9a-f]{6});", text)
    return {
        name: tuple(int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)) for name, digits in found
    }


def luminance(color: tuple[float, ...]) -> float:
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in color
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


PAIRS = [
    *(
        (text, ground)
        for text in ("text", "muted", "good", "bad", "warn", "busy")
        for ground in ("card",)
    ),
    *((text, "faint") for text in ("text", "muted")),
    *((tone, f"{tone}-soft") for tone in ("good", "bad", "warn", "busy")),
    *(("ink", ground) for ground in ("accent", "bad", *(f"v{i}" for i in range(8)))),
    ("muted", "page"),
]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_text_stands_out_from_its_ground(theme: str, text: str, ground: str) -> None:
    """4.5 : 1, as WCAG asks for text of this size."""
    found = colors(theme)
    darker, lighter = sorted((luminance(found[text]), luminance(found[ground])))
    assert (lighter + 0.05) / (darker + 0.05) >= 4.5


def test_an_empty_repository_says_what_to_do(browser: Any) -> None:
    with stage(data) as served:
        console = Console(browser, served.url)
        assert "No models yet" in console.text("#models")
        assert "1/ model.onnx" in console.text("#models")
        assert "Nothing has happened yet." in console.text("#side")


@pytest.mark.parametrize(
    "path", ["/console/../assets.py", "/console/", "/consolex", "/console/absent.js", "/index.html"]
)
def test_there_are_no_other_files(path: str) -> None:
    assert asset(path) is None


def test_files_have_their_types() -> None:
    found = {
        path: asset(path)
        for path in ("/", "/console", "/console/console.js", "/console/console.css")
    }
    kinds = {path: entry[0].split(";")[0] for path, entry in found.items() if entry}
    assert list(kinds.values()) == ["text/html", "text/html", "text/javascript", "text/css"]
