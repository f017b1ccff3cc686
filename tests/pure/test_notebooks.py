"""What notebooks show of graphs and reports: well-formed HTML with their content."""

from html.parser import HTMLParser

import numpy as np

import infuse
from infuse import ops
from infuse.ir.html import frame, table
from tests.pure.rewriting import X, written

VOID = {"br", "hr", "img", "input", "link", "meta", "path", "circle"}


class Outline(HTMLParser):
    """Texts, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.frames: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        if tag == "iframe":
            self.frames.append(dict(attrs)["srcdoc"] or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_graph_shows_its_inputs_and_operators() -> None:
    graph = written(ops.relu(ops.relu(X)) + np.ones(3, np.float32), x=(2, 3))
    graph.name = "<b>&"
    shown = Outline(graph._repr_html_())
    assert {"<b>&: 3 nodes, 0.00 MB of constants", "Relu", "2", "float32[2, 3]"} <= {*shown.texts}


def test_a_report_shows_its_rules_and_where_they_fired() -> None:
    graph = written(ops.identity(X) * 2.0, x=(2, 3))
    shown = Outline(infuse.optimize(graph, verify=True).report._repr_html_())
    assert "RemoveIdentity" in shown.texts
    assert any(text.startswith("Identity(") for text in shown.texts)
    assert any("verified" in text for text in shown.texts)


def test_reports_with_pages_show_them() -> None:
    inspection = infuse.inspect(written(ops.relu(X), x=(2, 3)))
    (page,) = Outline(inspection._repr_html_()).frames
    assert page.lstrip().lower().startswith("<!doctype html>")


def test_text_is_escaped() -> None:
    shown = Outline(table("a < b", ("#n", "<i>"), [(1, '"&"')]))
    assert shown.texts == ["a < b", "n", "<i>", "1", '"&"']
    (page,) = Outline(frame('<p title="x">&amp;</p>')).frames
    assert page == '<p title="x">&amp;</p>'
