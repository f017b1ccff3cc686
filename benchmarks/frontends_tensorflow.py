"""Models of TensorFlow beside it: `python -m benchmarks.frontends_tensorflow [PLACE …] [--keras]`.

For every SavedModel folder, frozen graph (`.pb`) and graph model of TensorFlow.js (`.json`) below
the places, and with `--keras` for networks of keras.applications with random weights: whether
Infuse reads it, its nodes, the transposes before and after optimization, and the largest difference
from TensorFlow on random inputs, as a part of the largest output; and beside it how far answers of
TensorFlow itself move when inputs change by a part of 1e-7. Models agree within the tolerance, or
within ten times the latter. Needs tensorflow, which tests do not.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import tensorflow as tf

import infuse
from benchmarks.measure import difference
from benchmarks.tensorflow_web import runner as web_runner
from infuse.errors import InfuseError
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate

Run = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]
KERAS: dict[str, int] = {
    "MobileNet": 64, "MobileNetV2": 64, "MobileNetV3Small": 64, "MobileNetV3Large": 64,
    "NASNetMobile": 224, "EfficientNetB0": 64, "EfficientNetB1": 64, "EfficientNetB2": 64,
    "EfficientNetB3": 64, "EfficientNetB4": 64, "EfficientNetB5": 64, "EfficientNetV2B0": 64,
    "EfficientNetV2B1": 64, "EfficientNetV2B2": 64, "EfficientNetV2B3": 64, "EfficientNetV2S": 64,
    "DenseNet121": 64, "DenseNet169": 64, "DenseNet201": 64, "ResNet50": 64, "ResNet101": 64,
    "ResNet152": 64, "ResNet50V2": 64, "ResNet101V2": 64, "InceptionV3": 96,
    "InceptionResNetV2": 96, "Xception": 96, "VGG16": 48, "ConvNeXtTiny": 64, "ConvNeXtSmall": 64,
}  # fmt: skip
"""Networks of keras.applications, and the size of the images that they get."""


def main(arguments: list[str] | None = None) -> int:
    """The command; 1 where a model disagrees."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("places", nargs="*", type=Path, metavar="PLACE")
    parser.add_argument("--keras", nargs="*", metavar="NAME", help="all 30 where none is named")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--json", type=Path, help="write the rows there too")
    options = parser.parse_args(arguments)
    rows = [row(path, run, options.tolerance) for path, run in models(options.places)]
    for name in [] if options.keras is None else options.keras or list(KERAS):
        with tempfile.TemporaryDirectory() as folder:
            tf.keras.backend.clear_session()
            path = exported(name, Path(folder) / name)
            rows.append(row(path, saved_runner(path), options.tolerance))
    agree = sum(row.get("agrees", False) for row in rows)
    print(f"{len(rows)} models, {sum('nodes' in row for row in rows)} read, {agree} agree")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(not row.get("agrees", True) for row in rows))


def models(places: list[Path]) -> Iterator[tuple[Path, Run]]:
    """The models below places, and how TensorFlow runs them."""
    for place in places:
        inside = sorted(place.rglob("*")) if place.is_dir() else [place]
        for path in inside:
            if path.name == "saved_model.pb":
                yield path.parent, saved_runner(path.parent)
            elif path.suffix == ".pb":
                yield path, frozen_runner(path)
            elif path.suffix == ".json" and b"modelTopology" in path.read_bytes()[:4096]:
                yield path, web_runner(path)


