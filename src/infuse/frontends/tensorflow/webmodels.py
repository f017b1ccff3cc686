"""Graph models of TensorFlow.js: a graph in JSON, and files of its weights, quantized or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from google.protobuf import json_format

from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.messages import MESSAGES
from infuse.frontends.tensorflow.tensors import NAMES
from infuse.frontends.tfjs import read_weights
from infuse.ir.graph import Array

_DEEPEST: Final = 60


class WebModel(NamedTuple):
    """A graph, its signature or None, and its weights by name; a graph that fills tables or None,
    and which of its results the inputs of the graph are that are tables.
    """

    graph: Any
    signature: Any
    weights: dict[str, Array]
    initializer: Any
    tables: dict[str, str]


def read(data: memoryview, path: Path | None, where: str) -> WebModel:
    """The parts of a model, whose JSON is `data`."""
    try:
        document = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"the model is not JSON: {error}", where=where) from None
    topology = document["modelTopology"]
    if not isinstance(topology, dict) or "node" not in topology:
        raise ModelFileError(
            "its topology is not a graph", where=where, hint="only graph models are read here"
        )
    graph = _graph(topology, where)
    signature = document.get("signature")
    if signature is None:
        signature = (document.get("userDefinedMetadata") or {}).get("signature")
    made = None if not signature else _message("SignatureDef", signature, where)
    if path is None:
        raise ModelFileError(
            "its weights lie in other files, but the model came from memory",
            where=where,
            hint="load the model from its path",
        )
    weights = read_weights(document["weightsManifest"], path.parent)
    filling = document.get("modelInitializer")
    if not isinstance(filling, dict):
        return WebModel(graph, made, weights, None, {})
    results = (document.get("initializerSignature") or {}).get("outputs") or {}
    tables = _tables((signature or {}).get("inputs") or {}, results)
    return WebModel(graph, made, weights, _graph(filling, where), tables)


def _graph(topology: dict[str, Any], where: str) -> Any:
    parts = {name: topology[name] for name in ("node", "library") if name in topology}
    return _message("Graph", parts, where)


def _tables(inputs: dict[str, Any], results: dict[str, Any]) -> dict[str, str]:
    """The results of the initializer by the inputs that have the same number of a resource."""
    names = {info["resourceId"]: info["name"] for info in results.values() if "resourceId" in info}
    return {
        info["name"].partition(":")[0]: names[info["resourceId"]]
        for info in inputs.values()
        if info.get("resourceId") in names
    }


def _message(kind: str, document: Any, where: str) -> Any:
    message = MESSAGES[kind]()
    try:
        plain = _numbered(document, 0)
        return json_format.ParseDict(plain, message, ignore_unknown_fields=True)
    except (json_format.ParseError, RecursionError) as error:
        raise ModelFileError(f"the graph is not well formed: {error}", where=where) from None


def _numbered(document: Any, depth: int) -> Any:
    """A document in which element types are numbers."""
    if depth > _DEEPEST:
        raise RecursionError("it is nested too deeply")
    if isinstance(document, dict):
        return {key: _numbered(value, depth + 1) for key, value in document.items()}
    if isinstance(document, list):
        return [_numbered(value, depth + 1) for value in document]
    if isinstance(document, str) and document.startswith("DT_"):
        name = document[3:].removesuffix("_REF")
        if name in NAMES:
            return NAMES[name]
    return document
