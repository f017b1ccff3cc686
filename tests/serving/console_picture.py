"""The picture of the console in the documentation: `python -m tests.serving.console_picture
[FILE]`.

A real server with small models works for a minute and a half, in the middle of a rollout, and is
looked at.
"""

from __future__ import annotations

import asyncio
import io
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from infuse.serving.control.model_config import Canary
from tests.browser.chromium import chromium
from tests.serving.console_browser import Console
from tests.serving.console_server import Running, serving, write_model

PICTURE = Path(__file__).absolute().parents[2] / "docs" / "console.png"
SECONDS = 90
SIZE = (1280, 1090)
RATES = {"answers": 90.0, "ranking": 60.0}
CONFIG = """
version_policy: {all: true}
labels: {stable: %d}
objectives: [{name: fast, target: 0.99, latency_ms: %d}]
"""


def fill(repository: Path) -> None:
    write_model(repository / "answers" / "1", 40, CONFIG % (1, 50))
    write_model(repository / "answers" / "2", 40, factor=1.00001)
    write_model(repository / "ranking" / "3", 12, CONFIG % (3, 50))


@contextmanager
def traffic(running: Running) -> Iterator[None]:
    """Requests at rates that rise and fall, until the block ends."""

    async def ask(name: str) -> None:
        await running.ask(name, rows=1 + int(time.time() * 10) % 4)

    async def send(name: str, rate: float) -> None:
        waiting: set[asyncio.Task[None]] = set()
        try:
            while True:
                task = asyncio.create_task(ask(name))
                waiting.add(task)
                task.add_done_callback(waiting.discard)
                await asyncio.sleep(1 / (rate * (1 + 0.3 * math.sin(time.monotonic() / 7))))
        finally:
            await asyncio.gather(*waiting, return_exceptions=True)

    tasks = [asyncio.run_coroutine_threadsafe(send(*each), running.loop) for each in RATES.items()]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


def picture(running: Running) -> bytes:
    async def roll_out() -> None:
        told = running.engine.admin.traffic("answers")
        told.routing.set_label("canary", 2)
        told.start_rollout(
            2,
            Canary(
                steps=(0.05, 0.25, 0.5, 1.0), step_seconds=SECONDS / 2.4, min_requests=1, shadow=0.2
            ),
        )

    async def settle() -> None:
        running.engine.admin.traffic("answers").set_split({"stable": 1})

    running.call(settle())
    with traffic(running), chromium() as browser:
        console = Console(browser, running.url)
        console.size(*SIZE)
        browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        time.sleep(SECONDS / 4)
        running.call(roll_out())
        time.sleep(SECONDS * 3 / 4)
        console.next_update()
        image: bytes = browser.get_screenshot_as_png()
        return image


def main() -> None:
    target = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else PICTURE
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        repository = Path("models")
        fill(repository)
        with serving(repository) as running:
            image = Image.open(io.BytesIO(picture(running))).convert("RGB")
        os.chdir(target.parent)
    image.save(target, optimize=True)
    print(f"{target}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
