"""Networks of keras.applications without their softmax, with random weights and statistics."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from benchmarks.frontends import Case, file_case

NETWORKS = (
    *("MobileNet", "MobileNetV2", "MobileNetV3Small", "MobileNetV3Large", "NASNetMobile"),
    *("EfficientNetB0", "EfficientNetB1", "EfficientNetB2", "EfficientNetB3", "EfficientNetV2B0"),
    *("EfficientNetV2B1", "EfficientNetV2B2", "EfficientNetV2B3", "EfficientNetV2S"),
    *("DenseNet121", "DenseNet169", "DenseNet201", "ResNet50", "ResNet50V2", "ResNet101"),
    *("ResNet101V2", "ResNet152", "ResNet152V2", "InceptionV3", "InceptionResNetV2", "Xception"),
    *("ConvNeXtTiny", "ConvNeXtSmall", "VGG16", "VGG19"),
)


def cases(names: Sequence[str]) -> Iterator[Case]:
    """The networks that are named, by default all 30, as both kinds of file."""
    for name in names or NETWORKS:
        keras.utils.clear_session()
        model = getattr(keras.applications, name)(weights=None, classifier_activation=None)
        sizes = [size or 224 for size in model.input_shape[1:]]
        images = np.random.default_rng(0).uniform(0, 255, (2, *sizes)).astype(np.float32)
        settle(model, images)
        expected = np.asarray(model(images, training=False))
        with tempfile.TemporaryDirectory() as folder:
            for suffix in ("keras", "h5"):
                path = Path(folder) / f"{name}.{suffix}"
                model.save(path)
                yield file_case(
                    path,
                    lambda feeds, expected=expected: [expected],
                    lambda graph, images=images: {graph.inputs[0].name: images},
                )


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
