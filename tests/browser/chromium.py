"""A headless Chromium that tests drive, and what it loaded and said."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run
    --disable-background-networking
    --disable-component-update --disable-sync --disable-dev-shm-usage --force-device-scale-factor=1
    --window-size=1500,950"""
SECONDS = 240
LEFT_OUT = "INFUSE_NO_BROWSER"


@contextmanager
def chromium() -> Iterator[Any]:
    """A driver of a fresh browser; the test fails where there is none, and is skipped only where
    that was asked for.
    """
    if os.environ.get(LEFT_OUT):
        pytest.skip(f"{LEFT_OUT} is set: the page is not looked at in a browser")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.fail(
            "there is no Chromium with its driver: apt-get install chromium chromium-driver, "
            f"or set {LEFT_OUT}=1 to leave the tests of the report page out"
        )
    os.environ.setdefault("SE_AVOID_STATS", "true")
    os.environ.setdefault("SE_OFFLINE", "true")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS.split(), f"--user-data-dir={profile}"):
            options.add_argument(flag)
        session = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
        session.set_script_timeout(SECONDS)
        session.set_page_load_timeout(SECONDS)
        try:
            yield session
        finally:
            session.quit()


class Page:
    """A report page that is open in a browser."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.browser = browser
        self.requested(), self.said()  # what an earlier page left behind
        browser.get(path.as_uri())
        self.milliseconds: float = browser.execute_async_script(
            "const done = arguments[0]; infuseReport.ready.then(done, (error) => "
            "done(String(error)))"
        )
        assert isinstance(self.milliseconds, (int, float)), self.milliseconds

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self.run("return infuseReport.state()")
        return found

    def side(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.state["sides"][name]
        return found

    def marked(self, side: str, *marks: str) -> list[int]:
        """Ids of the nodes that are ringed on a side."""
        return sorted(id for id, mark in self.side(side)["ids"] if mark in marks)

    def settle(self) -> None:
        """Wait until movements have ended and the last frame is drawn."""
        self.browser.execute_async_script(
            "const done = arguments[0]; setTimeout(() => requestAnimationFrame(() => "
            "requestAnimationFrame(done)), 450)"
        )

    def find(self, selector: str) -> Any:
        return self.browser.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.browser.find_elements("css selector", selector)
        return found

    def texts(self, selector: str) -> list[str]:
        """Visible texts of elements, all at one moment: the page may draw between two questions."""
        found: list[str] = self.run(
            "return Array.from(document.querySelectorAll(arguments[0]), (each) => each.innerText)",
            selector,
        )
        return found

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
        return [url for url in urls if not url.startswith("chrome")]

    def said(self) -> list[str]:
        """Messages on the console since the last call."""
        return [entry["message"] for entry in self.browser.get_log("browser")]
