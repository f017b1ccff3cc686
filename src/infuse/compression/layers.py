"""The layers that are compressed: products and convolutions with constant weights, all seen as
products of matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuse import dtypes
from infuse.analysis.cost import node_cost
from infuse.ir.graph import Array, Graph, Node, Value
from infuse.ops.convolution import Convolving, ConvTranspose
from infuse.ops.recurrent_base import Recurrent
from infuse.ops.spatial import padded, static, windows

Floats = NDArray[np.float32]
LEAST_TABLE = 256
"""Rows of an embedding that is compressed, at least."""


@dataclass(frozen=True, eq=False)
class Layer:
    """A Conv, ConvTranspose, MatMul or Gemm of an activation with constant weights.

    Its weights are matrices [groups, depth, columns], and the rows of an activation that they
    multiply are [rows, groups, depth]; output channel g · columns + n is column n of group g.
    """

    node: Node

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def kind(self) -> str:
        return self.node.kind

    @property
    def is_convolution(self) -> bool:
        """Whether windows of images are multiplied."""
        return self.kind in ("Conv", "ConvTranspose")

    @property
    def activation(self) -> Value:
        """What is multiplied."""
        value = self.node.inputs[0]
        assert value is not None
        return value

    @property
    def constant(self) -> Value:
        """The weights in the layout of the operator."""
        value = self.node.inputs[1]
        assert value is not None
        return value

    @property
    def weights(self) -> Array:
        """Their elements."""
        assert self.constant.const is not None
        return self.constant.const

    @property
    def channel_axis(self) -> int:
        """The axis of the weights that output channels lie along."""
        if self.kind == "Conv":
            return 0
        return 0 if self.kind == "Gemm" and self.node.op.attributes()["transB"] else 1

    @property
    def output_axis(self) -> int:
        """The axis of the result that output channels lie along."""
        return 1 if self.is_convolution else self.node.output.rank - 1

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Groups, depth and columns of the matrices."""
        shape = self.weights.shape
        if self.channel_axis == 1:
            return 1, shape[0], shape[1]
        groups, columns = self._groups, shape[0] // self._groups
        return groups, self.weights.size // (groups * columns), columns

    @property
    def matrices(self) -> Floats:
        """The weights as [groups, depth, columns]: made in each call, so that not all layers of a
        model have a copy at once.
        """
        return np.ascontiguousarray(self.as_matrices(self.weights))

    @property
    def _groups(self) -> int:
        op = self.node.op
        return op.group if isinstance(op, Convolving) else 1

    @property
    def is_finite(self) -> bool:
        """Whether all weights are finite."""
        return bool(np.isfinite(self.weights).all())

    @property
    def depth(self) -> int:
        """Products that are summed up for each result."""
        return self.sizes[1]

    def as_matrices(self, elements: Array) -> Array:
        """Elements in the layout of the operator as [groups, depth, columns]; in the same memory
        but for transposed convolutions.
        """
        if self.channel_axis == 1:
            return elements[None]
        rows = elements.reshape(self._groups, elements.shape[0] // self._groups, -1)
        matrices: Array = rows.transpose(0, 2, 1)
        return matrices

    def in_layout(self, matrices: Array) -> Array:
        """Elements [groups, depth, columns] in the layout of the operator; in the same memory where
        they are those of `as_matrices`.
        """
        if self.channel_axis == 1:
            return np.ascontiguousarray(matrices[0])
        return np.ascontiguousarray(matrices.transpose(0, 2, 1).reshape(self.weights.shape))

    @property
    def is_embedding(self) -> bool:
        """Whether rows of the weights are read, and nothing is multiplied."""
        return False

    def rows(self, activation: Array, count: int, rng: np.random.Generator) -> Floats:
        """At most `count` random rows [rows, groups, depth] of an activation that the weights
        multiply.
        """
        if not self.is_convolution:
            flat = activation.reshape(-1, 1, activation.shape[-1])
            if len(flat) > count:
                flat = flat[np.sort(rng.choice(len(flat), count, replace=False))]
            return np.ascontiguousarray(flat, dtype=np.float32)
        return self._windows(activation, count, rng)

    def _windows(self, x: Array, count: int, rng: np.random.Generator) -> Floats:
        op = self.node.op
        assert isinstance(op, Convolving)
        sizes, kernel = x.shape[2:], self.weights.shape[2:]
        rank = len(kernel)
        counts = static(op.window_counts(sizes, kernel))
        data = padded(x, op.int_padding(sizes, kernel), 0)
        view = windows(data, kernel, op.steps(rank), op.spread(rank), counts)
        ahead = (0, *range(2, 2 + rank), 1, *range(2 + rank, 2 + 2 * rank))
        places = (x.shape[0], *counts)
        total = int(np.prod(places))
        picked = rng.choice(total, min(count, total), replace=False)
        taken = view.transpose(ahead)[np.unravel_index(np.sort(picked), places)]
        groups, depth, _ = self.sizes
        return np.ascontiguousarray(taken.reshape(-1, groups, depth), dtype=np.float32)


class Transposed(Layer):
    """A ConvTranspose without groups. A row has, for one pixel of the result, the pixels of the
    activation that meet it, by channel and tap of the kernel, and zeros for taps that meet none.
    """

    @property
    def sizes(self) -> tuple[int, int, int]:
        channels, columns, *kernel = self.weights.shape
        return 1, channels * math.prod(kernel), columns

    def as_matrices(self, elements: Array) -> Array:
        channels, columns, *_ = elements.shape
        by_tap = elements.reshape(channels, columns, -1).transpose(0, 2, 1)
        matrices: Array = by_tap.reshape(1, -1, columns)
        return matrices

    def in_layout(self, matrices: Array) -> Array:
        channels, columns, *kernel = self.weights.shape
        by_tap = matrices.reshape(channels, math.prod(kernel), columns)
        return np.ascontiguousarray(by_tap.transpose(0, 2, 1).reshape(self.weights.shape))

    def rows(self, activation: Array, count: int, rng: np.random.Generator) -> Floats:
        op, (images, _, *sizes) = self.node.op, activation.shape
        assert isinstance(op, ConvTranspose)
        kernel = self.weights.shape[2:]
        rank = len(kernel)
        shape, pads = op.placement(sizes, kernel)
        places = (images, *static(shape))
        total = math.prod(places)
        image, *pixels = np.unravel_index(
            np.sort(rng.choice(total, min(count, total), replace=False)), places
        )
        index: list[Array] = []
        meets = np.ones((), bool)
        for axis, (pixel, size, (cut, _)) in enumerate(zip(pixels, sizes, pads)):
            spread = np.arange(kernel[axis]) * op.spread(rank)[axis]
            at, rest = np.divmod(pixel[:, None] + int(str(cut)) - spread, op.steps(rank)[axis])
            along = (-1, *(kernel[axis] if a == axis else 1 for a in range(rank)))
            meets = meets & ((rest == 0) & (at >= 0) & (at < size)).reshape(along)
            index.append(np.clip(at, 0, size - 1).reshape(along))
        first = image.reshape(-1, *(1,) * rank)
        met: tuple[Any, ...] = (first, slice(None), *index)
        elements = activation[met] * meets[..., None]
        by_channel = np.moveaxis(elements, -1, 1).reshape(len(image), 1, -1)
        return np.ascontiguousarray(by_channel, dtype=np.float32)


class Embedding(Layer):
    """A Gather of rows of a constant table [rows, columns] of floats."""

    @property
    def activation(self) -> Value:
        """The numbers of the rows, which are not rounded."""
        value = self.node.inputs[1]
        assert value is not None
        return value

    @property
    def constant(self) -> Value:
        """The table."""
        value = self.node.inputs[0]
        assert value is not None
        return value

    @property
    def is_embedding(self) -> bool:
        return True


def find_embeddings(graph: Graph) -> list[Embedding]:
    """The embeddings of a graph in order, without those of bodies of control flow, and without
    tables that others read as well.
    """
    return [Embedding(node) for node in graph.nodes if _is_embedding(node)]


def _is_embedding(node: Node) -> bool:
    if node.kind != "Gather" or node.op.domain or node.op.attributes()["axis"] != 0:
        return False
    table, rows = node.input(0), node.input(1)
    if table is None or table.const is None or rows is None or rows.const is not None:
        return False
    is_matrix = table.dtype == dtypes.float32 and table.rank == 2 and table.const.size > 0
    is_alone = all(user.kind == "Gather" for user in table.users())
    return is_matrix and is_alone and table.const.shape[0] >= LEAST_TABLE


def along_depth(layer: Layer, scales: Array) -> Floats:
    """A number for each channel of a layer's activation as [groups, depth]."""
    each = np.repeat(scales.reshape(layer.sizes[0], -1), _taps(layer), axis=1)
    return np.asarray(each, np.float32)


def largest_of_channels(layer: Layer, numbers: Array) -> Array:
    """The largest of numbers [groups, depth] for each channel of a layer's activation."""
    largest: Array = numbers.reshape(-1, _taps(layer)).max(1)
    return largest


def _taps(layer: Layer) -> int:
    """The rows of a layer's matrices that one channel of its activation meets."""
    return int(np.prod(layer.weights.shape[2:])) if layer.is_convolution else 1


def multiply(rows: Array, matrices: Array) -> Array:
    """Rows [rows, groups, depth] times matrices: [rows, groups, columns]."""
    result: Array = np.matmul(rows.transpose(1, 0, 2), matrices).transpose(1, 0, 2)
    return result


def find_layers(graph: Graph) -> list[Layer]:
    """The layers of a graph in order, without those of bodies of control flow."""
    return [
        Transposed(node) if node.kind == "ConvTranspose" else Layer(node)
        for node in graph.nodes
        if _is_layer(node)
    ]


def _is_layer(node: Node) -> bool:
    if node.kind not in _FITS or node.op.domain:
        return False
    x, w = node.input(0), node.input(1)
    if x is None or w is None or x.const is not None or w.const is None or not w.const.size:
        return False
    if x.dtype != dtypes.float32 or w.dtype != dtypes.float32 or x.tensor.shape is None:
        return False
    return _FITS[node.kind](node, x, w)


def _conv(node: Node, x: Value, w: Value) -> bool:
    return x.rank >= 3


def _conv_transpose(node: Node, x: Value, w: Value) -> bool:
    # Channels of all groups would share their scales, which lie along the second axis.
    return x.rank >= 3 and bool(node.op.attributes()["group"] == 1)


def _matmul(node: Node, x: Value, w: Value) -> bool:
    return x.rank >= 2 and w.rank == 2


def _gemm(node: Node, x: Value, w: Value) -> bool:
    return not node.op.attributes()["transA"] and _has_unit_factors(node) and w.rank == 2


def _has_unit_factors(gemm: Node) -> bool:
    attributes = gemm.op.attributes()
    return bool(attributes["alpha"] == attributes["beta"] == 1.0)


_FITS: dict[str, Callable[[Node, Value, Value], bool]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MatMul": _matmul,
    "Gemm": _gemm,
}


def products_left_out(graph: Graph, layers: Sequence[Layer]) -> list[tuple[Node, str]]:
    """Operators that multiply and add up, and are not among the layers, with the reason."""
    nodes = {layer.node for layer in layers}
    left = []
    for inner in graph.all_graphs():
        for node in inner.nodes:
            if node not in nodes and not node.subgraphs and node_cost(node).macs != 0:
                left.append((node, "it is in a body" if inner is not graph else _reason(node)))
    return left


def _reason(node: Node) -> str:
    operands = [node.input(i) for i in ((1, 2) if isinstance(node.op, Recurrent) else (1,))]
    weights = next((v for v in operands if v is not None and v.const is None), operands[0])
    if any(v.dtype.is_integer for v in node.operands() if v.dtype.bits == 8):
        return "it multiplies integers already"
    if node.kind == "ConvTranspose" and node.op.attributes()["group"] > 1:
        return "transposed convolutions in groups are computed in float32"
    if node.kind not in _FITS and not isinstance(node.op, Recurrent):
        return f"{node.kind} is computed in float32"
    maker = None if weights is None else weights.producer
    if maker is not None and maker.kind == "DequantizeLinear":
        return "its weights are quantized already"
    if weights is None or weights.const is None:
        return "it has no constant weights"
    if node.kind == "Gemm" and not _has_unit_factors(node):
        return "it has factors (alpha, beta), which infuse.optimize puts into its constants"
    return f"its form ({weights.type}) is not one that is compressed"
