"""Whole networks of the usual architectures, with the layers that they have in practice: what a
library of prebuilt kernels has code of its own for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

import infuse
from infuse.ir.graph import Graph, Value
from infuse.testing.blocks import Block, Build, block_graphs

_SIDE: Final = 224
_NUMBERS: Final = 1021
"""Weights are these many numbers again and again, from another one on in each tensor."""


class Network(Block):
    """A network that grows behind images or rows; each of its weights is another one."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        super().__init__(name, shape)
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

    def ended(self, x: Value, hidden: int = 0, activation: Build | None = None) -> Graph:
        """The optimized graph, with classes behind the mean of all pixels."""
        pooled = self.add("Flatten", self.add("GlobalAveragePool", x))
        if hidden and activation is not None:
            pooled = activation(self, self.linear(pooled, hidden))
        return infuse.optimize(self.end(self.linear(pooled, 1000)))


def usual_graphs() -> Iterator[Graph]:
    """What networks are made of, and whole ones: their elementwise work is to have code of its
    own.
    """
    yield from block_graphs()
    yield from network_graphs()


def network_graphs() -> Iterator[Graph]:
    """Classifiers of images, and encoders of text and of images."""
    for blocks, is_deep in (((2, 2, 2, 2), False), ((3, 4, 6, 3), True)):
        yield _residual(blocks, is_deep=is_deep)
    yield _inverted("mobilenet_v2", _MOBILENET_V2, _limited, _limited, 32, 1280)
    for name, stages, hidden in _MOBILENETS_V3:
        yield _inverted(name, stages, _hard_swish, partial(_unary, "HardSigmoid"), 16, hidden)
    yield _inverted("efficientnet_b0", _EFFICIENTNET, _swish, partial(_unary, "Sigmoid"), 32, 1280)
    yield _squeezed()
    yield _detector()
    yield _convnext()
    for name, width, heads, layers, activation in _ENCODERS:
        for count in (1, 16, 128):
            yield _encoder(name, width, heads, layers, count, activation)
    yield _windowed()


def _channels(x: Value) -> int:
    return int(str(x.shape[1]))


def _unary(kind: str, network: Block, x: Value) -> Value:
    return network.add(kind, x)


def _limited(network: Block, x: Value) -> Value:
    return network.add("Clip", x, np.zeros((), np.float32), np.array(6, np.float32))


_relu = partial(_unary, "Relu")
_swish = partial(_unary, "Swish")
_hard_swish = partial(_unary, "HardSwish")
_gelu = partial(_unary, "Gelu")


def _residual(blocks: Sequence[int], *, is_deep: bool) -> Graph:
    """A ResNet."""
    network = Network(f"resnet_{sum(blocks)}_{is_deep}", (1, 3, _SIDE, _SIDE))
    x = _relu(network, network.conv(network.input, 64, 7, 2))
    x = network.add("MaxPool", x, kernel_shape=(3, 3), strides=(2, 2), pads=(1,) * 4)
    for stage, count in enumerate(blocks):
        width = 64 << stage
        wide = width * 4 if is_deep else width
        for number in range(count):
            stride = 2 if stage and not number else 1
            before = x if stride == 1 and _channels(x) == wide else network.conv(x, wide, 1, stride)
            if is_deep:
                inner = _relu(network, network.conv(x, width))
                inner = _relu(network, network.conv(inner, width, 3, stride))
                inner = network.conv(inner, wide)
            else:
                inner = _relu(network, network.conv(x, width, 3, stride))
                inner = network.conv(inner, wide, 3)
            x = _relu(network, network.add("Add", inner, before))
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
            x = _inverted_block(network, x, stage, _relu if stage.is_relu else activation, gate)
    hidden = 1280 if gate is not _limited and name.startswith("mobilenet") else 0
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
        small: Build = _relu if activation is not _swish else _swish
        pooled = network.add("GlobalAveragePool", inner)
        middle = small(network, network.conv(pooled, stage.gate))
        inner = network.add("Mul", inner, gate(network, network.conv(middle, stage.within)))
    made = network.conv(inner, stage.after)
    is_added = stage.stride == 1 and stage.after == _channels(x)
    return network.add("Add", made, x) if is_added else made


