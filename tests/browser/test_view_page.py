"""The page of a graph in a browser: it loads nothing, and shows what is chosen."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import ops
from infuse.analysis import view_data, write_view
from infuse.ir.graph import Graph, constant
from infuse.ir.parser import parse
from infuse.testing.patterns import graph_of
from tests.browser.chromium import Page
from tests.browser.report_page import browser, choose, pixels
from tests.pure.costs import X
from tests.pure.test_view import CHOICE, opaque
from tests.support.large import FAMILIES

__all__ = ["browser"]
pytestmark = pytest.mark.row("A1")
HOSTILE = "</script><img src=x onerror=\"document.title='broken'\">"


def network() -> Graph:
    weight = np.linspace(-1, 1, 162, dtype=np.float32).reshape(6, 3, 3, 3)
    weight.flat[:81] = 0
    hidden = ops.conv(X, constant(weight, "stem.weight"), strides=(2, 2))
    hidden = ops.relu(hidden + constant(np.ones((1, 6, 1, 1), np.float32), "stem.shift"))
    graph = graph_of(hidden, x=(1, 3, 9, 9))
    for number, node in enumerate(graph.nodes):
        node.name = f"{node.kind}_{number}"
    graph.nodes[0].doc = "the first layer"
    graph.nodes[2].name = HOSTILE
    graph.metadata["author"] = "somebody"
    return graph


def opened(browser: Any, folder: Path, graph: Graph) -> Page:
    write_view(folder / "view.html", graph, title="a model")
    return Page(browser, folder / "view.html")


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Page:
    return opened(browser, tmp_path, network())


def test_the_page_opens_without_a_word_and_without_the_network(page: Page) -> None:
    assert page.said() == []
    addresses = page.requested()
    assert {address.partition(":")[0] for address in addresses} <= {"file", "data", "blob"}
    assert [a for a in addresses if a.startswith("file:")] == [page.browser.current_url]
    assert page.browser.title == "a model · Infuse"
    assert page.side("graph")["placed"] == 3 + 2
    assert page.side("graph")["routed"] == 4
    assert len(page.all(".pane")) == 1
    assert not page.all("#divider")
    assert page.texts("#totals .total")[0].split() == ["Nodes", "3"]
    assert [o.text for o in page.all("#colouring option")] == [
        "colours by family",
        "colours by FLOPs",
        "colours by memory",
    ]
    page.settle()
    assert pixels(page, "graph", "family-product") > 100


def test_values_beside_long_names_are_legible(browser: Any, tmp_path: Path) -> None:
    """As torch's exporter writes them: names of a few words, and texts of hundreds of lines."""
    graph = network()
    for name in ("onnx.graph.pkg.torch.export.ExportedProgram.graph_signature", "name" * 20):
        graph.metadata[name] = "line of a program\n" * 40
    graph.nodes[0].metadata["pkg.torch.onnx.class_hierarchy_of_a_module"] = "['a.b.C', 'd.e.F']"
    page = opened(browser, tmp_path, graph)
    choose(page, "conv")
    for place in ("#model", "#detail"):
        widths = page.run(
            """
            const list = [...document.querySelectorAll(`${arguments[0]} dl`)];
            const width = (each) => each.clientWidth;
            return list.map((dl) => [width(dl), ...[...dl.querySelectorAll("dd")].map(width)]);
            """,
            place,
        )
        assert widths
        for whole, *values in widths:
            assert min(values) > 0.4 * whole, (place, whole, values)


def test_bytes_are_those_of_the_command_line(page: Page) -> None:
    said = page.run("return [0, 999, 1000, 12345, 12500000, 3e9, 2e12].map(format.bytes)")
    assert said == ["0 B", "999 B", "1 kB", "12.3 kB", "12.5 MB", "3 GB", "2 TB"]