def row(path: Path, run: Run, tolerance: float) -> dict[str, Any]:
    """What there is to say of a model."""
    begin = time.perf_counter()
    try:
        graph = infuse.load(path)
    except InfuseError as error:
        print(f"{path.name:34} refused: {error}")
        return {"name": path.name, "refused": str(error)}
    seconds = time.perf_counter() - begin
    feeds = random_feeds(graph)
    try:
        expected = run(feeds)
    except (tf.errors.OpError, ValueError) as error:
        print(f"{path.name:34} TensorFlow cannot run it: {str(error)[:200]}")
        return {"name": path.name, "nodes": len(graph), "unrun": str(error)[:200]}
    ours = evaluate(graph, feeds)
    largest = difference(ours, {name: expected[name] for name in ours})
    rng = np.random.default_rng(1)
    near = {
        name: (array * (1 + 1e-7 * rng.standard_normal(array.shape))).astype(array.dtype)
        if array.dtype.kind == "f"
        else array
        for name, array in feeds.items()
    }
    moved = run(near)
    own = difference(moved, expected)
    before, after = transposes(graph), transposes(infuse.optimize(graph))
    print(
        f"{path.name:34} {len(graph):5} nodes in {seconds:.2f} s, {before:3} → {after:2} "
        f"transposes, difference {largest:.1e}, own {own:.1e}",
        flush=True,
    )
    return {
        "name": path.name,
        "nodes": len(graph),
        "seconds": seconds,
        "transposes": [before, after],
        "difference": largest,
        "own": own,
        "agrees": largest <= max(tolerance, 10 * own),
    }


def transposes(graph: Graph) -> int:
    """How many there are."""
    return sum(node.kind == "Transpose" for node in graph.nodes)


def random_feeds(graph: Graph, batch: int = 2, size: int = 96) -> dict[str, np.ndarray]:
    """Inputs for a graph; sizes that are not fixed are `batch` in front, and else `size`."""
    rng, feeds = np.random.default_rng(0), {}
    for value in graph.inputs:
        if value.default is not None:
            continue
        shape = [
            dim if isinstance(dim, int) else batch if axis == 0 else size
            for axis, dim in enumerate(value.shape)
        ]
        dtype = value.dtype.numpy
        if dtype.kind == "f":
            feeds[value.name] = rng.random(shape).astype(dtype)
        else:
            feeds[value.name] = rng.integers(0, 200 if dtype.kind != "b" else 2, shape).astype(
                dtype
            )
    return feeds


# -- TensorFlow ------------------------------------------------------------------------------------


def saved_runner(folder: Path) -> Run:
    """Runs the signature for serving of a SavedModel."""

    def run(feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        loaded = tf.saved_model.load(str(folder))
        named = loaded.signatures
        signature = named.get("serving_default") or next(iter(named.values()))
        made = signature(**{name: tf.constant(feed) for name, feed in feeds.items()})
        return {name: value.numpy() for name, value in made.items()}

    return run


def frozen_runner(path: Path) -> Run:
    """Runs a frozen graph to what nobody reads."""

    def run(feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        message = tf.compat.v1.GraphDef.FromString(path.read_bytes())
        inputs = {text.split(":")[0].lstrip("^") for node in message.node for text in node.input}
        silent = ("NoOp", "Const", "Placeholder", "Assert")
        ends = [n.name for n in message.node if n.name not in inputs and n.op not in silent]
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(message, name="")
            with tf.compat.v1.Session(graph=graph) as session:
                fed = {f"{name}:0": feed for name, feed in feeds.items()}
                made = session.run([f"{name}:0" for name in ends], fed)
        return dict(zip(ends, made))

    return run


def exported(name: str, folder: Path) -> Path:
    """A network of keras.applications with random weights, as a SavedModel."""
    size = KERAS[name]
    tf.keras.utils.set_random_seed(0)
    top = {"include_top": False, "pooling": "avg"}
    model = getattr(tf.keras.applications, name)(weights=None, input_shape=(size, size, 3), **top)
    rng = np.random.default_rng(0)
    for weight in model.weights:
        if "moving" in weight.path or "gamma" in weight.path or "beta" in weight.path:
            weight.assign(rng.uniform(0.5, 1.5, weight.shape))
    model.export(str(folder), verbose=False)
    return folder


if __name__ == "__main__":
    sys.exit(main())