def _squeezed() -> Graph:
    """Fire modules, and a channel shuffle."""
    network = Network("squeezed", (1, 3, _SIDE, _SIDE))
    x = _relu(network, network.conv(network.input, 64, 3, 2))
    for small, wide in ((16, 64), (32, 128), (48, 192), (64, 256)):
        window = {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1}
        inner = _relu(network, network.conv(network.add("MaxPool", x, **window), small))
        parts = [_relu(network, network.conv(inner, wide, kernel)) for kernel in (1, 3)]
        x = network.add("Concat", *parts, axis=1)
    for channels in (116, 232, 464):
        moved = network.conv(x, _channels(x), 3, 2, _channels(x))
        left = _relu(network, network.conv(moved, channels // 2))
        inner = _relu(network, network.conv(x, channels // 2))
        inner = network.conv(inner, channels // 2, 3, 2, channels // 2)
        right = _relu(network, network.conv(inner, channels // 2))
        x = network.add("Concat", left, right, axis=1)
    return network.ended(_relu(network, network.conv(x, 1024)))


def _detector() -> Graph:
    """The backbone of a detector: convolutions with Swish, joined."""
    network = Network("detector", (1, 3, 320, 320))
    x = _swish(network, network.conv(network.input, 16, 3, 2))
    for channels, count in ((32, 1), (64, 2), (128, 2), (256, 1)):
        x = _swish(network, network.conv(x, channels, 3, 2))
        left, inner = (_swish(network, network.conv(x, channels // 2)) for _ in range(2))
        for _ in range(count):
            middle = _swish(network, network.conv(inner, channels // 2, 3))
            middle = _swish(network, network.conv(middle, channels // 2, 3))
            inner = network.add("Add", inner, middle)
        x = _swish(network, network.conv(network.add("Concat", left, inner, axis=1), channels))
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
            back = network.linear(_gelu(network, inner), width)
            scaled = network.add("Mul", back, network.weights(width))
            x = network.add("Add", network.add("Transpose", scaled, perm=(0, 3, 1, 2)), x)
    return network.ended(x)


_ENCODERS: Final[tuple[tuple[str, int, int, int, Build], ...]] = (
    ("minilm", 384, 12, 2, _gelu),
    ("bert", 768, 12, 2, _gelu),
    ("opt", 768, 12, 2, _relu),
)


def _encoder(
    name: str, width: int, heads: int, layers: int, count: int, activation: Build
) -> Graph:
    """Layers of an encoder, normalized after each part and before it."""
    network = Network(f"{name}_{count}", (1, count, width))
    x = network.input
    for _ in range(layers):
        x = network.normalized(network.add("Add", _attended(network, x, heads), x))
        inner = activation(network, network.linear(x, 4 * width))
        x = network.normalized(network.add("Add", network.linear(inner, width), x))
    for _ in range(layers):
        x = network.add("Add", _attended(network, network.normalized(x), heads), x)
        inner = activation(network, network.linear(network.normalized(x), 4 * width))
        x = network.add("Add", network.linear(inner, width), x)
    return infuse.optimize(network.end(network.linear(x, width)))


def _attended(
    network: Network, x: Value, heads: int, mask: np.ndarray[Any, Any] | None = None
) -> Value:
    """Attention of the rows to each other, with a linear layer behind it."""
    batch, count, width = (int(str(size)) for size in x.shape)
    parts = []
    for _ in range(3):
        split = network.reshaped(network.linear(x, width), batch, count, heads, width // heads)
        parts.append(network.add("Transpose", split, perm=(0, 2, 1, 3)))
    query, key, value = parts
    turned = network.add("Transpose", key, perm=(0, 1, 3, 2))
    factor = np.array((width // heads) ** -0.5, np.float32)
    scores = network.add("Mul", network.add("MatMul", query, turned), factor)
    if mask is not None:
        scores = network.add("Add", scores, mask)
    weights = network.add("Softmax", scores, axis=-1)
    mixed = network.add("Transpose", network.add("MatMul", weights, value), perm=(0, 2, 1, 3))
    return network.linear(network.reshaped(mixed, batch, count, width), width)


def _windowed() -> Graph:
    """A Swin transformer: attention in windows of 7 × 7 pixels, with a bias of positions, and of
    windows that are moved.
    """
    network = Network("windowed", (1, 3, _SIDE, _SIDE))
    first = network.add(
        "Conv", network.input, network.weights(96, 3, 4, 4), network.weights(96), strides=(4, 4)
    )
    x = network.normalized(network.add("Transpose", first, perm=(0, 2, 3, 1)))
    for width, heads in ((96, 3), (192, 6), (384, 12), (768, 24)):
        for shift in (0, 3):
            x = _windowed_block(network, x, heads, shift if width < 768 else 0)
        if width < 768:
            x = _merged(network, x, width)
    mean = network.add("ReduceMean", network.normalized(x), np.array([1, 2]), keepdims=0)
    return infuse.optimize(network.end(network.linear(mean, 1000)))


def _windowed_block(network: Network, x: Value, heads: int, shift: int) -> Value:
    _, side, _, width = (int(str(size)) for size in x.shape)
    count, area = side // 7, 49
    moved = _rolled(network, network.normalized(x), -shift)
    split = network.reshaped(moved, 1, count, 7, count, 7, width)
    split = network.add("Transpose", split, perm=(0, 1, 3, 2, 4, 5))
    rows = network.reshaped(split, count * count, area, width)
    windows = count * count if shift else 1
    mixed = _attended(network, rows, heads, network.weights(windows, heads, area, area))
    back = network.reshaped(mixed, 1, count, count, 7, 7, width)
    back = network.add("Transpose", back, perm=(0, 1, 3, 2, 4, 5))
    back = _rolled(network, network.reshaped(back, 1, side, side, width), shift)
    x = network.add("Add", x, back)
    inner = _gelu(network, network.linear(network.normalized(x), 4 * width))
    return network.add("Add", x, network.linear(inner, width))


def _rolled(network: Network, x: Value, by: int) -> Value:
    """Pixels moved along both axes, around the end."""
    if not by:
        return x
    side = int(str(x.shape[1]))
    at = np.array([-by % side])
    ends, begins = np.array([side]), np.array([0])
    for axis in (1, 2):
        axes = np.array([axis])
        parts = (
            network.add("Slice", x, at, ends, axes),
            network.add("Slice", x, begins, at, axes),
        )
        x = network.add("Concat", *parts, axis=axis)
    return x


def _merged(network: Network, x: Value, width: int) -> Value:
    """Each 2 × 2 pixels as one."""
    side = int(str(x.shape[1]))
    end, step = np.array([side]), np.array([2])
    parts = []
    for row, column in ((0, 0), (1, 0), (0, 1), (1, 1)):
        rows = network.add("Slice", x, np.array([row]), end, np.array([1]), step)
        parts.append(network.add("Slice", rows, np.array([column]), end, np.array([2]), step))
    joined = network.normalized(network.add("Concat", *parts, axis=-1))
    return network.add("MatMul", joined, network.weights(4 * width, 2 * width))
