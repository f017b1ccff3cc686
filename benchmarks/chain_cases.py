"""Chains of a producer, a view and a consumer, as exporters write them."""

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.chains import Chain, Producer, View, chained
from benchmarks.operator_cases import Case, floats

NHWC, NCHW = [0, 2, 3, 1], [0, 3, 1, 2]


# -- producers -------------------------------------------------------------------------------------


def _convolved(kernel: int, stride: int = 1, groups: bool = False, bias: bool = True) -> Producer:
    def add(c: Chain, shape: tuple[int, ...]) -> str:
        channels = shape[1]
        w = c.weights(channels, 1 if groups else channels, kernel, kernel)
        inputs = [c.input(*shape), w, *([c.weights(channels)] if bias else [])]
        how = {"pads": [kernel // 2] * 4, "strides": [stride] * 2}
        return c.one("Conv", *inputs, group=channels if groups else 1, **how)

    return add


def _transposed(outputs: int) -> Producer:
    def add(c: Chain, shape: tuple[int, ...]) -> str:
        w = c.weights(shape[1], outputs or shape[1], 4, 4)
        how = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
        return c.one("ConvTranspose", c.input(*shape), w, **how)

    return add


def _normalized(c: Chain, shape: tuple[int, ...]) -> str:
    n = shape[1]
    variance = c.constant(np.abs(floats(n, seed=4)) + np.float32(0.5))
    inputs = (c.input(*shape), c.weights(n), c.weights(n), c.weights(n), variance)
    return c.one("BatchNormalization", *inputs)


def _activated(c: Chain, shape: tuple[int, ...]) -> str:
    return c.one("Relu", _convolved(3)(c, shape))


def _pooled(kind: str) -> Producer:
    how = {"kernel_shape": [2, 2], "strides": [2, 2]}
    return lambda c, shape: c.one(kind, c.input(*shape), **how)


def _joined(c: Chain, shape: tuple[int, ...]) -> str:
    return c.one("Concat", c.input(*shape), c.input(*shape), axis=1)


def _added(c: Chain, shape: tuple[int, ...]) -> str:
    return c.one("Add", c.input(*shape), c.input(*shape))


def _channels_last(c: Chain, shape: tuple[int, ...]) -> str:
    """tf2onnx and Keras: an input of channels last, padded apart, convolved."""
    n, channels, height, width = shape
    x = c.one("Transpose", c.input(n, height, width, channels), perm=NCHW)
    x = c.one("Pad", x, c.constant([0, 0, 0, 0, 0, 0, 1, 1]))
    w = c.weights(channels, channels, 3, 3)
    return c.one("Conv", x, w, pads=[0, 0, 0, 0], strides=[2, 2])


IMAGES: dict[str, Producer] = {
    "Conv 1": _convolved(1),
    "Conv 3": _convolved(3),
    "Conv 3, stride 2": _convolved(3, 2),
    "depthwise Conv": _convolved(3, groups=True),
    "Conv and Relu": _activated,
    "ConvTranspose": _transposed(0),
    "ConvTranspose to RGB": _transposed(3),
    "BatchNormalization": _normalized,
    "MaxPool": _pooled("MaxPool"),
    "AveragePool": _pooled("AveragePool"),
    "Concat": _joined,
    "Add": _added,
    "Conv of channels last": _channels_last,
}


def _product(wide: int) -> Producer:
    def add(c: Chain, shape: tuple[int, ...]) -> str:
        x = c.one("MatMul", c.input(*shape), c.weights(shape[-1], wide * shape[-1]))
        return c.one("Add", x, c.weights(wide * shape[-1]))

    return add


def _gemm(c: Chain, shape: tuple[int, ...]) -> str:
    """torch: rows of all positions as one matrix."""
    n = shape[-1]
    flat = c.one("Reshape", c.input(*shape), c.constant([-1, n]))
    y = c.one("Gemm", flat, c.weights(n, n), c.weights(n), transB=1)
    return c.one("Reshape", y, c.constant(shape))


def _rows_normalized(c: Chain, shape: tuple[int, ...]) -> str:
    inputs = (c.input(*shape), c.weights(shape[-1]), c.weights(shape[-1]))
    return c.one("LayerNormalization", *inputs, axis=-1)


def _looked_up(c: Chain, shape: tuple[int, ...]) -> str:
    name = f"x{len(c.feeds)}"
    c.feeds[name] = np.random.default_rng(1).integers(0, 500, shape[:-1])
    return c.one("Gather", c.weights(500, shape[-1]), name)


def _rows_joined(c: Chain, shape: tuple[int, ...]) -> str:
    """A token of the class in front of all others."""
    return c.one("Concat", c.weights(shape[0], 1, shape[-1]), c.input(*shape), axis=1)


ROWS: dict[str, Producer] = {
    "MatMul": _product(1),
    "MatMul to three": _product(3),
    "Gemm": _gemm,
    "LayerNormalization": _rows_normalized,
    "Softmax": lambda c, shape: c.one("Softmax", c.input(*shape), axis=-1),
    "Gather of rows": _looked_up,
    "Concat of rows": _rows_joined,
    "Add": _added,
    "Gelu": lambda c, shape: c.one("Mul", x := _product(1)(c, shape), c.one("Sigmoid", x)),
}


# -- views -----------------------------------------------------------------------------------------


def sliced(c: Chain, x: str, axis: int, begin: int, end: int, step: int = 1) -> str:
    """`x[begin:end:step]` of an axis."""
    return c.one("Slice", x, *(c.constant([n]) for n in (begin, end, axis, step)))


def _reshaped(c: Chain, x: str, *sizes: int) -> str:
    return c.one("Reshape", x, c.constant(sizes))


def _flattened_by_shape(c: Chain, x: str) -> str:
    """TorchScript: `x.view(x.size(0), x.size(1), -1)`."""
    sizes = [
        c.one("Unsqueeze", c.one("Gather", c.one("Shape", x), c.constant(i)), c.constant([0]))
        for i in (0, 1)
    ]
    return c.one("Reshape", x, c.one("Concat", *sizes, c.constant([-1]), axis=0))


def _shuffled(c: Chain, x: str) -> str | None:
    n, channels, height, width = c.shape(x)
    if channels % 2:
        return None
    x = _reshaped(c, x, n, 2, channels // 2, height, width)
    return _reshaped(c, c.one("Transpose", x, perm=[0, 2, 1, 3, 4]), n, channels, height, width)


def _windows(c: Chain, x: str) -> str | None:
    """Windows of 2 × 2 pixels as rows, as vision transformers have them."""
    n, channels, height, width = c.shape(x)
    if height % 2 or width % 2:
        return None
    x = _reshaped(c, x, n, channels, height // 2, 2, width // 2, 2)
    x = c.one("Transpose", x, perm=[0, 2, 4, 3, 5, 1])
    return _reshaped(c, x, n, height * width // 4, 4 * channels)


def _halves(axis: int) -> View:
    def add(c: Chain, x: str) -> list[str] | None:
        return (
            None if c.shape(x)[axis] % 2 else c.add("Split", x, outputs=2, axis=axis, num_outputs=2)
        )

    return add


def _channel_halves_by_slices(c: Chain, x: str) -> list[str] | None:
    """dynamo: `x.chunk(2, 1)` as two slices."""
    half = c.shape(x)[1] // 2
    return [sliced(c, x, 1, 0, half), sliced(c, x, 1, half, 2**62)] if half else None


def _focused(c: Chain, x: str) -> str | None:
    """YOLO's focus: four images of each second pixel on top of each other."""
    if any(size % 2 for size in c.shape(x)[2:]):
        return None
    parts = [
        sliced(c, sliced(c, x, 2, i, 2**31, 2), 3, j, 2**31, 2)
        for j, i in itertools.product((0, 1), (0, 1))
    ]
    return c.one("Concat", *parts, axis=1)


def _averaged(c: Chain, x: str) -> str:
    x = c.one("GlobalAveragePool", x)
    return c.one("Flatten", x, axis=1)


IMAGE_VIEWS: dict[str, View] = {
    "none": lambda c, x: x,
    "Reshape to pixels": lambda c, x: _reshaped(c, x, 0, 0, -1),
    "Reshape by Shape": _flattened_by_shape,
    "Flatten": lambda c, x: c.one("Flatten", x, axis=1),
    "channels last": lambda c, x: c.one("Transpose", x, perm=NHWC),
    "rows of pixels": lambda c, x: c.one("Transpose", _reshaped(c, x, 0, 0, -1), perm=[0, 2, 1]),
    "rows of channels last": lambda c, x: _reshaped(
        c, c.one("Transpose", x, perm=NHWC), 0, -1, c.shape(x)[1]
    ),
    "Slice of channels": lambda c, x: sliced(c, x, 1, 1, c.shape(x)[1] // 2 + 1),
    "Slice of lines": lambda c, x: sliced(c, x, 2, 1, -1),
    "Slice of each second": lambda c, x: sliced(c, x, 3, 0, 2**31, 2),
    "Reshape and Slice": lambda c, x: sliced(c, _reshaped(c, x, 0, 0, -1), 2, 0, 10),
    "Split of channels": _halves(1),
    "halves by Slice": _channel_halves_by_slices,
    "Gather of a channel": lambda c, x: c.one("Gather", x, c.constant(0), axis=1),
    "Gather of channels": lambda c, x: c.one("Gather", x, c.constant([2, 0, 1]), axis=1),
    "Pad": lambda c, x: c.one("Pad", x, c.constant([0, 0, 1, 1, 0, 0, 1, 1])),
    "shuffle": _shuffled,
    "windows": _windows,
    "focus": _focused,
    "Concat with itself": lambda c, x: c.one("Concat", x, c.one("Relu", x), axis=1),
    "mean and Flatten": _averaged,
    "Unsqueeze": lambda c, x: c.one("Unsqueeze", x, c.constant([2])),
    "Resize": lambda c, x: c.one(
        "Resize", x, "", c.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest"
    ),
}


def _heads(order: list[int]) -> View:
    def add(c: Chain, x: str) -> str | None:
        size = c.shape(x)[-1]
        if size % 4:
            return None
        return c.one("Transpose", _reshaped(c, x, 0, 0, 4, size // 4), perm=order)

    return add


def _thirds(c: Chain, x: str) -> list[str] | None:
    """Queries, keys and values of one product, as torch's attention writes them."""
    n, rows, size = c.shape(x)
    if size % 12:
        return None
    x = c.one("Transpose", _reshaped(c, x, n, rows, 3, 4, size // 12), perm=[2, 0, 3, 1, 4])
    return [c.one("Gather", x, c.constant(i), axis=0) for i in range(3)]


ROW_VIEWS: dict[str, View] = {
    "none": lambda c, x: x,
    "heads": _heads([0, 2, 1, 3]),
    "heads of keys": _heads([0, 2, 3, 1]),
    "Transpose": lambda c, x: c.one("Transpose", x, perm=[0, 2, 1]),
    "first row by Gather": lambda c, x: c.one("Gather", x, c.constant(0), axis=1),
    "first row by Slice": lambda c, x: c.one("Squeeze", sliced(c, x, 1, 0, 1), c.constant([1])),
    "Slice of rows": lambda c, x: sliced(c, x, 1, 1, 2**62),
    "Slice of columns": lambda c, x: sliced(c, x, 2, 0, c.shape(x)[2] // 2),
    "rotated": lambda c, x: c.one(
        "Concat",
        c.one("Neg", sliced(c, x, 2, c.shape(x)[2] // 2, 2**62)),
        sliced(c, x, 2, 0, c.shape(x)[2] // 2),
        axis=2,
    ),
    "Split": _halves(2),
    "thirds": _thirds,
    "Flatten": lambda c, x: c.one("Flatten", x, axis=1),
    "Unsqueeze": lambda c, x: c.one("Unsqueeze", x, c.constant([1])),
    "Expand": lambda c, x: c.one(
        "Expand", c.one("Unsqueeze", x, c.constant([1])), c.constant([1, 2, 1, 1])
    ),
    "Pad": lambda c, x: c.one("Pad", x, c.constant([0, 1, 0, 0, 1, 0])),
    "image": lambda c, x: _reshaped(
        c, c.one("Transpose", x, perm=[0, 2, 1]), 0, 0, 1, c.shape(x)[1]
    ),
    "rows reversed": lambda c, x: sliced(c, x, 1, -1, -(2**62), -1),
}


# -- consumers -------------------------------------------------------------------------------------


def _conv(kernel: int) -> View:
    def add(c: Chain, x: str) -> str | None:
        shape = c.shape(x)
        if len(shape) not in (3, 4) or min(shape[2:]) < 1:
            return None
        rank = len(shape) - 2
        w = c.weights(16, shape[1], *[kernel] * rank)
        return c.one("Conv", x, w, pads=[kernel // 2] * 2 * rank)

    return add


def _times(c: Chain, x: str) -> str | None:
    size = c.shape(x)[-1]
    return None if size > 4096 else c.one("MatMul", x, c.weights(size, 32))


def _with_itself(c: Chain, x: str) -> str | None:
    shape = c.shape(x)
    if len(shape) < 3 or shape[-2] > 1024:
        return None
    order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    return c.one("MatMul", x, c.one("Transpose", x, perm=order))


def _reduced(axis: int) -> View:
    def add(c: Chain, x: str) -> str | None:
        return c.one("ReduceMean", x, c.constant([axis]), keepdims=0)

    return add


def _last_sliced(c: Chain, x: str) -> str | None:
    size = c.shape(x)[-1]
    return None if size < 4 else sliced(c, x, -1, 1, size // 2)


CONSUMERS: dict[str, View] = {
    "output": lambda c, x: c.one("Identity", x),
    "Add": lambda c, x: c.one("Add", x, c.weights(*c.shape(x)[-1:])),
    "Sigmoid": lambda c, x: c.one("Sigmoid", x),
    "Softmax": lambda c, x: c.one("Softmax", x, axis=-1),
    "Softmax of axis 1": lambda c, x: c.one("Softmax", x, axis=1),
    "mean of the last": _reduced(-1),
    "mean of axis 1": _reduced(1),
    "Slice": _last_sliced,
    "MatMul": _times,
    "MatMul with itself": _with_itself,
    "Conv 1": _conv(1),
    "Conv 3": _conv(3),
    "Concat": lambda c, x: c.one("Concat", x, c.input(*c.shape(x)), axis=-1),
    "ArgMax": lambda c, x: c.one("ArgMax", x, axis=1),
}

_PICTURES = ((1, 12, 14, 14), (1, 32, 28, 28), (1, 64, 56, 56), (2, 24, 20, 20))
_TEXTS = ((1, 16, 96), (1, 128, 384), (4, 50, 192))


def _all(
    producers: Mapping[str, Producer], views: Mapping[str, View], shapes: Any
) -> Iterator[Case]:
    """Every producer with every view and consumer, each on one of the shapes in turn."""
    sizes = itertools.cycle(shapes)
    for names in itertools.product(producers, views, CONSUMERS):
        case = chained(producers, views, CONSUMERS, names, next(sizes))
        if case is not None:
            yield case


def images() -> Iterator[Case]:
    """Images: a producer, a view, a consumer."""
    return _sample(_all(IMAGES, IMAGE_VIEWS, _PICTURES), 850)


def rows() -> Iterator[Case]:
    """Rows of texts: a producer, a view, a consumer."""
    return _sample(_all(ROWS, ROW_VIEWS, _TEXTS), 500)


def _sample(cases: Iterator[Case], count: int) -> Iterator[Case]:
    """So many of the cases, always the same ones."""
    return iter(random.Random(0).sample(list(cases), count))


CHAINS: dict[str, Callable[[], Iterator[Case]]] = {
    "images": images,
    "rows": rows,
}