def test_a_chosen_node_shows_its_attributes(page: Page) -> None:
    choose(page, "conv")
    text = page.find("#detail").text
    for each in ("Conv_0", "strides", "(2, 2)", "group", "the first layer", "stem.weight", "MACs"):
        assert each in text
    assert page.side("graph")["selected"] == 0
    choose(page, "relu")
    assert HOSTILE in page.find("#detail").text
    assert page.browser.title == "a model · Infuse"
    assert page.said() == []


def test_a_chosen_constant_shows_its_statistics(page: Page) -> None:
    page.find("#tab-constants").click()
    assert page.texts("#list .rule") == ["stem.weight", "stem.shift"]
    page.find("#list-0").click()
    text = page.find("#detail").text
    stored = network().nodes[0].inputs[1].const.astype(np.float64)
    for each in ("float32[6, 3, 3, 3]", "81 (50 %)", f"{stored.mean():.6g}", f"{stored.std():.6g}"):
        assert each in text
    assert len(page.all("#detail .bars rect")) == 32
    assert page.state["constant"] == 0
    assert len(page.side("graph")["echo"]) == 1
    page.find("#detail .chip").click()
    assert "Conv_0" in page.find("#detail").text
    page.find("#detail .constant").click()
    assert page.state["constant"] == 0
    assert page.said() == []


def test_the_search_finds_nodes_values_and_constants(page: Page) -> None:
    places = page.run("return infuseReport.search(arguments[0])", "stem.shift")
    assert ["constant", 1] in places
    assert ["graph", 1] in places
    choose(page, "constant shift")
    assert page.state["constant"] == 1
    assert page.run("return infuseReport.search('no such name')") == []


def test_inputs_and_outputs_can_be_chosen(page: Page) -> None:
    assert "somebody" in page.find("#model").text
    page.all("#model .end")[0].click()
    assert page.side("graph")["selected"] == 3
    assert "float32[1, 3, 9, 9]" in page.find("#detail").text
    page.all("#model .end")[1].click()
    assert page.side("graph")["selected"] == 4
    escape = "new KeyboardEvent('keydown', { key: 'Escape', bubbles: true })"
    page.run(f"document.body.dispatchEvent({escape})")
    assert page.side("graph")["selected"] == -1


def test_operators_that_are_not_known_are_shown(browser: Any, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, opaque())
    choose(page, "magic")
    text = page.find("#detail").text
    for each in ("custom", "float32[100000] …", "(object)", "not known"):
        assert each in text
    assert page.said() == []


def test_bodies_can_be_entered(browser: Any, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, parse(CHOICE))
    choose(page, "if")
    assert "body else_branch: 2 nodes" in page.find("#detail").text
    next(chip for chip in page.all("#detail .chip") if "Sin" in chip.text).click()
    assert "else_branch" in page.find("#detail").text
    assert page.find("#detail h3").text == "Sin"
    assert page.said() == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("nodes", [1000, pytest.param(10_000, marks=pytest.mark.full)])
def test_large_graphs_can_be_used(nodes: int, browser: Any, tmp_path: Path) -> None:
    graph = FAMILIES["transformer"](nodes)
    page = opened(browser, tmp_path, graph)
    data = view_data(graph)
    ends = len(graph.inputs) + len(graph.outputs)
    assert page.side("graph")["placed"] == len(data["graph"]["nodes"]) + ends
    page.find("#tab-constants").click()
    assert 0 < len(page.all("#list .entry")) < 60
    last = len(data["constants"]) - 1
    page.run("infuseReport.show('constant', arguments[0])", last)
    assert page.state["constant"] == last
    assert page.said() == []


def test_an_empty_graph_is_shown(browser: Any, tmp_path: Path) -> None:
    infuse.view(parse('graph "g" (%x: float32[5]) {\n  return y = %x\n}'), tmp_path / "view.html")
    page = Page(browser, tmp_path / "view.html")
    page.find("#tab-constants").click()
    assert "no constant" in page.find("#list").text
    assert page.said() == []
