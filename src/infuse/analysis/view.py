"""A graph as a page to look at: its nodes with all that is known of them, and its constants with
statistics.
"""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from typing import Any

from infuse.analysis.cost import checked_sizes, stored_bytes
from infuse.analysis.description import describe, elements_text, flat_nodes, short, shown
from infuse.analysis.document import (
    asset,
    data_text,
    document,
    joined_assets,
    plain,
    report_format,
    write_document,
)
from infuse.analysis.page import STYLES, WORKER
from infuse.analysis.statistics import statistics_of
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.nesting import room_for
from infuse.ir.printer import changed_attributes

SCRIPTS = (
    "common.js",
    "side.js",
    "graph.js",
    "place.js",
    "paint.js",
    "canvas.js",
    "lists.js",
    "inspector.js",
    "stage.js",
    "constants.js",
    "view.js",
)
MOST_DOCUMENTATION = 2000
"""Characters of a documentation that are shown."""


def write_view(
    path: str | os.PathLike[str],
    graph: Graph,
    values: Mapping[str, int] | None = None,
    title: str | None = None,
) -> None:
    """Write what a graph is made of: a page (.html) or its data (.json).

    `values` are sizes for symbolic dimensions, with which costs are counted. The file appears whole
    or not at all. OptionError for another ending or a path that cannot be written, GraphError for a
    cycle.
    """
    report_format(path)
    write_view_data(path, view_data(graph, values), title or graph.name)


def write_view_data(path: str | os.PathLike[str], data: Mapping[str, Any], title: str) -> None:
    """Write what `view_data` gave, as `write_view` does."""
    is_page = report_format(path) == ".html"
    write_document(path, render_view(data, title) if is_page else data_text(data))


def render_view(data: Mapping[str, Any], title: str) -> str:
    """The page as text: data, styles, scripts and the layout library in one document that loads
    nothing.
    """
    return document(
        "page.html",
        title,
        data,
        STYLES,
        SCRIPTS,
        aside=asset("view_aside.html"),
        keys=asset("view_keys.html"),
        worker=joined_assets(WORKER),
        licence=html.escape(asset("vendor/dagre.LICENSE.txt")),
    )


def view_data(graph: Graph, values: Mapping[str, int] | None = None) -> dict[str, Any]:
    """A graph as plain data: `graph` (nodes, inputs, outputs, edges, totals), its `constants` with
    statistics, the largest ones first, and what is told of the `model` as a whole.

    Nodes, and values that are constant, name constants and nodes by their place in these lists.
    OptionError for a size below zero or of a symbol that the graph does not have.
    """
    with room_for(graph):
        return _data(graph, values)


def _data(graph: Graph, values: Mapping[str, int] | None) -> dict[str, Any]:
    description = describe(graph, checked_sizes(graph, values)).to_dict()
    order = list(flat_nodes(graph))
    constants = _Constants(graph, order)
    places = {node: place for place, node in enumerate(order)}
    for node, told in zip(order, description["nodes"]):
        told |= _more(node, places)
        operands = [value for value in node.inputs if value is not None]
        _point(told["inputs"], operands, constants)
    _point(description["outputs"], graph.outputs, constants)
    for told, value in zip(description["inputs"], graph.inputs):
        told["default"] = value.default is not None
    return {
        "model": {
            "name": graph.name,
            "documentation": short(graph.doc, MOST_DOCUMENTATION),
            "metadata": {name: short(text) for name, text in graph.metadata.items()},
            "opsets": {domain or "ai.onnx": n for domain, n in graph.opsets.items()},
        },
        "graph": description,
        "constants": constants.told,
    }


def _more(node: Node, places: Mapping[Node, int]) -> dict[str, Any]:
    """What is told of a node beside its description: attributes with their default value, its
    documentation, metadata and scope, and the nodes of its bodies.
    """
    changed = changed_attributes(node)
    attributes = node.op.attributes()
    return {
        "defaults": {k: shown(v) for k, v in attributes.items() if k not in changed},
        "documentation": short(node.doc, MOST_DOCUMENTATION),
        "metadata": {name: short(text) for name, text in node.metadata.items()},
        "origin": [name for name in node.origin if name != node.name],
        "bodies": {
            name: {
                "nodes": [places[inner] for inner in body.nodes],
                "inputs": [f"{value.name}: {value.type}" for value in body.inputs],
                "outputs": list(body.output_names),
            }
            for name, body in node.subgraphs.items()
        },
    }


class _Constants:
    """The constants of a graph and its bodies, the largest ones first; those that share their
    elements are one.
    """

    def __init__(self, graph: Graph, order: list[Node]) -> None:
        readers: dict[int, dict[int, None]] = {}
        values: dict[int, Value] = {}
        for place, node in enumerate(order):
            read = [*node.operands(), *(v for b in node.subgraphs.values() for v in b.outputs)]
            for value in read:
                if value.const is not None:
                    values.setdefault(id(value.const), value)
                    readers.setdefault(id(value.const), {})[place] = None
        for value in graph.outputs:
            if value.const is not None:
                values.setdefault(id(value.const), value)
        ordered = sorted(values.items(), key=lambda item: -stored_bytes(item[1]))
        self._places = {key: place for place, (key, _) in enumerate(ordered)}
        self.told = [_constant(value, list(readers.get(key, ()))) for key, value in ordered]

    def place(self, value: Value) -> int | None:
        """The place of a constant; None for another value."""
        return None if value.const is None else self._places[id(value.const)]


def _constant(value: Value, readers: list[int]) -> dict[str, Any]:
    assert value.const is not None
    return {
        "name": value.name,
        "type": str(value.type),
        "bytes": stored_bytes(value),
        "elements": elements_text(value),
        "readers": readers,
        "statistics": plain(statistics_of(value.const, value.dtype).to_dict()),
    }


def _point(told: list[dict[str, Any]], values: list[Value], constants: _Constants) -> None:
    """Let what is told of constants name their place."""
    for each, value in zip(told, values, strict=True):
        place = constants.place(value)
        if place is not None:
            each["place"] = place
