"""The blocks that networks are built of, as graphs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.types import TensorType
from infuse.ops import REGISTRY
from infuse.ops.core.base import Op

Build = Callable[["Block", Value], Value]
"""What follows a value in a block."""


class Block:
    """A graph that grows behind one image or one list of rows."""

    def __init__(self, name: str, shape: tuple[Dim, ...], dtype: DType = dtypes.float32) -> None:
        self.graph = Graph(name)
        self.input = self.graph.add_input("x", TensorType(dtype, shape))

    def add(
        self, kind: str, *operands: Value | np.ndarray[Any, Any] | None, **attributes: Any
    ) -> Value:
        """The result of one more node."""
        values = [constant(x) if isinstance(x, np.ndarray) else x for x in operands]
        name = f"n{len(self.graph)}"
        result = Value(TensorType(dtypes.float32, None), name)
        node = self.graph.add_node(Node(_op(kind)(**attributes), values, [result], name=name))
        node.op.infer_node(node)
        return result

    def conv(
        self, x: Value, channels: int, kernel: int = 1, stride: int = 1, group: int = 1
    ) -> Value:
        """A convolution with a bias."""
        inputs = int(str(x.shape[1]))
        filters = np.full((channels, inputs // group, kernel, kernel), 0.01, np.float32)
        pads = (kernel // 2,) * 4
        bias = np.full(channels, 0.1, np.float32)
        strides = (stride, stride)
        return self.add("Conv", x, filters, bias, strides=strides, pads=pads, group=group)

    def matmul(self, x: Value, columns: int) -> Value:
        """A product with a constant matrix."""
        return self.add("MatMul", x, np.full((int(str(x.shape[-1])), columns), 0.01, np.float32))

    def biased(self, x: Value) -> Value:
        """The sum with a row."""
        return self.add("Add", x, np.full(int(str(x.shape[-1])), 0.1, np.float32))

    def end(self, *outputs: Value) -> Graph:
        """The graph with these outputs."""
        for value in outputs:
            self.graph.add_output(value)
        return self.graph


def _op(kind: str) -> type[Op]:
    return REGISTRY["", kind]


def _limited(block: Block, x: Value) -> Value:
    return block.add("Clip", x, np.zeros((), np.float32), np.array(6, np.float32))


_ACTIVATIONS: Final[dict[str, Build]] = {
    "none": lambda b, x: x,
    "relu": lambda b, x: b.add("Relu", x),
    "relu6": _limited,
    "swish": lambda b, x: b.add("Swish", x),
    "hardswish": lambda b, x: b.add("HardSwish", x),
    "hardsigmoid": lambda b, x: b.add("HardSigmoid", x),
    "sigmoid": lambda b, x: b.add("Sigmoid", x),
    "tanh": lambda b, x: b.add("Tanh", x),
    "gelu": lambda b, x: b.add("Gelu", x),
    "gelu_tanh": lambda b, x: b.add("Gelu", x, approximate="tanh"),
    "leaky": lambda b, x: b.add("LeakyRelu", x, alpha=0.1),
}
_WINDOWS: Final = (
    (1, 1, False),
    (1, 2, False),
    (3, 1, False),
    (3, 2, False),
    (5, 1, False),
    (7, 1, False),
    (3, 1, True),
    (3, 2, True),
    (5, 1, True),
    (5, 2, True),
    (7, 1, True),
)
"""Sides and steps of the windows of convolutions, and whether each channel has one of its own."""
_SIDES: Final = (56, 14, 7)
_TILED: Final = tuple(w for w in _WINDOWS if w[0] > 1 and not w[2])
_SIDES_OF_TILED: Final = (28, 10)
"""Windows that tiles are cut for, and sides of images by which other tiles are chosen."""
_CHANNELS: Final = (32, 192)


def block_graphs() -> Iterator[Graph]:
    """The usual blocks of networks of images and of text, with what usually follows them."""
    for name, activation in _ACTIVATIONS.items():
        yield from _first_layers(name, activation)
        for side in _SIDES:
            for channels in _CHANNELS:
                yield from _window_blocks(name, activation, side, channels)
                yield from _image_blocks(name, activation, side, channels)
        for side, channels in itertools.product(_SIDES_OF_TILED, _CHANNELS):
            yield from _window_blocks(name, activation, side, channels, _TILED)
        yield from _gated_blocks(name, activation)
        yield from _row_blocks(name, activation)
    yield from _poolings()
    yield from _attentions()


def _first_layers(name: str, activation: Build) -> Iterator[Graph]:
    for kernel, stride in ((3, 1), (3, 2), (4, 4), (7, 2)):
        block = Block(f"first_{kernel}_{name}", (1, 3, 224, 224))
        inner = activation(block, block.conv(block.input, 32, kernel, stride))
        yield block.end(block.conv(inner, 32))


def _window_blocks(
    name: str,
    activation: Build,
    side: int,
    channels: int,
    windows: Sequence[tuple[int, int, bool]] = _WINDOWS,
) -> Iterator[Graph]:
    for kernel, stride, depthwise in windows:
        for ending in ("plain", "added", "added before"):
            block = Block(f"{kernel}_{stride}_{ending}_{name}", (1, 16, side, side))
            inner = block.conv(block.input, channels)
            made = block.conv(inner, channels, kernel, stride, channels if depthwise else 1)
            if ending != "plain" and (stride > 1 or depthwise):
                continue
            if ending == "added":
                made = block.add("Add", activation(block, made), inner)
            elif ending == "added before":
                made = activation(block, block.add("Add", made, inner))
            else:
                made = activation(block, made)
            yield block.end(block.conv(made, 16))


def _image_blocks(name: str, activation: Build, side: int, channels: int) -> Iterator[Graph]:
    block = Block(f"separable_{name}", (1, 16, side, side))
    wide = activation(block, block.conv(block.input, channels))
    moved = activation(block, block.conv(wide, channels, 3, 1, channels))
    yield block.end(block.add("Add", block.conv(moved, 16), block.input))
    block = Block(f"narrow_{name}", (1, 16, side, side))
    inner = block.conv(block.input, channels)
    moved = activation(block, block.conv(inner, channels, 3, 1, channels))
    back = block.conv(moved, channels)
    yield block.end(block.conv(block.add("Add", back, inner), 16), block.conv(back, 8))


def _gated_blocks(name: str, activation: Build) -> Iterator[Graph]:
    """Channels of an image times what a small network makes of their means."""
    windows = itertools.product((3, 5), (1, 2), (False, True))
    for (kernel, stride, widened), side in itertools.product(windows, (56, 14)):
        channels = 192
        block = Block(f"gated_{kernel}_{stride}_{name}", (1, channels, side, side))
        before = activation(block, block.conv(block.input, channels)) if widened else block.input
        moved = activation(block, block.conv(before, channels, kernel, stride, channels))
        pooled = block.add("GlobalAveragePool", moved)
        gate = block.add("Sigmoid", block.conv(activation(block, block.conv(pooled, 8)), channels))
        yield block.end(block.conv(block.add("Mul", moved, gate), 16))


def _row_blocks(name: str, activation: Build) -> Iterator[Graph]:
    for count in (1, 128):
        for biased in (False, True):
            block = Block(f"rows_{name}", (1, count, 64))
            made = block.matmul(block.input, 256)
            inner = activation(block, block.biased(made) if biased else made)
            back = block.matmul(inner, 64)
            summed = block.add("Add", block.biased(back) if biased else back, block.input)
            scale, bias = np.ones(64, np.float32), np.zeros(64, np.float32)
            yield block.end(block.add("LayerNormalization", summed, scale, bias), summed)


def _poolings() -> Iterator[Graph]:
    for kind in ("MaxPool", "AveragePool"):
        block = Block(kind, (1, 16, 56, 56))
        inner = block.conv(block.input, 32)
        window = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}
        yield block.end(block.conv(block.add(kind, inner, **window), 16))
    block = Block("head", (1, 16, 7, 7))
    pooled = block.add("GlobalAveragePool", block.conv(block.input, 32))
    flat = block.add("Flatten", pooled)
    yield block.end(block.add("Softmax", block.biased(block.matmul(flat, 100))))


def _attentions() -> Iterator[Graph]:
    for masked, causal, count in itertools.product(("", "constant", "given"), (0, 1), (1, 64)):
        block = Block(f"attention_{masked}_{causal}", (1, 4, count, 32))
        keys = block.add("Exp", block.input)
        operands: list[Value | np.ndarray[Any, Any]] = [block.input, keys, block.add("Neg", keys)]
        shape = (1, 1, count, count)
        if masked == "constant":
            operands.append(np.zeros(shape, np.float32))
        elif masked:
            operands.append(block.graph.add_input("mask", TensorType(dtypes.float32, shape)))
        yield block.end(block.add("Attention", *operands, is_causal=causal))
