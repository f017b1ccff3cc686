"""What a model says beside what it computes, noted in the metadata of its graph."""

from __future__ import annotations

import json
from typing import Any

from onnx import ModelProto

from infuse.frontends.onnx.signatures import stated_denotations, stated_sizes
from infuse.ir.graph import Graph
from infuse.ir.types import TensorType
from infuse.tracing.sizes import Sizes


def keep_texts(model: ModelProto, sizes: Sizes, graph: Graph) -> None:
    """Note what the model says of its inputs and outputs and the graph does not: for whoever
    writes it again.
    """
    for name in ("onnx.sizes", "onnx.outputs", "onnx.values", "onnx.denotations"):
        graph.metadata.pop(name, None)
    interface = {v.name: v for v in (*model.graph.input, *model.graph.output)}
    words = {
        n: [v.doc_string, {p.key: p.value for p in v.metadata_props}] for n, v in interface.items()
    }
    if any(doc or properties for doc, properties in words.values()):
        graph.metadata["onnx.values"] = json.dumps({n: w for n, w in words.items() if any(w)})
    denotations = {v.name: stated_denotations(v) for v in model.graph.input}
    if any(map(any, denotations.values())):
        graph.metadata["onnx.denotations"] = json.dumps(
            {name: texts for name, texts in denotations.items() if any(texts)}
        )
    if sizes.texts:
        graph.metadata["onnx.sizes"] = json.dumps(sizes.texts)
    declared = {info.name: stated_sizes(info) for info in model.graph.output}
    entries: dict[str, Any] = {}
    for name, value in zip(graph.output_names, graph.outputs):
        stated = declared.get(name)
        shape = value.type.shape if isinstance(value.type, TensorType) else None
        if stated is None or (shape is not None and [*map(str, stated)] == [*map(str, shape)]):
            continue
        known = None if shape is None else [d if isinstance(d, int) else None for d in shape]
        entries[name] = [stated, known]
    if entries:
        graph.metadata["onnx.outputs"] = json.dumps(entries)


def metadata_of(model: ModelProto) -> dict[str, str]:
    """The model's own metadata, and its fields under `onnx.` names."""
    fields = {
        "producer_name": model.producer_name,
        "producer_version": model.producer_version,
        "domain": model.domain,
        "doc_string": model.doc_string,
        "model_version": str(model.model_version or ""),
        "ir_version": str(model.ir_version or ""),
    }
    own = {entry.key: entry.value for entry in model.metadata_props}
    return {**own, **{f"onnx.{name}": text for name, text in fields.items() if text}}
