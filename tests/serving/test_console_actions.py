"""The console's page in a browser: what buttons send, and how it goes on being used."""

from __future__ import annotations

import time
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from tests.serving.console_browser import Console
from tests.serving.console_page import browser, resnet, shown
from tests.serving.console_stage import Stage, data, stage

__all__ = ["browser", "shown"]
pytestmark = pytest.mark.row("S6")


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
