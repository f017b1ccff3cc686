"""Invented data for the console's page, and the page that a browser shows of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.chromium import chromium
from tests.serving.console_browser import Console
from tests.serving.console_stage import Stage, data, model, stage, version

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
        version(2, share=0.25, recent=BUSY, waiting=7, tier="prebuilt"),
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
