"""Writes `data/tensorflow/` with TensorFlow itself: `python -m tests.models.make_tensorflow`.

`operators.npz`, `flows.npz` and `networks.npz` have for each case its graph (or SavedModel), what
it is called with and what TensorFlow makes of it; `special.npz` likewise, which is written alone
where `special` is an argument. The folders are a SavedModel of each generation
and a model of TensorFlow.js; `files.npz` has their inputs and outputs.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from tests.models.tensorflow_cases import CASES, Case, floats
from tests.models.tensorflow_cases_special import SPECIAL
from tests.models.tensorflow_files import DATA, write
from tests.models.tensorflow_models import FLOWS, networks


def arrays(case: Case, lowered: bool = False) -> dict[str, Any]:
    """A graph, its inputs and its outputs; its control flow as TensorFlow 1 had it if `lowered`."""
    function, feeds = case
    specs = [tf.TensorSpec(feed.shape, feed.dtype, name=f"x{i}") for i, feed in enumerate(feeds)]
    concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
    results = tf.nest.flatten(concrete(*map(tf.constant, feeds)))
    names = [tensor.op.name for tensor in tf.nest.flatten(concrete.structured_outputs)]
    stored = {f"in_{i}": feed for i, feed in enumerate(feeds)}
    stored |= {f"out_{name}": result.numpy() for name, result in zip(names, results)}
    if lowered:
        concrete = convert_variables_to_constants_v2(concrete, lower_control_flow=True)
    message = concrete.graph.as_graph_def()
    return stored | {"graph": np.frombuffer(message.SerializeToString(), np.uint8)}


def network(name: str, model: Any, feeds: list[np.ndarray]) -> dict[str, Any]:
    """The files of a network's SavedModel, its inputs and its outputs."""
    results = tf.nest.flatten(model(*feeds))
    stored = {f"in_{i}": feed for i, feed in enumerate(feeds)}
    stored |= {f"out_output_{i}": np.asarray(result) for i, result in enumerate(results)}
    with tempfile.TemporaryDirectory() as folder:
        model.export(folder, verbose=False)
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file() and path.name != "fingerprint.pb":
                data = _stripped(path) if path.name == "saved_model.pb" else path.read_bytes()
                stored[f"file_{path.relative_to(folder)}"] = np.frombuffer(data, np.uint8)
    return stored


def _stripped(path: Path) -> bytes:
    """A SavedModel without what says how it was made."""
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for meta in saved.meta_graphs:
        meta.ClearField("object_graph_def")
        meta.meta_info_def.ClearField("stripped_op_list")
        for nodes in (meta.graph_def.node, *(f.node_def for f in meta.graph_def.library.function)):
            for node in nodes:
                node.attr.pop("_output_shapes", None)
                node.ClearField("experimental_debug_info")
    return bytes(saved.SerializeToString())


# -- folders ---------------------------------------------------------------------------------------


def saved_models() -> dict[str, dict[str, Any]]:
    """A SavedModel of each generation."""
    x = floats(2, 3)
    folder = DATA / "generation_1"
    shutil.rmtree(folder, ignore_errors=True)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        given = tf.compat.v1.placeholder(tf.float32, (None, 3), "given")
        start = tf.constant(floats(3, 2))
        weights = tf.compat.v1.get_variable("weights", initializer=start, use_resource=False)
        result = tf.compat.v1.nn.relu(given @ weights + 0.5, name="result")
        session.run(tf.compat.v1.global_variables_initializer())
        first = session.run(result, {given: x})
        tf.compat.v1.saved_model.simple_save(session, str(folder), {"x": given}, {"y": result})
    folder = DATA / "generation_2"
    shutil.rmtree(folder, ignore_errors=True)

    class Two(tf.Module):
        def __init__(self) -> None:
            self.weights = tf.Variable(floats(3, 2))

        @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")])
        def double(self, x: Any) -> Any:
            return {"y": x @ self.weights * 2.0}

        @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")])
        def triple(self, x: Any) -> Any:
            return {"y": x @ self.weights * 3.0}

    module = Two()
    tf.saved_model.save(module, str(folder), {"double": module.double, "triple": module.triple})
    for made in DATA.rglob("fingerprint.pb"):
        made.unlink()
    for made in DATA.rglob("saved_model.pb"):
        made.write_bytes(_stripped(made))
    return {
        "generation_1": {"x": x, "y": first},
        "generation_2": {"x": x, "y": module.double(x)["y"].numpy()},
    }


def web_model() -> dict[str, Any]:
    """A model of TensorFlow.js whose weights are stored in every way."""
    folder, x = DATA / "web", floats(2, 3)
    weights = {"w8": floats(3, 4), "w16": floats(4, 5), "half": floats(5, 2), "plain": floats(2)}

    def function(x: Any) -> Any:
        names = iter(weights)
        y = x
        for name in names:
            constant = tf.constant(weights[name], name=name)
            y = y + constant if name == "plain" else tf.tanh(y @ constant)
        return y

    stored, manifest = b"", []
    for name, elements in weights.items():
        entry: dict[str, Any] = {"name": name, "shape": elements.shape, "dtype": "float32"}
        if name == "half":
            data, entry["quantization"] = elements.astype(np.float16), {"dtype": "float16"}
            weights[name] = data.astype(np.float32)
        elif name == "plain":
            data = elements
        else:
            kind = np.uint8 if name == "w8" else np.uint16
            least, scale = elements.min(), np.float32(np.ptp(elements) / np.iinfo(kind).max)
            data = np.rint((elements - least) / scale).astype(kind)
            entry["quantization"] = {
                "dtype": kind.__name__, "min": float(least), "scale": float(scale)
            }  # fmt: skip
            weights[name] = data.astype(np.float32) * scale + least
        manifest.append(entry)
        stored += data.tobytes()
    concrete = tf.function(function).get_concrete_function(tf.TensorSpec((None, 3), name="x"))
    message = concrete.graph.as_graph_def()
    for node in message.node:
        if node.name in weights:
            node.attr["value"].tensor.ClearField("tensor_content")
    document = {
        "format": "graph-model",
        "modelTopology": json_format.MessageToDict(message),
        "weightsManifest": [{"paths": ["one.bin", "two.bin"], "weights": manifest}],
    }
    folder.mkdir(exist_ok=True)
    (folder / "model.json").write_text(json.dumps(document))
    (folder / "one.bin").write_bytes(stored[:21])
    (folder / "two.bin").write_bytes(stored[21:])
    return {"x": x, "y": concrete(tf.constant(x)).numpy()}


def main() -> int:
    DATA.mkdir(parents=True, exist_ok=True)
    write(DATA / "special.npz", {name: arrays(case) for name, case in SPECIAL.items()})
    if sys.argv[1:] == ["special"]:
        return 0
    write(DATA / "operators.npz", {name: arrays(case) for name, case in CASES.items()})
    flows = {name: arrays(case) for name, case in FLOWS.items()}
    old = {f"{n}-lowered": arrays(c, lowered=True) for n, c in FLOWS.items() if n != "switch_case"}
    write(DATA / "flows.npz", flows | old)
    made = {name: network(name, *parts) for name, parts in networks().items()}
    write(DATA / "networks.npz", made)
    write(DATA / "files.npz", saved_models() | {"web": web_model()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
