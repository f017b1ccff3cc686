"""Graph models of TensorFlow.js run by TensorFlow, for `benchmarks.frontends`.

TensorFlow.js writes operators that TensorFlow has not: `Prelu`, and convolutions and products with
others fused to them. They are written out here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import json_format

_PLAIN = {
    "_FusedConv2D": "Conv2D",
    "FusedDepthwiseConv2dNative": "DepthwiseConv2dNative",
    "_FusedMatMul": "MatMul",
}
_BESIDE = ("fused_ops", "num_args", "epsilon", "leakyrelu_alpha", "num_host_args", "TArgs")


def runner(path: Path) -> Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """Runs a model to the outputs of its signature, or to what nobody reads."""

    def run(feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        document = json.loads(path.read_text())
        message = _graph(document, path.parent)
        signature = document.get("signature") or {}
        signature = signature or document.get("userDefinedMetadata", {}).get("signature", {})
        named = {name: info["name"] for name, info in signature.get("inputs", {}).items()}
        fed = {_place(named.get(name, name)): feed for name, feed in feeds.items()}
        if signature.get("outputs"):
            ends = {name: _place(info["name"]) for name, info in signature["outputs"].items()}
        else:
            read = {t.split(":")[0].lstrip("^") for n in message.node for t in n.input}
            silent = ("NoOp", "Const", "Placeholder")
            ends = {
                n.name: f"{n.name}:0"
                for n in message.node
                if n.name not in read and n.op not in silent
            }
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(message, name="")
            with tf.compat.v1.Session(graph=graph) as session:
                made = session.run(list(ends.values()), fed)
        return dict(zip(ends, made))

    return run


def _place(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def _graph(document: dict[str, Any], folder: Path) -> Any:
    topology = {k: v for k, v in document["modelTopology"].items() if k in ("node", "library")}
    message = json_format.ParseDict(topology, tf.compat.v1.GraphDef(), ignore_unknown_fields=True)
    weights = _weights(document["weightsManifest"], folder)
    made = tf.compat.v1.GraphDef()
    made.library.CopyFrom(message.library)
    made.versions.producer = 1286
    for node in message.node:
        if node.op == "Const" and node.name in weights:
            dtype = tf.as_dtype(node.attr["dtype"].type)
            elements = weights[node.name].astype(dtype.as_numpy_dtype)
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(elements, dtype))
        _write(made, node)
    return made


def _write(graph: Any, node: Any) -> None:
    if node.op == "Prelu":
        _prelu(graph, node.name, *node.input)
        return
    if node.op not in _PLAIN:
        graph.node.add().CopyFrom(node)
        return
    fused = [name.decode() for name in node.attr["fused_ops"].list.s]
    plain = graph.node.add()
    plain.CopyFrom(node)
    plain.op = _PLAIN[node.op]
    for attribute in _BESIDE:
        plain.attr.pop(attribute, None)
    del plain.input[2:]
    arguments, place = list(node.input[2:]), plain
    for number, name in enumerate(fused):
        last = number == len(fused) - 1
        place.name = f"{node.name}/plain" if number == 0 else place.name
        before, label = place.name, node.name if last else f"{node.name}/step_{number}"
        if name == "Prelu":
            _prelu(graph, label, before, arguments.pop(0))
            continue
        place = _add(graph, label, name, before)
        if name == "BiasAdd":
            place.input.append(arguments.pop(0))
        if name == "LeakyRelu":
            place.attr["alpha"].f = node.attr["leakyrelu_alpha"].f


def _add(graph: Any, name: str, op: str, *inputs: str) -> Any:
    node = graph.node.add(name=name, op=op)
    node.input.extend(inputs)
    node.attr["T"].type = tf.float32.as_datatype_enum
    return node


def _prelu(graph: Any, name: str, x: str, alpha: str) -> None:
    for kind, inputs in (("Relu", [x]), ("Neg", [x])):
        _add(graph, f"{name}/{kind}", kind, *inputs)
    _add(graph, f"{name}/low", "Relu", f"{name}/Neg")
    _add(graph, f"{name}/scaled", "Mul", f"{name}/low", alpha)
    _add(graph, name, "Sub", f"{name}/Relu", f"{name}/scaled")


def _weights(manifest: Any, folder: Path) -> dict[str, np.ndarray]:
    weights = {}
    for group in manifest:
        data, place = b"".join((folder / path).read_bytes() for path in group["paths"]), 0
        for entry in group["weights"]:
            quantization = entry.get("quantization") or {}
            stored = np.dtype(quantization.get("dtype", entry["dtype"]))
            count = int(np.prod(entry["shape"], dtype=np.int64))
            elements = np.frombuffer(data, stored, count, place).reshape(entry["shape"])
            place += count * stored.itemsize
            if "scale" in quantization:
                elements = elements.astype(np.float32) * np.float32(quantization["scale"])
                elements = elements + np.float32(quantization["min"])
            whole = "scale" in quantization and entry["dtype"] == "int32"
            weights[entry["name"]] = np.round(elements) if whole else elements
    return weights
