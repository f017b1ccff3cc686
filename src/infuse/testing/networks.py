"""Whole networks of the usual architectures, with the layers that they have in practice: what a
library of prebuilt kernels has code of its own for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

import infuse
from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Value
from infuse.testing.blocks import Block, Build

_SIDE: Final = 224
_NUMBERS: Final = 1021
"""Weights are these many numbers again and again, from another one on in each tensor."""


class Network(Block):
    """A network that grows behind images or rows; each of its weights is another one."""

    def __init__(self, name: str, shape: tuple[Dim, ...], dtype: DType = dtypes.float32) -> None:
        super().__init__(name, shape, dtype)
        self._rng = np.random.default_rng(0)

    def weights(self, *shape: int) -> np.ndarray[Any, Any]:
        """A constant."""
        numbers = self._rng.standard_normal(_NUMBERS).astype(np.float32) / 50
        return np.resize(numbers, shape)

    def conv(
        self, x: Value, channels: int, kernel: int = 1, stride: int = 1, group: int = 1
    ) -> Value:
        """A convolution with a bias."""
        filters = self.weights(channels, _channels(x) // group, kernel, kernel)
        window = {"strides": (stride, stride), "pads": (kernel // 2,) * 4, "group": group}
        return self.add("Conv", x, filters, self.weights(channels), **window)

    def linear(self, x: Value, columns: int) -> Value:
        """A product with a matrix, and the sum with a row."""
        made = self.add("MatMul", x, self.weights(int(str(x.shape[-1])), columns))
        return self.add("Add", made, self.weights(columns))

    def normalized(self, x: Value) -> Value:
        """A layer normalization."""
        size = int(str(x.shape[-1]))
        return self.add("LayerNormalization", x, self.weights(size), self.weights(size), axis=-1)

    def reshaped(self, x: Value, *shape: int) -> Value:
        """The same elements in another shape."""
        return self.add("Reshape", x, np.array(shape))

    def normalized_channels(self, x: Value) -> Value:
        """A factor and a summand for each channel, as a BatchNormalization that no convolution
        takes up.
        """
        size = _channels(x), 1, 1
        return self.add("Add", self.add("Mul", x, self.weights(*size)), self.weights(*size))

    def channels(self, x: Value, first: int, count: int) -> Value:
        """So many channels of an image."""
        return self.add("Slice", x, np.array([first]), np.array([first + count]), np.array([1]))

    def pooled(self, x: Value) -> Value:
        """The largest of 3 × 3 pixels, at every second one."""
        return self.add("MaxPool", x, kernel_shape=(3, 3), strides=(2, 2), pads=(1,) * 4)

    def ended(self, x: Value, hidden: int = 0, activation: Build | None = None) -> Graph:
        """The optimized graph, with classes behind the mean of all pixels."""
        pooled = self.add("Flatten", self.add("GlobalAveragePool", x))
        if hidden and activation is not None:
            pooled = activation(self, self.linear(pooled, hidden))
        return infuse.optimize(self.end(self.linear(pooled, 1000)))


def convolutional_graphs() -> Iterator[Graph]:
    """Classifiers of images, and the backbone of a detector."""
    for blocks, is_deep in (((2, 2, 2, 2), False), ((3, 4, 6, 3), True)):
        yield _residual(blocks, is_deep=is_deep)
    yield _inverted("mobilenet_v2", _MOBILENET_V2, limited, limited, 32, 1280)
    for name, stages, hidden in _MOBILENETS_V3:
        yield _inverted(name, stages, hard_swish, partial(unary, "HardSigmoid"), 16, hidden)
    yield _inverted("efficientnet_b0", _EFFICIENTNET, swish, partial(unary, "Sigmoid"), 32, 1280)
    yield _squeezed()
    yield _detector()
    yield _convnext()
    yield _shuffled()
    yield _dense()
    yield _ghosts()
    yield _expanding()


def _channels(x: Value) -> int:
    return int(str(x.shape[1]))


def unary(kind: str, network: Block, x: Value) -> Value:
    """An operator of one operand."""
    return network.add(kind, x)


def limited(network: Block, x: Value) -> Value:
    """Values between 0 and 6."""
    return network.add("Clip", x, np.zeros((), np.float32), np.array(6, np.float32))


relu = partial(unary, "Relu")
swish = partial(unary, "Swish")
hard_swish = partial(unary, "HardSwish")
gelu = partial(unary, "Gelu")


def _residual(blocks: Sequence[int], *, is_deep: bool) -> Graph:
    """A ResNet."""
    network = Network(f"resnet_{sum(blocks)}_{is_deep}", (1, 3, _SIDE, _SIDE))
    x = relu(network, network.conv(network.input, 64, 7, 2))
    x = network.pooled(x)
    for stage, count in enumerate(blocks):
        width = 64 << stage
        wide = width * 4 if is_deep else width
        for number in range(count):
            stride = 2 if stage and not number else 1
            before = x if stride == 1 and _channels(x) == wide else network.conv(x, wide, 1, stride)
            if is_deep:
                inner = relu(network, network.conv(x, width))
                inner = relu(network, network.conv(inner, width, 3, stride))
                inner = network.conv(inner, wide)
            else:
                inner = relu(network, network.conv(x, width, 3, stride))
                inner = network.conv(inner, wide, 3)
            x = relu(network, network.add("Add", inner, before))
    return network.ended(x)


class Stage(NamedTuple):
    """Inverted residual blocks: channels within and after them, sides and step of the depthwise
    windows, channels of the gate (0: none), how many blocks, and whether the activation is Relu.
    """

    within: int
    after: int
    kernel: int
    stride: int
    gate: int = 0
    repeats: int = 1
    is_relu: bool = False


_MOBILENET_V2: Final = (
    Stage(32, 16, 3, 1),
    Stage(96, 24, 3, 2),
    Stage(144, 24, 3, 1),
    Stage(144, 32, 3, 2),
    Stage(192, 32, 3, 1, repeats=2),
    Stage(192, 64, 3, 2),
    Stage(384, 64, 3, 1, repeats=3),
    Stage(384, 96, 3, 1),
    Stage(576, 96, 3, 1, repeats=2),
    Stage(576, 160, 3, 2),
    Stage(960, 160, 3, 1, repeats=2),
    Stage(960, 320, 3, 1),
)
_MOBILENETS_V3: Final = (
    (
        "mobilenet_v3_large",
        (
            Stage(16, 16, 3, 1, is_relu=True),
            Stage(64, 24, 3, 2, is_relu=True),
            Stage(72, 24, 3, 1, is_relu=True),
            Stage(72, 40, 5, 2, 24, is_relu=True),
            Stage(120, 40, 5, 1, 32, 2, is_relu=True),
            Stage(240, 80, 3, 2),
            Stage(200, 80, 3, 1),
            Stage(184, 80, 3, 1, repeats=2),
            Stage(480, 112, 3, 1, 120),
            Stage(672, 112, 3, 1, 168),
            Stage(672, 160, 5, 2, 168),
            Stage(960, 160, 5, 1, 240, 2),
        ),
        960,
    ),
    (
        "mobilenet_v3_small",
        (
            Stage(16, 16, 3, 2, 8, is_relu=True),
            Stage(72, 24, 3, 2, is_relu=True),
            Stage(88, 24, 3, 1, is_relu=True),
            Stage(96, 40, 5, 2, 24),
            Stage(240, 40, 5, 1, 64, 2),
            Stage(120, 48, 5, 1, 32),
            Stage(144, 48, 5, 1, 40),
            Stage(288, 96, 5, 2, 72),
            Stage(576, 96, 5, 1, 144, 2),
        ),
        576,
    ),
)
_EFFICIENTNET: Final = (
    Stage(32, 16, 3, 1, 8),
    Stage(96, 24, 3, 2, 4),
    Stage(144, 24, 3, 1, 6),
    Stage(144, 40, 5, 2, 6),
    Stage(240, 40, 5, 1, 10),
    Stage(240, 80, 3, 2, 10),
    Stage(480, 80, 3, 1, 20, 2),
    Stage(480, 112, 5, 1, 20),
    Stage(672, 112, 5, 1, 28, 2),
    Stage(672, 192, 5, 2, 28),
    Stage(1152, 192, 5, 1, 48, 3),
    Stage(1152, 320, 3, 1, 48),
)


def _inverted(
    name: str, stages: Sequence[Stage], activation: Build, gate: Build, first: int, last: int
) -> Graph:
    """A MobileNet or an EfficientNet."""
    network = Network(name, (1, 3, _SIDE, _SIDE))
    x = activation(network, network.conv(network.input, first, 3, 2))
    for stage in stages:
        for _ in range(stage.repeats):
            x = _inverted_block(network, x, stage, relu if stage.is_relu else activation, gate)
    hidden = 1280 if gate is not limited and name.startswith("mobilenet") else 0
    return network.ended(activation(network, network.conv(x, last)), hidden, activation)


def _inverted_block(
    network: Network, x: Value, stage: Stage, activation: Build, gate: Build
) -> Value:
    inner = x
    if stage.within != _channels(x):
        inner = activation(network, network.conv(x, stage.within))
    inner = network.conv(inner, stage.within, stage.kernel, stage.stride, stage.within)
    inner = activation(network, inner)
    if stage.gate:
        small: Build = relu if activation is not swish else swish
        pooled = network.add("GlobalAveragePool", inner)
        middle = small(network, network.conv(pooled, stage.gate))
        inner = network.add("Mul", inner, gate(network, network.conv(middle, stage.within)))
    made = network.conv(inner, stage.after)
    is_added = stage.stride == 1 and stage.after == _channels(x)
    return network.add("Add", made, x) if is_added else made


def _squeezed() -> Graph:
    """Fire modules, and a channel shuffle."""
    network = Network("squeezed", (1, 3, _SIDE, _SIDE))
    x = relu(network, network.conv(network.input, 64, 3, 2))
    for small, wide in ((16, 64), (32, 128), (48, 192), (64, 256)):
        window = {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1}
        inner = relu(network, network.conv(network.add("MaxPool", x, **window), small))
        parts = [relu(network, network.conv(inner, wide, kernel)) for kernel in (1, 3)]
        x = network.add("Concat", *parts, axis=1)
    for channels in (116, 232, 464):
        moved = network.conv(x, _channels(x), 3, 2, _channels(x))
        left = relu(network, network.conv(moved, channels // 2))
        inner = relu(network, network.conv(x, channels // 2))
        inner = network.conv(inner, channels // 2, 3, 2, channels // 2)
        right = relu(network, network.conv(inner, channels // 2))
        x = network.add("Concat", left, right, axis=1)
    return network.ended(relu(network, network.conv(x, 1024)))


def _detector() -> Graph:
    """The backbone of a detector: convolutions with Swish, joined."""
    network = Network("detector", (1, 3, 320, 320))
    x = swish(network, network.conv(network.input, 16, 3, 2))
    for channels, count in ((32, 1), (64, 2), (128, 2), (256, 1)):
        x = swish(network, network.conv(x, channels, 3, 2))
        left, inner = (swish(network, network.conv(x, channels // 2)) for _ in range(2))
        for _ in range(count):
            middle = swish(network, network.conv(inner, channels // 2, 3))
            middle = swish(network, network.conv(middle, channels // 2, 3))
            inner = network.add("Add", inner, middle)
        x = swish(network, network.conv(network.add("Concat", left, inner, axis=1), channels))
    scales = np.array([1, 1, 2, 2], np.float32)
    large = network.add("Resize", x, None, scales, mode="nearest")
    return infuse.optimize(network.end(network.conv(large, 85), network.conv(x, 85)))


def _convnext() -> Graph:
    """A ConvNeXt."""
    network = Network("convnext", (1, 3, _SIDE, _SIDE))
    x = network.input
    for stage, width in enumerate((96, 192, 384, 768)):
        filters = network.weights(width, _channels(x), *((2, 2) if stage else (4, 4)))
        step = 2 if stage else 4
        x = network.add("Conv", x, filters, network.weights(width), strides=(step, step))
        for _ in range(2):
            moved = network.conv(x, width, 7, 1, width)
            rows = network.add("Transpose", moved, perm=(0, 2, 3, 1))
            inner = network.linear(network.normalized(rows), 4 * width)
            back = network.linear(gelu(network, inner), width)
            scaled = network.add("Mul", back, network.weights(width))
            x = network.add("Add", network.add("Transpose", scaled, perm=(0, 3, 1, 2)), x)
    return network.ended(x)


def _shuffled() -> Graph:
    """A ShuffleNet v2: half of the channels go through a block, and then they are mixed."""
    network = Network("shufflenet_v2", (1, 3, _SIDE, _SIDE))
    x = network.pooled(relu(network, network.conv(network.input, 24, 3, 2)))
    for width, count in ((58, 4), (116, 8), (232, 4)):
        for number in range(count):
            if number:
                left, right = (network.channels(x, i * width, width) for i in range(2))
            else:
                side = network.conv(x, _channels(x), 3, 2, _channels(x))
                left, right = relu(network, network.conv(side, width)), x
            inner = relu(network, network.conv(right, width))
            inner = network.conv(inner, width, 3, 1 if number else 2, width)
            joined = network.add("Concat", left, relu(network, network.conv(inner, width)), axis=1)
            _, channels, height, side_length = map(int, map(str, joined.shape))
            pairs = network.reshaped(joined, 1, 2, width, height, side_length)
            turned = network.add("Transpose", pairs, perm=(0, 2, 1, 3, 4))
            x = network.reshaped(turned, 1, channels, height, side_length)
    return network.ended(relu(network, network.conv(x, 1024)))


def _dense() -> Graph:
    """A DenseNet: each layer reads all before it, normalized anew."""
    network = Network("densenet", (1, 3, _SIDE, _SIDE))
    x = network.pooled(relu(network, network.conv(network.input, 64, 7, 2)))
    for count in (6, 12, 24, 16):
        for _ in range(count):
            inner = relu(network, network.normalized_channels(x))
            inner = relu(network, network.conv(inner, 128))
            window = {"pads": (1,) * 4}
            new = network.add("Conv", inner, network.weights(32, 128, 3, 3), **window)
            x = network.add("Concat", x, new, axis=1)
        x = relu(network, network.normalized_channels(x))
        if count != 16:
            half = network.add("Conv", x, network.weights(_channels(x) // 2, _channels(x), 1, 1))
            x = network.add("AveragePool", half, kernel_shape=(2, 2), strides=(2, 2))
    return network.ended(x)


def _ghosts() -> Graph:
    """A GhostNet: half of the channels are those of a depthwise convolution of the other half."""
    network = Network("ghostnet", (1, 3, _SIDE, _SIDE))
    x = relu(network, network.conv(network.input, 16, 3, 2))
    for wide, channels, stride in (
        (16, 16, 1),
        (48, 24, 2),
        (72, 24, 1),
        (72, 40, 2),
        (120, 40, 1),
    ):
        inner = _ghost(network, x, wide, relu)
        if stride > 1:
            inner = network.conv(inner, wide, 3, stride, wide)
        inner = _ghost(network, inner, channels, None)
        if stride > 1 or _channels(x) != channels:
            side = network.conv(x, _channels(x), 3, stride, _channels(x))
            x = network.conv(side, channels)
        x = network.add("Add", inner, x)
    return network.ended(relu(network, network.conv(x, 480)), 1280, relu)


def _ghost(network: Network, x: Value, channels: int, activation: Build | None) -> Value:
    first = network.conv(x, channels // 2)
    if activation is not None:
        first = activation(network, first)
    second = network.conv(first, channels // 2, 3, 1, channels // 2)
    if activation is not None:
        second = activation(network, second)
    return network.add("Concat", first, second, axis=1)


def _expanding() -> Graph:
    """The convolutions of a MobileViT: inverted blocks with Swish."""
    network = Network("mobilevit", (1, 3, 256, 256))
    x = swish(network, network.conv(network.input, 16, 3, 2))
    for channels, stride in ((32, 1), (64, 2), (64, 1), (64, 1), (96, 2), (128, 2), (160, 2)):
        wide = 4 * _channels(x)
        inner = swish(network, network.conv(x, wide))
        inner = swish(network, network.conv(inner, wide, 3, stride, wide))
        inner = network.conv(inner, channels)
        x = network.add("Add", inner, x) if stride == 1 and _channels(x) == channels else inner
    x = swish(network, network.conv(x, 160, 3))
    return network.ended(swish(network, network.conv(x, 640)))
