"""The console's page in a browser, with invented data: what it shows, what it sends, what it
survives.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

import infuse.serving.transports.console
from infuse.serving.transports.console import asset
from tests.browser.chromium import chromium
from tests.serving.console_browser import Console
from tests.serving.console_stage import Stage, data, model, stage, version

pytestmark = pytest.mark.row("S6")

BUSY = {
    "requests_per_second": 320.0,
    "rows_per_second": 1300.0,
    "failures_per_second": 0.0,
    "failure_rate": 0.0,
    "mean_batch": 4.2,
    "p50_ms": 8.25,
    "p95_ms": 15.5,
    "p99_ms": 21.75,
}
SIDE = {
    **{
        "requests": 1240,
        "failed": 2,
        "rejected": 0,
        "error_rate": 2 / 1240,
        "p50_ms": 7.9,
        "p95_ms": 15.1,
    },
    **{"p99_ms": 21.0, "compared": 640, "drifted": 3, "drift_rate": 3 / 640},
    **{"in_flight": 3, "oldest_ms": 1250.0},
}
ROLLOUT = {
    **{
        "state": "running",
        "from": [1],
        "to": 2,
        "step": 1,
        "steps": [0.05, 0.25, 1.0],
        "started": 0.0,
        "since": 0.0,
    },
    **{
        "reason": "",
        "active": True,
        "share": 0.25,
        "compared": 640,
        "drifted": 3,
        "drift_rate": 3 / 640,
    },
    "windows": {
        "new": SIDE,
        "old": {**SIDE, "requests": 3720},
        "waits_for": "22 s of the step are left",
    },
}


def resnet(**fields: Any) -> dict[str, Any]:
    return model(
        "resnet50",
        version(1, labels=["stable"], share=0.75, recent=BUSY),
        version(2, share=0.25, recent=BUSY, waiting=7),
        version(3, "UNAVAILABLE", reason="the file is cut off"),
        **fields,
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


@pytest.fixture
def shown(browser: Any) -> Iterator[tuple[Console, Stage]]:
    with stage(
        lambda: data(resnet(rollout=ROLLOUT), model("quiet", version(1, share=1.0)))
    ) as served:
        console = Console(browser, served.url)
        console.size(1280)
        yield console, served


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


CASES = {
    "label": (
        {"model": "resnet50", "version": 2},
        {"label": "canary"},
        "/v2/models/resnet50/labels",
        {"label": "canary", "version": 2},
    ),
    "unlabel": (
        {"model": "resnet50", "label": "stable"},
        {},
        "/v2/models/resnet50/labels",
        {"label": "stable"},
    ),
    "split": (
        {"model": "resnet50"},
        {"_1": "3", "_2": "1"},
        "/v2/models/resnet50/split",
        {"weights": {"1": 3, "2": 1}},
    ),
    "rollout": (
        {"model": "resnet50"},
        {"version": "2", "steps": "10, 100 %", "seconds": "5"},
        "/v2/models/resnet50/rollout",
        {"version": 2, "canary": {"steps": [0.1, 1], "step_seconds": 5}},
    ),
    "pause": ({"model": "resnet50"}, {}, "/v2/models/resnet50/pause", {}),
    "promote": ({"model": "resnet50"}, {}, "/v2/models/resnet50/promote", {}),
    "rollback": (
        {"model": "resnet50"},
        {"reason": "it is slow"},
        "/v2/models/resnet50/rollback",
        {"reason": "it is slow"},
    ),
    "load": ({"model": "quiet"}, {}, "/v2/repository/models/quiet/load", {}),
    "unload": ({"model": "quiet"}, {}, "/v2/repository/models/quiet/unload", {}),
    "load-new": ({}, {"model": "a b/c"}, "/v2/repository/models/a%20b%2Fc/load", {}),
}


@pytest.mark.parametrize("action", CASES)
def test_a_button_asks_and_then_does_what_it_says(
    shown: tuple[Console, Stage], action: str
) -> None:
    console, served = shown
    target, values, path, body = CASES[action]
    console.press(action, **target)
    assert served.posted == []
    console.fill(**values)
    console.send()
    ((found, sent, headers),) = served.posted
    assert (found, sent) == (path, body)
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Infuse-Request"] == "console"
    assert console.until(lambda: console.text("#toasts")).startswith("Done: ")


def test_cancel_and_escape_do_nothing(shown: tuple[Console, Stage]) -> None:
    console, served = shown
    console.press("unload", model="quiet")
    console.find("[data-close]").click()
    console.until(lambda: not console.open_dialog)
    console.press("unload", model="quiet")
    console.find("[data-close]").send_keys(Keys.ESCAPE)
    console.until(lambda: not console.open_dialog)
    assert served.posted == []


def test_what_is_not_filled_in_well_is_not_sent(shown: tuple[Console, Stage]) -> None:
    console, served = shown
    console.press("rollout", model="resnet50")
    console.fill(steps="ten")
    console.find("[data-send]").click()
    assert console.run("return document.querySelector('#field-steps').matches(':invalid')")
    assert console.open_dialog
    assert served.posted == []


def test_the_server_s_refusal_is_shown_and_the_question_stays(shown: tuple[Console, Stage]) -> None:
    console, served = shown
    served.refusal = (404, "[INF-704] there is no version 2.")
    console.press("label", model="resnet50", version=2)
    console.fill(label="canary")
    console.find("[data-send]").click()
    assert (
        console.until(lambda: console.text("#dialog .error")) == "[INF-704] there is no version 2."
    )
    assert console.open_dialog
    served.refusal = None
    console.send()
    assert len(served.posted) == 2


HOSTILE = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"


def test_foreign_text_is_text(browser: Any) -> None:
    event = {
        "kind": HOSTILE,
        "model": HOSTILE,
        "version": 1,
        "share": 0.1,
        "reason": HOSTILE,
        "at": 1.0,
        "grave": True,
    }
    rollout = {**ROLLOUT, "reason": HOSTILE, "state": HOSTILE}
    rollout["windows"] = {**ROLLOUT["windows"], "waits_for": HOSTILE}  # type: ignore[dict-item]
    worker = {
        "name": HOSTILE,
        "pid": 1,
        "cores": [0],
        "memory_bytes": 1,
        "instances": [{"name": HOSTILE, "load": 0.5}],
    }
    objective = {
        "objective": HOSTILE,
        "target": 0.9,
        "latency_ms": 1.0,
        "requests": 1,
        "bad": 0,
        "budget_left": 1.0,
    }
    bad = model(
        HOSTILE,
        version(1, labels=[HOSTILE], share=1.0, recent=BUSY, reason=HOSTILE),
        version(2, "FAILED<b>", reason=HOSTILE),
        rollout=rollout,
        problem=HOSTILE,
        kind=HOSTILE,
        objectives=[{**objective, "state": HOSTILE}],
    )
    plain = data(bad, events=[event])
    plain["server"].update(repository=HOSTILE, version=HOSTILE)
    plain["placement"]["workers"] = [worker]
    with stage(lambda: plain) as served:
        console = Console(browser, served.url)
        assert console.text(".fold h2") == HOSTILE
        assert HOSTILE in console.text(".events")
        served.refusal = (400, HOSTILE)
        console.press("unlabel")
        assert HOSTILE in console.text("#dialog-title")
        console.find("[data-send]").click()
        assert console.until(lambda: console.text("#dialog .error")) == HOSTILE
        assert console.all("main img, main script, #dialog img, header img, [onerror]") == []
        assert console.run("return document.title") == "Infuse server"
        assert console.said() == ["x"] * 0 or all("400" in message for message in console.said())


def test_a_script_that_got_into_the_page_would_not_run(shown: tuple[Console, Stage]) -> None:
    console, _ = shown
    console.run(
        "const script = document.createElement('script'); script.textContent = 'document.title = "
        '"run"\';'
        "document.body.append(script);"
        "document.body.insertAdjacentHTML('beforeend', arguments[0])",
        HOSTILE,
    )
    console.next_update()
    assert console.run("return document.title") == "Infuse server"
    assert any("Content Security Policy" in message for message in console.said())


def test_sources_never_read_data_as_markup() -> None:
    folder = Path(infuse.serving.transports.console.__file__).parent / "page"
    sources = {path.name: path.read_text() for path in folder.glob("*.js")}
    assert "dom.js" in sources
    for name, text in sources.items():
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text
        ), name
    page = (folder / "index.html").read_text()
    assert not re.search(r"<script>|<style|style=|\son\w+=|https?://", page)


def test_a_token_is_asked_for_kept_in_the_tab_and_sent(browser: Any) -> None:
    plain = data(resnet())
    plain["server"]["tokens"] = True
    with stage(lambda: plain, token="secret") as served:
        console = Console(browser, served.url)
        console.until(lambda: console.open_dialog)
        assert "resnet50" not in console.text("#models")
        console.find("[data-close]").click()
        console.next_update()
        assert not console.open_dialog
        console.press("token")
        console.fill(token="wrong")
        console.find("[data-send]").click()
        assert "this needs a token" in console.until(lambda: console.text("#dialog .error"))
        console.fill(token="secret")
        console.send()
        assert "resnet50" in console.text("#models")
        assert console.run("return sessionStorage.getItem('infuse-token')") == "secret"
        assert "secret" not in console.run(
            "return JSON.stringify(localStorage) + document.cookie + location.href"
        )
        console.press("unload", model="resnet50")
        console.send()
        assert served.posted[0][2]["Authorization"] == "Bearer secret"


def test_a_server_that_is_gone_is_told_of_and_found_again(browser: Any) -> None:
    with stage(lambda: data(resnet())) as served:
        console = Console(browser, served.url)
        console.run(
            "window.realFetch = fetch; window.fetch = () => Promise.reject(new TypeError('down'))"
        )
        assert "does not answer" in console.until(lambda: console.text("#notice"))
        assert "not reached" in console.text("header")
        assert "resnet50" in console.text("#models")
        console.run("window.fetch = window.realFetch")
        console.until(lambda: not console.text("#notice"))
        assert "ready" in console.text("header")


def test_nothing_is_asked_while_the_page_is_hidden(browser: Any) -> None:
    asked: list[float] = []

    def make() -> dict[str, Any]:
        asked.append(time.monotonic())
        return data(resnet())

    hide = "Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true});"
    tell = "document.dispatchEvent(new Event('visibilitychange'))"
    with stage(make) as served:
        console = Console(browser, served.url)
        console.next_update()
        console.run(hide, True)
        console.browser.execute_async_script("setTimeout(arguments[0], 300)")
        before = len(asked)
        console.browser.execute_async_script("setTimeout(arguments[0], 2500)")
        assert len(asked) == before
        console.run(hide + tell, False)
        console.until(lambda: len(asked) > before + 1)


def test_updates_disturb_nobody(shown: tuple[Console, Stage]) -> None:
    console, _ = shown
    console.find("#filter").send_keys("res")
    console.run("window.kept = document.querySelector('[aria-label=\"Model resnet50\"] tbody tr')")
    console.next_update()
    assert console.run("return document.activeElement.id") == "filter"
    assert console.find("#filter").get_attribute("value") == "res"
    assert console.run("return window.kept.isConnected")
    assert console.card("quiet") == ""
    console.find("#filter").send_keys("xyz")
    assert console.until(lambda: console.text(".empty")) == "No model has “resxyz” in its name."


def test_it_is_used_by_keyboard(shown: tuple[Console, Stage]) -> None:
    console, served = shown
    fold = console.find('[data-action="fold"][data-model="quiet"]')
    fold.send_keys(Keys.ENTER)
    console.until(lambda: fold.get_attribute("aria-expanded") == "false")
    console.next_update()
    assert fold.get_attribute("aria-expanded") == "false"
    button = console.find('[data-action="promote"]')
    button.send_keys(Keys.ENTER)
    console.until(lambda: console.open_dialog)
    assert console.run("return document.activeElement.closest('dialog') !== null")
    console.find("[data-send]").send_keys(Keys.ENTER)
    console.until(lambda: not console.open_dialog)
    assert [path for path, _, _ in served.posted] == ["/v2/models/resnet50/promote"]
    assert console.run("return document.activeElement.dataset.action") == "promote"


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
