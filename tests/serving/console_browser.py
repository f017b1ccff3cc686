"""The console in a browser, as an operator uses it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

SECONDS = 30
T = TypeVar("T")


class Console:
    """A console that is open in a browser, which it shares with others."""

    def __init__(self, browser: Any, url: str) -> None:
        self.browser, self.url = browser, url
        self.said(), self.requested()  # what an earlier page left behind
        browser.get(url)
        self.until(lambda: self.updates > 0)

    @property
    def updates(self) -> int:
        """How often what the server said was shown."""
        return int(self.run("return document.getElementById('models').dataset.updates || 0"))

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def until(self, wanted: Callable[[], T]) -> T:
        """What `wanted` gives, once that is something."""
        result: T = WebDriverWait(self.browser, SECONDS, poll_frequency=0.05).until(
            lambda _: wanted()
        )
        return result

    def next_update(self) -> None:
        """Wait until what the server says now is shown."""
        before = self.updates
        self.until(lambda: self.updates > before + 1)

    def find(self, selector: str) -> Any:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.browser.find_elements(By.CSS_SELECTOR, selector)
        return found

    def text(self, selector: str) -> str:
        """The text of the first element, as one line; empty when there is none."""
        script = (
            "const found = document.querySelector(arguments[0]); return found ? found.innerText : "
            "''"
        )
        return " ".join(str(self.run(script, selector)).split())

    def card(self, model: str) -> str:
        """The text of a model's card, as one line."""
        return self.text(f'[aria-label="Model {model}"]')

    def press(self, action: str, **data: Any) -> None:
        """Click the button of an action."""
        marks = "".join(f'[data-{name}="{value}"]' for name, value in data.items())
        self.find(f'[data-action="{action}"]{marks}').click()

    def fill(self, **values: str) -> None:
        """Fill fields of the dialog."""
        for name, value in values.items():
            field = self.find(f"#field-{name.strip('_')}")
            if field.tag_name == "select":
                field.find_element(By.CSS_SELECTOR, f'option[value="{value}"]').click()
            else:
                field.clear()
                field.send_keys(value)

    def send(self) -> None:
        """Say yes to the dialog, and wait until it has closed."""
        self.find("[data-send]").click()
        self.until(lambda: not self.open_dialog)

    @property
    def open_dialog(self) -> bool:
        return bool(self.run("return document.getElementById('dialog').open"))

    def size(self, width: int, height: int = 900) -> None:
        """Give the page a size, as of a screen."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def said(self) -> list[str]:
        """Messages on the browser's console since the last call."""
        return [entry["message"] for entry in self.browser.get_log("browser")]

    def requested(self) -> list[str]:
        """Addresses asked for since the last call, other than those of the browser's own pages."""
        events = (
            json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")
        )
        urls = [
            e["params"]["request"]["url"]
            for e in events
            if e["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith(("chrome", "data:"))]
