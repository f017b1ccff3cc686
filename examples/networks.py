"""ResNet-50 and MobileNet-v2 written node by node with onnx.helper: full-size networks without any
framework.

Weights are random but seeded and scaled as a trained network's are, and every batch norm stays a
node of its own with statistics away from 0 and 1, so that an optimizer has its usual work to do and
a wrong fold shows in the answer.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
CLASSES = 1000


class Builder:
    """Appends nodes and weights to a graph; a value is its name."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Append one node and return its output."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def weight(self, array: np.ndarray) -> str:
        """Add a constant."""
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def constant(self, value: Any) -> str:
        """Add a constant of its own element type: sizes, axes, single numbers."""
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def conv(
        self, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> str:
        """Convolution without bias, padded to keep the size at stride 1."""
        fan_in = inputs // groups * kernel**2
        weight = self.rng.standard_normal((outputs, inputs // groups, kernel, kernel), np.float32)
        return self.op(
            "Conv",
            x,
            self.weight(weight * (2 / fan_in) ** 0.5),
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[kernel // 2] * 4,
            group=groups,
        )

    def norm(self, x: str, channels: int, scale: float = 1.0) -> str:
        """Batch norm with statistics as training leaves them."""
        gamma = scale * self.rng.uniform(0.5, 1.5, channels)
        beta, mean = self.rng.normal(0, 0.1, (2, channels))
        variance = self.rng.uniform(0.5, 1.5, channels)
        return self.op(
            "BatchNormalization", x, *map(self.weight, (gamma, beta, mean, variance)), epsilon=1e-5
        )

    def relu6(self, x: str) -> str:
        """Clip to [0, 6]."""
        return self.op("Clip", x, self.weight(np.array(0.0)), self.weight(np.array(6.0)))

    def classify(self, x: str, features: int) -> str:
        """Global average pooling and a linear layer."""
        pooled = self.op("Flatten", self.op("GlobalAveragePool", x))
        weight = self.rng.normal(0, features**-0.5, (CLASSES, features))
        bias = self.rng.normal(0, 0.1, CLASSES)
        return self.op("Gemm", pooled, self.weight(weight), self.weight(bias), transB=1)

    def model(self, name: str, output: str, batch: int | str, size: int) -> onnx.ModelProto:
        """The finished, checked model from `input` to the value `output`."""
        image = helper.make_tensor_value_info("input", TensorProto.FLOAT, [batch, 3, size, size])
        logits = helper.make_tensor_value_info(output, TensorProto.FLOAT, [batch, CLASSES])
        graph = helper.make_graph(self.nodes, name, [image], [logits], self.weights)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8
        )
        onnx.checker.check_model(model)
        return model


def resnet50(batch: int | str = 1, size: int = 224, seed: int = 0) -> onnx.ModelProto:
    """ResNet-50 with the stride in the 3×3 convolution: 25.6 million weights, 4.1 billion
    multiplications at 224.
    """
    net = Builder(seed)

    def unit(x: str, inputs: int, outputs: int, kernel: int, stride: int = 1) -> str:
        return net.op("Relu", net.norm(net.conv(x, inputs, outputs, kernel, stride), outputs))

    x = unit("input", 3, 64, 7, 2)
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for width, depth, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(depth):
            stride, wide, skip = first_stride if i == 0 else 1, 4 * width, x
            x = unit(unit(x, channels, width, 1), width, width, 3, stride)
            x = net.norm(net.conv(x, width, wide, 1), wide, scale=0.3)
            if i == 0:
                skip = net.norm(net.conv(skip, channels, wide, 1, stride), wide)
            x, channels = net.op("Relu", net.op("Add", x, skip)), wide
    return net.model("resnet50", net.classify(x, channels), batch, size)


def mobilenet_v2(batch: int | str = 1, size: int = 224, seed: int = 0) -> onnx.ModelProto:
    """MobileNet-v2 at width 1: 3.5 million weights, 0.3 billion multiplications at 224."""
    net = Builder(seed)

    def unit(
        x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> str:
        return net.relu6(net.norm(net.conv(x, inputs, outputs, kernel, stride, groups), outputs))

    x, channels = unit("input", 3, 32, 3, 2), 32
    stages = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    for expand, outputs, depth, first_stride in stages:
        for i in range(depth):
            stride, wide, skip = first_stride if i == 0 else 1, expand * channels, x
            if expand > 1:
                x = unit(x, channels, wide, 1)
            x = unit(x, wide, wide, 3, stride, groups=wide)
            x = net.norm(net.conv(x, wide, outputs, 1), outputs, scale=0.7)
            if stride == 1 and channels == outputs:
                x = net.op("Add", x, skip)
            channels = outputs
    return net.model("mobilenet_v2", net.classify(unit(x, channels, 1280, 1), 1280), batch, size)


NETWORKS: dict[str, Callable[..., onnx.ModelProto]] = {
    "resnet50": resnet50,
    "mobilenet_v2": mobilenet_v2,
}
