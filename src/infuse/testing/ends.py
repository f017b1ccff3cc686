"""Operators that a graph begins and ends with, so that they read and write planes and rows as their
caller has them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import numpy as np

import infuse
from infuse import dtypes
from infuse.ir.graph import Graph, Value
from infuse.ir.types import TensorType
from infuse.testing.blocks import Block, Build
from infuse.testing.networks import unary

_SHAPES: Final = ((1, 32, 28, 28), (2, 24, 20, 20), (1, 1, 48, 64))
"""Of images: channels that fill vectors and that do not, and one channel."""
_ROWS: Final = ((4, 50, 96),)


def _window(kernel: int, stride: int = 1, *, channels: int = 0, depthwise: bool = False) -> Build:
    def add(b: Block, x: Value) -> Value:
        wide = channels or int(str(x.shape[1]))
        return b.conv(x, wide, kernel, stride, wide if depthwise else 1)

    return add


def _transposed(channels: int, kernel: int) -> Build:
    def add(b: Block, x: Value) -> Value:
        filters = np.full((int(str(x.shape[1])), channels, kernel, kernel), 0.01, np.float32)
        pads = ((kernel - 2) // 2,) * 4
        return b.add("ConvTranspose", x, filters, strides=(2, 2), pads=pads)

    return add


def _pooled(kind: str, side: int) -> Build:
    return lambda b, x: b.add(kind, x, kernel_shape=(side, side), strides=(2, 2))


def _scaled(b: Block, x: Value) -> Value:
    sizes = (int(str(x.shape[1])), *[1] * (len(x.shape) - 2))
    scaled = b.add("Mul", x, np.full(sizes, 0.5, np.float32))
    return b.add("Add", scaled, np.full(sizes, 0.1, np.float32))


def _other(b: Block, x: Value) -> Value:
    return b.graph.add_input(f"y{len(b.graph)}", TensorType(dtypes.float32, x.shape))


def _gram(b: Block, x: Value) -> Value:
    last = len(x.shape) - 1
    order = (*range(last - 1), last, last - 1)
    return b.add("MatMul", x, b.add("Transpose", x, perm=order))


def _mean(axis: int) -> Build:
    return lambda b, x: b.add("ReduceMean", x, np.array([axis]), keepdims=False)


_ANY: Final[Mapping[str, Build]] = {
    "none": lambda b, x: x,
    "sum": lambda b, x: b.add("Add", x, _other(b, x)),
    "product": lambda b, x: b.add("Mul", x, _other(b, x)),
    "row": lambda b, x: b.biased(x),
    "scaled": _scaled,
    "softmax": lambda b, x: b.add("Softmax", x, axis=-1),
    "softmax of axis 1": lambda b, x: b.add("Softmax", x, axis=1),
    "mean": _mean(-1),
    "mean of axis 1": _mean(1),
    "gram": _gram,
    "matmul": lambda b, x: b.matmul(x, 32),
    "joined": lambda b, x: b.add("Concat", b.add("Relu", x), x, axis=1),
}
_IMAGES: Final[Mapping[str, Build]] = {
    "conv 1": _window(1),
    "conv 3": _window(3),
    "conv 3 to 16": _window(3, channels=16),
    "conv 3 by 2": _window(3, 2),
    "conv 1 to 16": _window(1, channels=16),
    "depthwise": _window(3, depthwise=True),
    "transposed": _transposed(24, 4),
    "transposed 2": _transposed(24, 2),
    "transposed to colours": _transposed(3, 4),
    "greatest": _pooled("MaxPool", 2),
    "means": _pooled("AveragePool", 2),
    "greatest of 3": _pooled("MaxPool", 3),
    "mean of all": lambda b, x: b.add("GlobalAveragePool", x),
}
_FUNCTIONS: Final[Mapping[str, Build]] = {
    "none": lambda b, x: x,
    **{kind: partial(unary, kind) for kind in ("Relu", "Sigmoid")},
    "row": lambda b, x: b.biased(x),
}
_MOVED: Final[Mapping[str, Build]] = {
    "none": lambda b, x: x,
    "turned": lambda b, x: b.add("Transpose", x, perm=(0, *range(2, len(x.shape)), 1)),
}


def end_graphs() -> Iterator[Graph]:
    """Each operator on inputs with each function behind it, as it lies and with axes turned."""
    for shapes, operators in ((_SHAPES, {**_IMAGES, **_ANY}), (_ROWS, _ANY)):
        for shape, (name, operator), (after, function), (how, moved) in itertools.product(
            shapes, operators.items(), _FUNCTIONS.items(), _MOVED.items()
        ):
            block = Block(f"{name}, {after}, {how}", shape)
            result = moved(block, function(block, operator(block, block.input)))
            if result is not block.input:
                yield infuse.optimize(block.end(result))
