"""From the bytes of a photo to class scores in one graph: resize, crop and normalize stand in front
of the network.

`python -m examples.photos` classifies photos of several sizes. The graph takes any uint8 image
(height, width, 3), as cameras and image files give it, brings its shorter side to 64 pixels, cuts
out the 56 × 56 in the middle, normalizes the channels and runs a small network. The same steps in
NumPy are in `prepared`.
"""

from fractions import Fraction

import numpy as np
import onnx
from onnx import TensorProto, helper

import infuse
from examples.networks import Builder

SIDE, CROP = 64, 56
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
CLASSES = 10


def preprocess(make: Builder, image: str) -> str:
    """The network's input (1, 3, 56, 56) of an image (height, width, 3) of bytes."""
    pixels = make.op("Cast", image, to=TensorProto.FLOAT)
    planes = make.op(
        "Unsqueeze", make.op("Transpose", pixels, perm=[2, 0, 1]), make.constant(np.array([0]))
    )
    small = make.op(
        "Resize",
        *(planes, "", "", make.constant(np.array([SIDE, SIDE]))),
        axes=[2, 3],
        mode="linear",
        antialias=1,
        keep_aspect_ratio_policy="not_smaller",
    )
    middle = make.op("CenterCropPad", small, make.constant(np.array([CROP, CROP])), axes=[2, 3])
    scaled = make.op("Div", middle, make.weight(np.float32(255)))
    centered = make.op("Sub", scaled, make.weight(MEAN.reshape(1, 3, 1, 1)))
    return make.op("Div", centered, make.weight(DEVIATION.reshape(1, 3, 1, 1)))


def network(make: Builder, x: str) -> str:
    """Class probabilities of images (n, 3, 56, 56)."""
    for inputs, outputs in ((3, 16), (16, 32), (32, 64)):
        x = make.op("Relu", make.conv(x, inputs, outputs, 3, stride=2))
    features = make.op("Flatten", make.op("GlobalAveragePool", x))
    logits = make.op("MatMul", features, make.weight(make.rng.standard_normal((64, CLASSES))))
    return make.op("Softmax", logits, axis=1)


def photo_classifier() -> onnx.ModelProto:
    """The model: `image` in, `pixels` (what the network sees) and `scores` out."""
    make = Builder(seed=7)
    pixels = preprocess(make, "image")
    scores = network(make, pixels)
    for name, result in (("pixels", pixels), ("scores", scores)):
        make.nodes.append(helper.make_node("Identity", [result], [name]))
    graph = helper.make_graph(
        make.nodes,
        "photos",
        [helper.make_tensor_value_info("image", TensorProto.UINT8, ["height", "width", 3])],
        [
            helper.make_tensor_value_info("pixels", TensorProto.FLOAT, [1, 3, CROP, CROP]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, CLASSES]),
        ],
        make.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def prepared(image: np.ndarray) -> np.ndarray:
    """What the graph does before the network, in NumPy."""
    ratio = max(Fraction(SIDE, size) for size in image.shape[:2])
    small = image.astype(np.float64)
    for axis in (0, 1):
        small = np.moveaxis(_shrunk(np.moveaxis(small, axis, 0), ratio), 0, axis)
    top, left = ((size - CROP) // 2 for size in small.shape[:2])
    middle = small[top : top + CROP, left : left + CROP] / 255
    return ((middle - MEAN) / DEVIATION).transpose(2, 0, 1)[None].astype(np.float32)


def _shrunk(rows: np.ndarray, ratio: Fraction) -> np.ndarray:
    """Every output row is a weighted mean of the rows it covers, nearer ones weighing more."""
    count = int(ratio * len(rows) + Fraction(1, 2))
    centers = (np.arange(count) + 0.5) / float(ratio) - 0.5
    # Rows beyond the border repeat the outermost one.
    reach = int(np.ceil(max(1, 1 / ratio))) + 1
    places = np.arange(-reach, len(rows) + reach)
    weights = np.maximum(0, 1 - np.abs(centers[:, None] - places) * min(float(ratio), 1.0))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.tensordot(weights, rows[np.clip(places, 0, len(rows) - 1)], axes=1)


def main() -> None:
    """Classify photos of several sizes."""
    session = infuse.InferenceSession(photo_classifier().SerializeToString())
    rng = np.random.default_rng(0)
    for size in ((480, 640), (800, 600), (64, 200)):
        image = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
        pixels, scores = session.run(None, {"image": image})
        error = float(np.abs(pixels - prepared(image)).max())
        print(
            f"{size[0]} × {size[1]}: class {scores.argmax()}, {scores.max():.1%}; {error:.1e} away "
            "from NumPy"
        )


if __name__ == "__main__":
    main()
