"""Small networks of the usual kinds whose channels depend on each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from infuse import dtypes
from infuse.compression.forms import Writer
from infuse.ir.graph import Graph, Value, constant
from infuse.ir.types import TensorType

Feeds = dict[str, np.ndarray]


class Network(Writer):
    """A graph with one input that is built node by node, with random weights."""

    def __init__(self, name: str, shape: tuple[int, ...], seed: int = 0) -> None:
        super().__init__(Graph(name), None, name)
        self._rng = np.random.default_rng(seed)
        self.x = self.graph.add_input("x", TensorType(dtypes.float32, shape))
        self._numbers = 0

    def weights(self, *shape: int) -> Value:
        """Random weights whose products keep the size of what they multiply."""
        self._numbers += 1
        scale = (2 / max(int(np.prod(shape[1:])), 1)) ** 0.5 if len(shape) > 1 else 0.3
        array = (scale * self._rng.standard_normal(shape)).astype(np.float32)
        return constant(array, f"w{self._numbers}")

    def named(self, name: str, value: Value) -> Value:
        """The value, whose node has this name."""
        assert value.producer is not None
        value.producer.name = name
        return value

    def conv(
        self, name: str, x: Value, count: int, size: int = 3, groups: int = 1, stride: int = 1
    ) -> Value:
        """A convolution with a bias that keeps the sizes of the image, but for the stride."""
        depth = int(str(x.shape[1])) // groups
        axes = x.rank - 2
        w = self.weights(count, depth, *(size,) * axes)
        pads, strides = (size // 2,) * (2 * axes), (stride,) * axes
        made = self("Conv", x, w, self.weights(count), pads=pads, strides=strides, group=groups)
        return self.named(name, made)

    def dense(self, name: str, x: Value, count: int) -> Value:
        """A product with weights, and a bias."""
        product = self("MatMul", x, self.weights(int(str(x.shape[-1])), count))
        return self("Add", self.named(name, product), self.weights(count))

    def scores(self, x: Value) -> Graph:
        """The graph whose output is a dense layer of the means of channels."""
        flat = self("Flatten", self("GlobalAveragePool", x))
        w, b = self.weights(int(str(flat.shape[1])), 5), self.weights(5)
        self.graph.add_output(self.named("scores", self("Gemm", flat, w, b)), "scores")
        return self.graph


def residual() -> Graph:
    """As ResNet: sums of what came before and of what two convolutions make of it."""
    net = Network("residual", (2, 3, 8, 8))
    x = net("Relu", net.conv("stem", net.x, 16))
    for number in range(2):
        y = net("Relu", net.conv(f"first{number}", x, 12))
        x = net("Relu", net("Add", net.conv(f"second{number}", y, 16), x))
    x = net("MaxPool", x, kernel_shape=(2, 2), strides=(2, 2))
    return net.scores(x)


def depthwise() -> Graph:
    """As MobileNetV3: depthwise convolutions, hard swish, channels that are squeezed to gates."""
    net = Network("depthwise", (2, 3, 8, 8))
    x = net("HardSwish", net.conv("stem", net.x, 8, stride=2))
    y = net("HardSwish", net.conv("expand", x, 24, 1))
    y = net("HardSwish", net.conv("spread", y, 24, 5, groups=24))
    gate = net("Relu", net.conv("squeeze", net("GlobalAveragePool", y), 6, 1))
    gate = net("HardSigmoid", net.conv("excite", gate, 24, 1))
    y = net("Mul", y, gate)
    return net.scores(net("Add", net.conv("project", y, 8, 1), x))


def dense_blocks() -> Graph:
    """As DenseNet: every convolution reads what all before it made."""
    net = Network("dense_blocks", (2, 3, 8, 8))
    x = net.conv("stem", net.x, 8)
    for number in range(3):
        scale, bias, mean = (net.weights(int(str(x.shape[1]))) for _ in range(3))
        variance = constant(np.abs(mean.const) + 0.5)
        y = net("Relu", net("BatchNormalization", x, scale, bias, mean, variance))
        x = net("Concat", x, net.conv(f"grown{number}", y, 6), axis=1)
    return net.scores(net("AveragePool", x, kernel_shape=(2, 2), strides=(2, 2)))


def parted() -> Graph:
    """Channels that are cut in two, go two ways and come together, and groups that do not mix."""
    net = Network("parted", (2, 3, 8, 8))
    x = net.conv("stem", net.x, 16)
    left, right = net.several(2, "Split", x, net.ints(8, 8), axis=1)
    right = net.conv("right", net("Relu", right), 12, groups=4)
    x = net("Concat", net("Sigmoid", left), right, axis=1)
    first = net("Slice", x, net.ints(2), net.ints(14), net.ints(1))
    sizes = constant(np.array([2, 12, 16, 16], np.int64))
    first = net("Resize", first, None, None, sizes, mode="nearest")
    first = net("Pad", first, net.ints(0, 0, 1, 1, 0, 0, 1, 1))
    up = net("ConvTranspose", first, net.weights(12, 7, 2, 2), net.weights(7), strides=(2, 2))
    return net.scores(net("PRelu", net.named("up", up), net.weights(7, 1, 1)))


def flattened() -> Graph:
    """As LeNet: images become rows before dense layers."""
    net = Network("flattened", (2, 1, 12, 12))
    halved = {"kernel_shape": (2, 2), "strides": (2, 2)}
    x = net("Relu", net.conv("first", net.x, 6, 5))
    x = net("Tanh", net.conv("second", net("MaxPool", x, **halved), 8))
    x = net("MaxPool", x, **halved)
    x = net("Reshape", x, net.ints(2, int(np.prod([int(str(d)) for d in x.shape[1:]]))))
    x = net("Relu", net.dense("third", x, 20))
    net.graph.add_output(net.dense("scores", x, 5), "scores")
    return net.graph


def attending(heads: int = 4, width: int = 24, length: int = 6) -> Graph:
    """As a transformer: attention of several heads, and a layer that is wider, with sums."""
    net = Network("attending", (2, length, width))
    part = width // heads
    x, split = net.x, net.ints(2, length, heads, part)
    for number in range(2):
        y = net("LayerNormalization", x, net.weights(width), net.weights(width))
        q, k, v = (net("Reshape", net.dense(f"{kind}{number}", y, width), split) for kind in "qkv")
        q, v = (net("Transpose", each, perm=(0, 2, 1, 3)) for each in (q, v))
        score = net("MatMul", q, net("Transpose", k, perm=(0, 2, 3, 1)))
        y = net("MatMul", net("Softmax", net("Mul", score, part**-0.5), axis=-1), v)
        y = net("Transpose", y, perm=(0, 2, 1, 3))
        y = net("Reshape", y, net.ints(2, length, width))
        x = net("Add", x, net.dense(f"mixed{number}", y, width))
        y = net("LayerNormalization", x, net.weights(width), net.weights(width))
        y = net("Gelu", net.dense(f"wide{number}", y, 4 * width))
        x = net("Add", x, net.dense(f"narrow{number}", y, width))
    net.graph.add_output(net.dense("scores", x, 5), "scores")
    return net.graph


def series() -> Graph:
    """Convolutions along one axis, with instance normalization."""
    net = Network("series", (2, 2, 20))
    x = net("Relu", net.conv("first", net.x, 10, 5))
    x = net("InstanceNormalization", x, net.weights(10), net.weights(10))
    x = net("Relu", net.conv("second", x, 14, 3, stride=2))
    return net.scores(x)


def grouped() -> Graph:
    """Convolutions with group normalization."""
    net = Network("grouped", (2, 3, 8, 8))
    x = net.conv("stem", net.x, 12)
    for number, groups in enumerate((4, 6)):
        x = net("GroupNormalization", x, net.weights(12), net.weights(12), num_groups=groups)
        x = net("Relu", net.conv(f"next{number}", net("Relu", x), 12))
    return net.scores(x)


NETWORKS: dict[str, Callable[[], Graph]] = {
    make.__name__: make
    for make in (residual, depthwise, dense_blocks, parted, flattened, attending, series, grouped)
}


def feeds_for(graph: Graph, seed: int = 1) -> Feeds:
    """Random elements for the input."""
    shape = tuple(int(str(size)) for size in graph.inputs[0].shape)
    return {"x": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}
