"""Graph models of TensorFlow.js: a graph in JSON, and files of its weights, quantized or not."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from google.protobuf import json_format

from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.files import ExternalFiles
from infuse.frontends.tensorflow.messages import MESSAGES
from infuse.frontends.tensorflow.tensors import NAMES
from infuse.ir.graph import Array

_STORED: Final = {"float32": "<f4", "int32": "<i4", "bool": "?", "float16": "<f2"}
_QUANTIZED: Final = {"uint8": "<u1", "uint16": "<u2", "float16": "<f2"}
_DEEPEST: Final = 60


def read(data: memoryview, path: Path | None, where: str) -> tuple[Any, Any, dict[str, Array]]:
    """The graph, its signature or None, and its weights by name."""
    try:
        document = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"the model is no JSON: {error}", where=where) from None
    topology = document["modelTopology"]
    if not isinstance(topology, dict) or "node" not in topology:
        raise ModelFileError(
            "its topology is no graph", where=where, hint="only graph models are read here"
        )
    kept = {name: topology[name] for name in ("node", "library") if name in topology}
    graph = _message("Graph", kept, where)
    signature = document.get("signature")
    if signature is None:
        signature = (document.get("userDefinedMetadata") or {}).get("signature")
    made = None if not signature else _message("SignatureDef", signature, where)
    return graph, made, _weights(document["weightsManifest"], path)


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


def _weights(manifest: Any, path: Path | None) -> dict[str, Array]:
    files, weights = ExternalFiles(path), {}
    for group in manifest:
        data, place = _joined(files, group["paths"], path), 0
        for entry in group["weights"]:
            stored, size = _layout(entry, data, place)
            weights[entry["name"]] = _elements(entry, stored)
            place += size
        if place != len(data):
            raise ModelFileError(
                f"weights of {place} bytes lie in files of {len(data)}: {group['paths'][:2]}",
                hint="the files were cut off, or are of another model",
            )
    return weights


def _joined(files: ExternalFiles, names: list[str], path: Path | None) -> memoryview:
    parts = []
    for name in names:
        if path is None or not isinstance(name, str):
            raise ModelFileError(
                f"its weights lie in the file {name!r}, but the model came from memory",
                hint="load the model from its path",
            )
        try:
            size = (path.parent / name).stat().st_size
        except (OSError, ValueError):
            size = 1  # Whoever reads it says why it cannot be read.
        parts.append(files.read(name, {"location": name}, size))
    return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))


def _layout(entry: Mapping[str, Any], data: memoryview, place: int) -> tuple[Array, int]:
    """The numbers that are stored for a weight, and how many bytes they have."""
    name, kind = entry["name"], entry["dtype"]
    quantization = entry.get("quantization")
    stored = _STORED.get(kind)
    if quantization:
        stored = _QUANTIZED.get(quantization["dtype"])
    if stored is None:
        raise UnsupportedOperatorError(
            f"the weight {name!r} of type {kind}, stored as "
            f"{(quantization or {}).get('dtype', kind)}, is not supported"
        )
    shape = [int(size) for size in entry["shape"]]
    if any(size < 0 for size in shape):
        raise ModelFileError(f"the weight {name!r} has the shape {shape}")
    count = math.prod(shape)
    size = count * np.dtype(stored).itemsize
    if place + size > len(data):
        raise ModelFileError(
            f"the {size} bytes of the weight {name!r} begin at byte {place} of {len(data)}",
            hint="the files of weights were cut off, or are of another model",
        )
    return np.frombuffer(data[place : place + size], stored).reshape(shape), size


def _elements(entry: Mapping[str, Any], stored: Array) -> Array:
    quantization = entry.get("quantization")
    if not quantization:
        return stored
    if quantization["dtype"] == "float16":
        return stored.astype(np.float32)
    scale, least = np.float32(quantization["scale"]), np.float32(quantization["min"])
    real: Array = stored.astype(np.float32) * scale + least
    return np.rint(real).astype(np.int32) if entry["dtype"] == "int32" else real
