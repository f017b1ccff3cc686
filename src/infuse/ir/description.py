"""What a model says about itself, beside what it computes."""

from __future__ import annotations

import json
from typing import Any

from infuse.ir.graph import Graph
from infuse.ir.scales import ROTATED, SCALES

PREFIX, OF_GRAPH = "onnx.", "onnx.graph."
"""What the names of a model's own fields, and of metadata of its graph, begin with."""
FIELDS = ("producer_name", "producer_version", "domain", "doc_string", "model_version")
NOTES = ("ir_version", "sizes", "outputs", "values", "denotations")
"""What is noted under such names for whoever writes the model again."""


def own_metadata(graph: Graph) -> dict[str, str]:
    """The metadata that a model has under names of its own."""
    noted = {PREFIX + name for name in (*FIELDS, *NOTES)}
    return {
        key: text
        for key, text in graph.metadata.items()
        if key not in noted and not key.startswith(OF_GRAPH)
    }


def description_of(graph: Graph) -> dict[str, Any]:
    """Plain data: `producer_name`, `producer_version`, `domain`, `description`,
    `graph_description`, `version` (an integer), `custom_metadata_map` (texts by key), `sizes` (what
    the model calls symbols that have another name here, "" for nothing) and `outputs` (the sizes
    that it states for outputs whose types say something else), each where the model has it.
    """
    fields = {name: graph.metadata.get(PREFIX + name, "") for name in FIELDS}
    version = fields.pop("model_version")
    told = {
        **{name: fields[name] for name in ("producer_name", "producer_version", "domain")},
        "description": fields["doc_string"],
        "graph_description": graph.doc,
        "version": int(version) if version.removeprefix("-").isdecimal() else 0,
        "custom_metadata_map": {
            key: text for key, text in own_metadata(graph).items() if key not in (SCALES, ROTATED)
        },
        "sizes": _noted(graph, "sizes"),
        "outputs": {name: stated for name, (stated, _) in _noted(graph, "outputs").items()},
    }
    return {name: content for name, content in told.items() if content}


def _noted(graph: Graph, name: str) -> dict[str, Any]:
    noted: dict[str, Any] = json.loads(graph.metadata.get(PREFIX + name, "{}"))
    return noted
