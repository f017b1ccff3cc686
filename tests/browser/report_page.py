"""The report page of a small network, opened in a browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import ops
from infuse.analysis import Comparison, compare, write_report
from infuse.ir.graph import Graph
from tests.browser.chromium import Page, chromium
from tests.pure.rewriting import X, written


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


def small() -> Graph:
    """A few layers with something for many rules to do."""
    hidden = ops.conv(X, np.ones((6, 3, 3, 3), np.float32), name="first")
    gate = hidden * ops.sigmoid(ops.identity(hidden))
    gelu = 0.5 * gate * (1.0 + ops.erf(gate / float(np.sqrt(2))))
    twice = ops.relu(ops.relu(gelu)) + ops.relu(gelu)
    graph = written(
        ops.transpose(ops.transpose(twice, perm=(0, 2, 3, 1)), perm=(0, 3, 1, 2)), x=(1, 3, 12, 12)
    )
    for number, node in enumerate(graph.nodes):
        node.name = f"{node.kind}_{number}"
    return graph


def opened(
    browser: Any, folder: Path, graph: Graph, rules: infuse.Rules | str = "all", **options: Any
) -> tuple[Page, Comparison]:
    better = infuse.optimize(graph, rules, **options)
    write_report(folder / "report.html", graph, better, title="a model")
    return Page(browser, folder / "report.html"), compare(graph, better)


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> tuple[Page, Comparison]:
    return opened(browser, tmp_path, small())


def pixels(page: Page, side: str, color: str) -> int:
    """Pixels of the graph in exactly this colour of the theme."""
    found: int = page.run(
        """
        const [side, color] = arguments;
        const canvas = document.querySelector(`#pane-${side} canvas`);
        const probe = document.createElement("canvas").getContext("2d");
        probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${color}`);
        probe.fillRect(0, 0, 1, 1);
        const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let count = 0;
        for (let i = 0; i < data.length; i += 4)
            count += data[i] === r && data[i + 1] === g && data[i + 2] === b;
        return count;
        """,
        side,
        color,
    )
    return found


def choose(page: Page, text: str) -> None:
    """Type into the search and take the first node found."""
    from selenium.webdriver import ActionChains, Keys

    page.find("body").click()
    ActionChains(page.browser).send_keys("/").send_keys(text).send_keys(Keys.ENTER).perform()
