"""Encoders of text and of images, and a decoder of text, as they are in practice: what a library of
prebuilt kernels has code of its own for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

import infuse
from infuse import dtypes
from infuse.ir import dims
from infuse.ir.graph import Graph, Value
from infuse.ir.types import TensorType
from infuse.testing.blocks import Build
from infuse.testing.networks import Network, gelu, relu

_SIDE: Final = 224
_BATCH: Final = dims.symbol("batch")
_LENGTH: Final = dims.symbol("seq")


def encoder_graphs() -> Iterator[Graph]:
    """Encoders of text and of images, and a decoder."""
    for name, width, heads, layers, activation in _ENCODERS:
        for count in (1, 16, 128):
            yield _encoder(name, width, heads, layers, count, activation)
    yield _windowed()
    yield _patches()
    yield _masked()
    yield _causal()


_ENCODERS: Final[tuple[tuple[str, int, int, int, Build], ...]] = (
    ("minilm", 384, 12, 2, gelu),
    ("bert", 768, 12, 2, gelu),
    ("opt", 768, 12, 2, relu),
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
    network: Network, x: Value, heads: int, mask: Value | np.ndarray[Any, Any] | None = None
) -> Value:
    """Attention of the rows to each other, with a linear layer behind it."""
    width = int(str(x.shape[-1]))
    parts = []
    for _ in range(3):
        split = network.reshaped(network.linear(x, width), 0, 0, heads, width // heads)
        parts.append(network.add("Transpose", split, perm=(0, 2, 1, 3)))
    query, key, value = parts
    turned = network.add("Transpose", key, perm=(0, 1, 3, 2))
    factor = np.array((width // heads) ** -0.5, np.float32)
    scores = network.add("Mul", network.add("MatMul", query, turned), factor)
    if mask is not None:
        scores = network.add("Add", scores, mask)
    weights = network.add("Softmax", scores, axis=-1)
    mixed = network.add("Transpose", network.add("MatMul", weights, value), perm=(0, 2, 1, 3))
    return network.linear(network.reshaped(mixed, 0, 0, width), width)


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
    inner = gelu(network, network.linear(network.normalized(x), 4 * width))
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


def _patches() -> Graph:
    """A vision transformer: patches of an image behind a token for the class."""
    network = Network("vit", (1, 3, _SIDE, _SIDE))
    first = network.add(
        "Conv",
        network.input,
        network.weights(768, 3, 16, 16),
        network.weights(768),
        strides=(16, 16),
    )
    rows = network.add("Transpose", network.reshaped(first, 1, 768, 196), perm=(0, 2, 1))
    x = network.add("Concat", network.weights(1, 1, 768), rows, axis=1)
    x = network.add("Add", x, network.weights(1, 197, 768))
    for _ in range(2):
        x = network.add("Add", _attended(network, network.normalized(x), 12), x)
        inner = gelu(network, network.linear(network.normalized(x), 3072))
        x = network.add("Add", network.linear(inner, 768), x)
    head = network.add("Gather", network.normalized(x), np.array(0), axis=1)
    return infuse.optimize(network.end(network.linear(head, 1000)))


def _masked() -> Graph:
    """A BERT with numbers of tokens and a mask of these as inputs, of any batch and length."""
    network = Network("bert_tokens", (_BATCH, _LENGTH), dtypes.int64)
    mask = network.graph.add_input("mask", TensorType(dtypes.int64, (_BATCH, _LENGTH)))
    tokens = network.add("Gather", network.weights(1000, 384), network.input, axis=0)
    count = network.add("Shape", network.input, start=1)
    ends = np.array([0]), count, np.array([1])
    positions = network.add("Slice", network.weights(1, 512, 384), *ends)
    x = network.normalized(network.add("Add", tokens, positions))
    seen = network.reshaped(network.add("Cast", mask, to=dtypes.bool_), 0, 1, 1, -1)
    least = np.array(np.finfo(np.float32).min)
    bias = network.add("Where", seen, np.zeros((), np.float32), least)
    for _ in range(2):
        x = network.normalized(network.add("Add", _attended(network, x, 12, bias), x))
        inner = gelu(network, network.linear(x, 1536))
        x = network.normalized(network.add("Add", network.linear(inner, 384), x))
    return infuse.optimize(network.end(network.linear(x, 384)))


def _causal() -> Graph:
    """A GPT-2 without a cache, of any length: a token sees those before it."""
    network = Network("gpt2_tokens", (1, _LENGTH), dtypes.int64)
    tokens = network.add("Gather", network.weights(1000, 384), network.input, axis=0)
    count = network.reshaped(network.add("Shape", network.input, start=1))
    places = network.add("Range", np.array(0), count, np.array(1))
    row, column = network.reshaped(places, 1, 1, 1, -1), network.reshaped(places, 1, 1, -1, 1)
    positions = network.add("Gather", network.weights(512, 384), network.reshaped(places, 1, -1))
    x = network.add("Add", tokens, positions)
    seen = network.add("LessOrEqual", row, column)
    least = np.array(np.finfo(np.float32).min)
    bias = network.add("Where", seen, np.zeros((), np.float32), least)
    for _ in range(2):
        x = network.add("Add", _attended(network, network.normalized(x), 12, bias), x)
        inner = gelu(network, network.linear(network.normalized(x), 1536))
        x = network.add("Add", network.linear(inner, 384), x)
    return infuse.optimize(network.end(network.linear(network.normalized(x), 1000)))
