"""The networks of keras.applications beside Keras: `python -m benchmarks.frontends_keras`.

For every network without its softmax, with random weights and statistics: whether Infuse reads its
`.keras` and its `.h5` file, its nodes, and the largest difference from Keras on random images, as a
part of the largest output. Needs keras and tensorflow. A table is printed, and `--json FILE` writes
it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import infuse
from infuse.errors import InfuseError
from infuse.ops.core.evaluate import evaluate

NETWORKS = (
    *("MobileNet", "MobileNetV2", "MobileNetV3Small", "MobileNetV3Large", "NASNetMobile"),
    *("EfficientNetB0", "EfficientNetB1", "EfficientNetB2", "EfficientNetB3", "EfficientNetV2B0"),
    *("EfficientNetV2B1", "EfficientNetV2B2", "EfficientNetV2B3", "EfficientNetV2S"),
    *("DenseNet121", "DenseNet169", "DenseNet201", "ResNet50", "ResNet50V2", "ResNet101"),
    *("ResNet101V2", "ResNet152", "ResNet152V2", "InceptionV3", "InceptionResNetV2", "Xception"),
    *("ConvNeXtTiny", "ConvNeXtSmall", "VGG16", "VGG19"),
)


@dataclass(frozen=True)
class Row:
    """What came of one file: nodes, seconds of reading, difference; or why it was refused."""

    network: str
    format: str
    nodes: int = 0
    seconds: float = 0.0
    difference: float = float("nan")
    refused: str = ""


def main(arguments: list[str] | None = None) -> int:
    """The command; 1 where a network disagrees."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="default: all 30")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    for network in options.networks or NETWORKS:
        for row in measured(network):
            rows.append(row)
            text = row.refused or f"{row.nodes:5} nodes, difference {row.difference:.1e}"
            print(f"{row.network:20} {row.format:6} {text} ({row.seconds:.2f} s)", flush=True)
    wrong = [row for row in rows if not row.difference <= options.tolerance]
    print(f"{len(rows)} files, {len(rows) - len(wrong)} agree")
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return int(bool(wrong))


def measured(network: str) -> list[Row]:
    """A network as both files."""
    import keras

    keras.utils.clear_session()
    model = getattr(keras.applications, network)(weights=None, classifier_activation=None)
    sizes = [size or 224 for size in model.input_shape[1:]]
    feed = np.random.default_rng(0).uniform(0, 255, (2, *sizes)).astype(np.float32)
    settle(model, feed)
    expected = np.asarray(model(feed, training=False))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("keras", "h5"):
            path = Path(folder) / f"model.{suffix}"
            model.save(path)
            rows.append(compared(network, path, feed, expected))
    return rows


def settle(model: Any, images: np.ndarray) -> None:
    """Give a new network statistics and scales that are not those it begins with, so that a mistake
    in them shows, and those that images have in it, so that differences do not grow.
    """
    rng = np.random.default_rng(1)
    for weight in model.weights:
        name, shape = weight.path.rpartition("/")[2], tuple(weight.shape)
        if name == "gamma":
            weight.assign(rng.uniform(0.5, 1.5, shape))
        elif name in ("beta", "bias"):
            weight.assign(rng.normal(0, 0.1, shape))
    for layer in model.layers:
        if hasattr(layer, "moving_mean"):
            layer.momentum = 0.0
    model(images, training=True)


def compared(network: str, path: Path, feed: np.ndarray, expected: np.ndarray) -> Row:
    """One file beside what Keras computes."""
    begin = time.perf_counter()
    try:
        graph = infuse.load(path)
    except InfuseError as error:
        return Row(network, path.suffix[1:], refused=str(error))
    seconds = time.perf_counter() - begin
    (made,) = evaluate(graph, {graph.inputs[0].name: feed}).values()
    scale = float(np.abs(expected).max()) or 1.0
    difference = float(np.abs(made - expected).max()) / scale
    return Row(network, path.suffix[1:], len(graph.nodes), seconds, difference)


if __name__ == "__main__":
    sys.exit(main())
