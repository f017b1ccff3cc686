"""Models as TensorFlow and Keras have them: images with their channels last, convolutions between
transposes.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Value
from tests.native.builder import Builder

LAST: Final = (0, 2, 3, 1)
CHANNELS: Final = 21
"""Classes of a pixel, which fill no vector."""


def _resized(b: Builder, x: Value) -> Value:
    scales = np.array([1, 1, 2, 2], np.float32)
    return b("Transpose", b("Resize", x, None, scales, mode="linear"), perm=LAST)


def _joined(b: Builder, x: Value) -> Value:
    other = b("Conv", x, b.weight(8, CHANNELS, 1, 1))
    one, two = (b("Transpose", v, perm=LAST) for v in (b("Relu", x), other))
    return b("Concat", one, two, axis=-1)


def _boxes(b: Builder, x: Value) -> Value:
    """Rows of four numbers, from maps of two sizes, as detectors have them."""
    maps = [
        b("Conv", x, b.weight(8, CHANNELS, 3, 3), strides=(s, s), pads=(1, 1, 1, 1)) for s in (1, 2)
    ]
    rows = [b("Reshape", b("Transpose", m, perm=LAST), [0, -1, 4]) for m in maps]
    return b("Concat", *rows, axis=1)


Tail = Callable[[Builder, Value], Value]
TAILS: Final[dict[str, Tail]] = {
    "nothing": lambda b, x: b("Transpose", x, perm=LAST),
    "sigmoid": lambda b, x: b("Sigmoid", b("Transpose", x, perm=LAST)),
    "softmax": lambda b, x: b("Transpose", b("Softmax", x, axis=1), perm=LAST),
    "softmax of the last axis": lambda b, x: b("Softmax", b("Transpose", x, perm=LAST), axis=-1),
    "resize": _resized,
    "pool": lambda b, x: b("Transpose", b("MaxPool", x, kernel_shape=(2, 2)), perm=LAST),
    "mean": lambda b, x: b("Transpose", b("GlobalAveragePool", x), perm=LAST),
    "upsampling": lambda b, x: b(
        "Transpose", b("ConvTranspose", x, b.weight(CHANNELS, 16, 2, 2), strides=(2, 2)), perm=LAST
    ),
    "rows": lambda b, x: b("Reshape", b("Transpose", x, perm=LAST), [0, -1, CHANNELS]),
    "concatenation": _joined,
    "boxes": _boxes,
}


def network(tail: str, *sizes: Dim | str, copies: int = 1) -> Graph:
    """Two convolutions of an image (N, H, W, C), and what stands behind them; with `copies` 2 the
    result of the second one as it lies before its transpose is an output, too.
    """
    b = Builder("channels_last")
    x = _pixels(b, _first(b, *sizes))
    b.output(TAILS[tail](b, x), *([x] if copies == 2 else []))
    return b.graph


def all_networks(*sizes: Dim | str) -> Graph:
    """All of them in one graph, with one first convolution."""
    b = Builder("channels_last")
    x = _first(b, *sizes)
    b.output(*(tail(b, _pixels(b, x)) for tail in TAILS.values()))
    return b.graph


def _first(b: Builder, *sizes: Dim | str) -> Value:
    x = b("Transpose", b.input(*sizes, 3, name="x"), perm=(0, 3, 1, 2))
    return b("Relu", b("Conv", x, b.weight(16, 3, 3, 3), b.weight(16), pads=(1, 1, 1, 1)))


def _pixels(b: Builder, x: Value) -> Value:
    return b("Conv", x, b.weight(CHANNELS, 16, 3, 3), pads=(1, 1, 1, 1))
