"""The console's page in a browser: data from elsewhere is text and never runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import infuse.serving.transports.console
from tests.serving.console_browser import Console
from tests.serving.console_page import BUSY, ROLLOUT, browser, shown
from tests.serving.console_stage import Stage, data, model, stage, version

__all__ = ["browser", "shown"]
pytestmark = pytest.mark.row("S6")


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
