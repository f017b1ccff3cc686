"""SavedModels, frozen graphs (`.pb`) and graph models of TensorFlow.js (`.json`) below places, and
networks of keras.applications with random weights. A model agrees, too, within ten times of how far
TensorFlow's own answers move when inputs change by a part of 1e-7.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import tensorflow as tf

from benchmarks.frontends import CannotRun, Case, Feeds, file_case
from benchmarks.frontends.web import runner as web_runner

Run = Callable[[Feeds], Feeds]
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


def cases(names: Sequence[str]) -> Iterator[Case]:
    """The networks that are named and the models below places; by default all networks."""
    places = [Path(name) for name in names if name not in KERAS]
    for path, run in models(places):
        yield _case(path, run)
    for name in [n for n in names if n in KERAS] or ([] if places else KERAS):
        with tempfile.TemporaryDirectory() as folder:
            tf.keras.backend.clear_session()
            path = exported(name, Path(folder) / name)
            yield _case(path, saved_runner(path))


def _case(path: Path, run: Run) -> Case:
    def checked(feeds: Feeds) -> Feeds:
        try:
            return run(feeds)
        except (tf.errors.OpError, ValueError) as error:
            raise CannotRun(str(error)) from error

    def near(feeds: Feeds) -> Feeds:
        rng = np.random.default_rng(1)
        return checked(
            {
                name: (array * (1 + 1e-7 * rng.standard_normal(array.shape))).astype(array.dtype)
                if array.dtype.kind == "f"
                else array
                for name, array in feeds.items()
            }
        )

    return replace(file_case(path, checked), near=near, slack=10.0)


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


def saved_runner(folder: Path) -> Run:
    """Runs the signature for serving of a SavedModel."""

    def run(feeds: Feeds) -> Feeds:
        loaded = tf.saved_model.load(str(folder))
        named = loaded.signatures
        signature = named.get("serving_default") or next(iter(named.values()))
        made = signature(**{name: tf.constant(feed) for name, feed in feeds.items()})
        return {name: value.numpy() for name, value in made.items()}

    return run


def frozen_runner(path: Path) -> Run:
    """Runs a frozen graph to what nobody reads."""

    def run(feeds: Feeds) -> Feeds:
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
