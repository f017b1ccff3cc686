"""The layers on which kernel costs are measured: those of usual networks, and random ones."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN, tensor

SQUARES = (
    (112, 32, 32),
    (56, 64, 64),
    (28, 128, 128),
    (14, 256, 256),
    (7, 512, 512),
    (56, 128, 32),
    (14, 64, 192),
)
"""Sides, channels and results of 3 × 3 windows that step by one."""
CHANNELS = (16, 20, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 256, 320, 384, 512)
SIDES = (4, 6, 7, 8, 10, 13, 14, 17, 20, 28, 35, 40, 56, 64, 80, 112)
FIRST = (
    (224, 3, 64, 7, 2),
    (224, 3, 32, 3, 2),
    (224, 3, 64, 3, 1),
    (299, 3, 32, 3, 2),
    (64, 8, 16, 5, 1),
)
"""Sides, channels, results, windows and steps of layers with few channels."""
DEPTHWISE = (
    (112, 32, 3, 1),
    (112, 96, 3, 2),
    (56, 144, 3, 1),
    (28, 240, 5, 2),
    (14, 480, 5, 1),
    (7, 960, 5, 1),
)
GROUPED = (
    (56, 128, 32, 1),
    (56, 128, 32, 2),
    (28, 256, 32, 1),
    (14, 512, 32, 1),
    (14, 1024, 32, 2),
    (28, 64, 8, 1),
    (7, 96, 4, 1),
)
"""Sides, channels, groups and steps."""
PRODUCTS = (
    (1, 768, 768),
    (1, 1000, 2048),
    (8, 512, 512),
    (32, 384, 1536),
    (128, 768, 768),
    (197, 768, 3072),
    (49, 96, 384),
)
ATTENTIONS = (
    (1, 12, 128, 128, 64),
    (1, 12, 32, 32, 64),
    (1, 12, 197, 197, 64),
    (4, 3, 49, 49, 32),
    (1, 12, 512, 512, 64),
)
"""Batches, heads, queries, keys and sizes of heads."""
WINDOWS = (
    (17, 128, 128, (1, 7), 1),
    (17, 192, 192, (7, 1), 1),
    (8, 384, 384, (1, 3), 1),
    (8, 384, 384, (3, 1), 1),
    (35, 48, 64, (5, 5), 1),
)
"""Sides, channels, results, windows and steps of other layers that tiles compute."""


class _Layers:
    """A graph with a layer beside the other, each with an input and an output of its own."""

    def __init__(self) -> None:
        self.graph = Graph("costs")
        self._rng = np.random.default_rng(0)

    def input(self, *shape: int) -> Value:
        return self.graph.add_input(f"x{len(self.graph.inputs)}", tensor(dtypes.float32, *shape))

    def weight(self, *shape: int) -> Value:
        return constant(self._rng.standard_normal(shape, np.float32))

    def blocks(self, part: float, rows: int, columns: int) -> Value:
        """Weights of which this part of the blocks of 16 columns is not zero."""
        mask = self._rng.random((rows, -(-columns // 16))) < part
        numbers = self._rng.standard_normal((rows, columns), np.float32)
        return constant(numbers * np.repeat(mask, 16, axis=1)[:, :columns])

    def integers(self, *shape: int) -> Value:
        """An input of bytes."""
        return self.graph.add_input(f"x{len(self.graph.inputs)}", tensor(dtypes.uint8, *shape))

    def integer_blocks(self, part: float, rows: int, columns: int) -> Value:
        """Bytes of which this part of the blocks of 4 rows of 16 columns is not zero."""
        mask = self._rng.random((-(-rows // 4), -(-columns // 16))) < part
        whole = np.repeat(np.repeat(mask, 4, axis=0), 16, axis=1)[:rows, :columns]
        return constant(self._rng.integers(1, 127, (rows, columns), np.int8) * whole)

    def cast(self, value: Value) -> Value:
        """A value in float32."""
        return self.call("Cast", value, to=dtypes.float32)

    def call(self, kind: str, *operands: Value | None, **attributes: Any) -> Value:
        result = Value(UNKNOWN, f"v{len(self.graph)}")
        node = Node(
            make_operator("", kind, attributes),
            list(operands),
            [result],
            name=f"{kind}_{len(self.graph)}",
        )
        node.op.infer_node(self.graph.add_node(node))
        return result

    def end(self, value: Value) -> None:
        self.graph.add_output(self.call("Relu", value), f"y{len(self.graph.outputs)}")

    def conv(
        self, x: Value, out: int, kernel: int | tuple[int, int], step: int = 1, groups: int = 1
    ) -> Value:
        channels = x.shape[1]
        assert isinstance(channels, int)
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        weights = self.weight(out, channels // groups, height, width)
        pads = (height // 2, width // 2) * 2
        sides = {"strides": (step, step), "pads": pads, "group": groups}
        return self.call("Conv", x, weights, self.weight(out), **sides)

    def channels_last(self, side: int, channels: int) -> Value:
        """An image as a layer before leaves it."""
        return self.conv(self.input(1, 8, side, side), channels, 1)


def graph_of(rng: random.Random, precision: str, flops: float) -> Graph:
    """All cases in one graph; random ones have at most `flops` multiplications and additions."""
    layers = _Layers()
    for side, channels, out in (*SQUARES, *_squares(rng, flops)):
        layers.end(layers.conv(layers.channels_last(side, channels), out, 3))
    for side, channels, out, window, step in (*WINDOWS, *_windows(rng, flops)):
        layers.end(layers.conv(layers.channels_last(side, channels), out, window, step))
    for side, channels, out, kernel, step in (*FIRST, *_first(rng)):
        layers.end(layers.conv(layers.input(1, channels, side, side), out, kernel, step))
        layers.end(layers.conv(layers.channels_last(side, channels), out, kernel, step))
    for side, channels, kernel, step in (*DEPTHWISE, *_depthwise(rng)):
        layers.end(
            layers.conv(
                layers.channels_last(side, channels), channels, kernel, step, groups=channels
            )
        )
    for side, channels, groups, step in GROUPED:
        layers.end(layers.conv(layers.channels_last(side, channels), channels, 3, step, groups))
    for batch, heads, queries, keys, size in (*ATTENTIONS, *_attentions(rng, flops)):
        shapes = (
            (batch, heads, queries, size),
            (batch, heads, keys, size),
            (batch, heads, keys, size),
        )
        layers.end(layers.call("Attention", *(layers.input(*shape) for shape in shapes)))
    if precision in ("bf16", "bf16x2"):
        _rounded(layers, rng, flops)
        _computed(layers, rng, flops)
    if precision == "fp32":
        _in_blocks(layers, rng, flops)
    return layers.graph


def _squares(rng: random.Random, flops: float) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    while len(found) < 40:
        side, channels, out = rng.choice(SIDES), rng.choice(CHANNELS), rng.choice(CHANNELS)
        if 18 * side * side * channels * out <= flops:
            found.append((side, channels, out))
    return found


def _windows(rng: random.Random, flops: float) -> list[tuple[int, int, int, tuple[int, int], int]]:
    windows = (((3, 3), 2), ((3, 3), 2), ((5, 5), 1), ((1, 3), 1), ((7, 1), 1), ((1, 5), 1))
    found: list[tuple[int, int, int, tuple[int, int], int]] = []
    while len(found) < 36:
        window, step = windows[len(found) % len(windows)]
        side, channels, out = rng.choice(SIDES), rng.choice(CHANNELS), rng.choice(CHANNELS)
        if 2 * window[0] * window[1] * side * side * channels * out <= flops * step * step:
            found.append((side, channels, out, window, step))
    return found


def _attentions(rng: random.Random, flops: float) -> list[tuple[int, int, int, int, int]]:
    lengths = (5, 9, 16, 30, 49, 64, 77, 100, 128, 160, 197, 256, 300, 384, 512, 700, 1024)
    found: list[tuple[int, int, int, int, int]] = []
    while len(found) < 40:
        keys = rng.choice(lengths)
        queries = rng.choice((rng.randint(1, 4), keys, keys, rng.choice(lengths)))
        batch, heads, size = (
            rng.choice((1, 1, 2, 4)),
            rng.choice((2, 4, 8, 12)),
            rng.choice((16, 32, 64, 64, 80, 128)),
        )
        if 4 * batch * heads * queries * keys * size <= flops:
            found.append((batch, heads, queries, keys, size))
    return found


def _first(rng: random.Random) -> list[tuple[int, int, int, int, int]]:
    return [
        (
            rng.choice(SIDES),
            rng.choice((1, 3, 4, 8, 12, 16, 24)),
            rng.choice((8, 16, 24, 32, 64)),
            *window,
        )
        for window in ((3, 1), (3, 1), (3, 2), (3, 2), (5, 1), (7, 2), (5, 2), (7, 1))
    ]


def _depthwise(rng: random.Random) -> list[tuple[int, int, int, int]]:
    windows = [(kernel, step) for kernel in (3, 5, 7) for step in (1, 2)]
    return [(rng.choice(SIDES), rng.choice(CHANNELS), *window) for window in windows * 2]


def _rounded(layers: _Layers, rng: random.Random, flops: float) -> None:
    """Layers that may be rounded to bfloat16, or split."""
    random_products = [
        (rng.choice((1, 2, 4, 16, 50, 100)), rng.choice(CHANNELS), rng.choice(CHANNELS))
        for _ in range(20)
    ]
    for m, n, k in (*PRODUCTS, *random_products):
        layers.end(layers.call("MatMul", layers.input(m, k), layers.weight(k, n)))
    for side, channels, out, kernel, step in _strided(rng, flops):
        layers.end(layers.conv(layers.channels_last(side, channels), out, kernel, step))


def _computed(layers: _Layers, rng: random.Random, flops: float) -> None:
    """Products of two computed operands, the second in rows or turned."""
    sizes = (1, 4, 8, 17, 32, 49, 64, 80, 128, 197, 256, 384, 512, 1024)
    products: list[tuple[int, int, int, int]] = []
    while len(products) < 40:
        batch, m, n, k = rng.choice((1, 2, 4, 12, 24)), *(rng.choice(sizes) for _ in range(3))
        if 2 * batch * m * n * k <= flops:
            products.append((batch, m, n, k))
    for number, (batch, m, n, k) in enumerate(products):
        a = layers.input(batch, m, k)
        b = layers.input(batch, n, k) if number % 2 else layers.input(batch, k, n)
        if number % 2:
            b = layers.call("Transpose", b, perm=(0, 2, 1))
        layers.end(layers.call("MatMul", a, b))


def _in_blocks(layers: _Layers, rng: random.Random, flops: float) -> None:
    """Products with matrices many of whose blocks are zero."""
    found: list[tuple[int, int, int]] = []
    while len(found) < 30:
        m = rng.choice((1, 2, 4, 8, 16, 49, 100, 196, 784, 3136))
        n, k = rng.choice((16, *CHANNELS, 768, 1024)), rng.choice((*CHANNELS, 768, 1024, 2048))
        if 2 * m * n * k <= flops:
            found.append((m, n, k))
    for m, n, k in (*PRODUCTS, *found):
        part = rng.choice((0.02, 0.1, 0.2, 0.3, 0.5))
        layers.end(layers.call("MatMul", layers.input(m, k), layers.blocks(part, k, n)))
        integers = layers.integers(m, k), layers.integer_blocks(part, k, n)
        layers.end(layers.cast(layers.call("MatMulInteger", *integers)))


def _strided(rng: random.Random, flops: float) -> list[tuple[int, int, int, int, int]]:
    found: list[tuple[int, int, int, int, int]] = []
    while len(found) < 15:
        kernel, step = rng.choice(((1, 2), (3, 2), (5, 1)))
        side, channels, out = rng.choice(SIDES), rng.choice(CHANNELS), rng.choice(CHANNELS)
        if 2 * kernel * kernel * side * side * channels * out <= flops * step * step:
            found.append((side, channels, out, kernel, step))
    return found
