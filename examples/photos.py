"""From the pixels of a photo to class scores in one graph: resize, crop and normalize stand in
front of the network.

`python -m examples.photos` classifies photos of several sizes. The network is an ONNX model that
takes floats (1, 3, 56, 56). `attach` puts a function in front of it, so that the graph takes any
uint8 image (height, width, 3), as cameras and image files give it: its shorter side is brought to
64 pixels, the 56 × 56 in the middle are cut out and the channels normalized. The same steps, as
training scripts do them with Pillow, are in `prepared`.
"""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from PIL import Image

import infuse
from examples.networks import Builder
from infuse.processing import attach, prepare_image

SIDE, CROP = 64, 56
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
CLASSES = 10


def network() -> onnx.ModelProto:
    """Class probabilities of images (1, 3, 56, 56): `scores` of `x`."""
    make = Builder(seed=7)
    x = "x"
    for inputs, outputs in ((3, 16), (16, 32), (32, 64)):
        x = make.op("Relu", make.conv(x, inputs, outputs, 3, stride=2))
    features = make.op("Flatten", make.op("GlobalAveragePool", x))
    logits = make.op("MatMul", features, make.weight(make.rng.standard_normal((64, CLASSES))))
    make.nodes.append(helper.make_node("Softmax", [logits], ["scores"], axis=1))
    graph = helper.make_graph(
        make.nodes,
        "photos",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, CROP, CROP])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, CLASSES])],
        make.weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def preprocess(image: Any) -> dict[str, Any]:
    """The network's input `x` of an image, which is an output `pixels` too."""
    pixels, _ = prepare_image(image, CROP, shortest=SIDE, mean=MEAN, std=DEVIATION)
    return {"x": pixels, "pixels": pixels}


def photo_classifier() -> infuse.Graph:
    """The graph: `image` in, `scores` and `pixels` (what the network sees) out."""
    specs = {"image": infuse.Spec("uint8", ("height", "width", 3))}
    return attach(infuse.load(network()), before=preprocess, specs=specs)


def prepared(image: np.ndarray) -> np.ndarray:
    """What the graph does before the network, with Pillow."""
    rows, columns = (size * SIDE // min(image.shape[:2]) for size in image.shape[:2])
    small = Image.fromarray(image).resize((columns, rows), Image.Resampling.BILINEAR)
    top, left = round((rows - CROP) / 2), round((columns - CROP) / 2)
    middle = np.asarray(small.crop((left, top, left + CROP, top + CROP)), np.float32)
    return ((middle / 255 - MEAN) / DEVIATION).transpose(2, 0, 1)[None]


def main() -> None:
    """Classify photos of several sizes."""
    model = infuse.compile(infuse.optimize(photo_classifier()))
    rng = np.random.default_rng(0)
    for size in ((480, 640), (800, 600), (64, 200)):
        image = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
        results = model.run({"image": image})
        error = np.abs(results["pixels"] - prepared(image)) * DEVIATION[:, None, None] * 255
        print(
            f"{size[0]} × {size[1]}: class {results['scores'].argmax()}, "
            f"{results['scores'].max():.1%}; pixels differ from Pillow's by {error.mean():.2f} of "
            f"255, at most {error.max():.0f}"
        )


if __name__ == "__main__":
    main()
