"""Low rank: a layer as two or three smaller ones, chosen by what its activations are.

Of all matrices of a rank, the one whose products are nearest to those of the weights, for the
activations that were seen, projects the products on their principal components (the whitened SVD of
Wang et al., 2024, arXiv:2403.07378); the mean of what is lost goes into the bias. Kernels of
convolutions are factored as matrices [channels · kernel, outputs], or along both axes of channels
(Tucker-2: Kim et al., 2016, arXiv:1511.06530), whichever errs less at the same number of products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuse.compression.forms import Writer, add_behind, bias_of, takes_bias
from infuse.compression.layers import Layer
from infuse.ir.graph import Array, Graph, Node, Value, constant

Doubles = NDArray[np.floating[Any]]
DAMPING = 1e-7
"""The least variance of a direction, as a part of the largest."""
RANK_STEP = 16
"""Ranks are multiples of this, which fill vectors of 4, 8 and 16 numbers."""


@dataclass(frozen=True, eq=False)
class Factors:
    """A layer's weights as a chain: matrices [depth, columns] for products, kernels in the layout
    of Conv for convolutions; `spatial` is the number of the factor that slides over the image.
    """

    weights: tuple[Array, ...]
    rank: int
    error: float
    """The power of the error of the results over theirs."""
    correction: Array | None = None
    """What is added to each output channel."""
    spatial: int = 0


@dataclass(frozen=True, eq=False)
class FactoredForm:
    """A layer as a chain of smaller ones in float32."""

    factors: Factors
    activation: None = None

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"low rank {self.factors.rank}"

    def write(self, graph: Graph, node: Node, layer: Layer) -> None:
        write = Writer(graph, node, layer.name or layer.kind)
        if layer.kind == "Conv":
            self._write_convolutions(write, node, layer)
        else:
            self._write_products(write, node, layer)

    def _write_products(self, write: Writer, node: Node, layer: Layer) -> None:
        first, second = (np.asarray(each, np.float32) for each in self.factors.weights)
        hidden = write("MatMul", node.inputs[0], constant(first))
        if layer.channel_axis == 0:
            second = np.ascontiguousarray(second.T)
        correction, bias = self.factors.correction, bias_of(layer)
        inputs: list[Value | None] = [hidden, constant(second), *node.inputs[2:]]
        if correction is not None and takes_bias(layer):
            inputs[2:] = [_vector(correction, bias)]
        node.set_inputs(inputs)
        if correction is not None and not takes_bias(layer):
            add_behind(write, node, np.asarray(correction, np.float32))

    def _write_convolutions(self, write: Writer, node: Node, layer: Layer) -> None:
        value, last = node.inputs[0], len(self.factors.weights) - 1
        attributes = node.op.attributes()
        for number, weights in enumerate(self.factors.weights):
            inputs = [value, constant(np.asarray(weights, np.float32))]
            if number == last:
                bias = bias_of(layer)
                correction = self.factors.correction
                if correction is not None:
                    inputs.append(_vector(correction, bias))
                elif node.input(2) is not None:
                    inputs.append(node.inputs[2])
            own = attributes if number == self.factors.spatial else {}
            value = write("Conv", *inputs, **own)
        assert value is not None
        node.output.replace_by(value)
        write.graph.remove(node)


def _vector(correction: Array, bias: Array | None) -> Value:
    total = correction if bias is None else bias + correction
    return constant(np.asarray(total, np.float32))


@dataclass(frozen=True, eq=False)
class Activations:
    """What a layer multiplies: second moments [depth, depth] and means [depth] of its rows."""

    moments: Doubles
    mean: Doubles

    @classmethod
    def of_rows(cls, rows: Array) -> Activations:
        """Those of rows [rows, depth]."""
        exact = rows.astype(np.float64)
        return cls(exact.T @ exact / len(exact), exact.mean(0))

    @classmethod
    def unknown(cls, depth: int) -> Activations:
        """Independent ones of the same power: what is nearest then is the plain SVD."""
        return cls(np.eye(depth), np.zeros(depth))

    @property
    def covariance(self) -> Doubles:
        """How rows vary about their mean."""
        return np.asarray(self.moments - np.outer(self.mean, self.mean))


class Decomposition:
    """The factors of a matrix [depth, columns] of every rank, for these activations."""

    def __init__(self, matrix: Array, seen: Activations) -> None:
        self._matrix, self._seen = matrix.astype(np.float64), seen
        self._covariance = seen.covariance
        depth, columns = matrix.shape
        self._root = None if columns <= depth else _root(self._covariance)
        """Where there are fewer rows than columns, the components are those of the rows."""
        if self._root is None:
            self._vectors = self._output_vectors
        else:
            self._white = self._root.T @ self._matrix
            self._vectors = _components(self._white @ self._white.T)
        self._power = float(np.sum((seen.moments @ self._matrix) * self._matrix))

    def factors(self, rank: int) -> Factors:
        """The matrix as [depth, rank] times [rank, columns]."""
        vectors = self._vectors[:, :rank]
        if self._root is None:
            first, second = self._matrix @ vectors, vectors.T
        else:
            first = np.linalg.solve(self._root.T, vectors)
            second = vectors.T @ self._white
        lost = self._matrix - first @ second
        return Factors(_balanced(first, second), rank, *self.error(lost))

    def error(self, lost: Doubles) -> tuple[float, Array | None]:
        """The error of a matrix that lacks `lost`, and what corrects its mean."""
        noise = float(np.sum((self._covariance @ lost) * lost))
        correction = self._seen.mean @ lost
        return (
            noise / self._power if self._power > 0 else float(noise > 0),
            correction if np.any(correction) else None,
        )

    def tucker(self, kernel: tuple[int, ...], ranks: tuple[int, int]) -> Factors:
        """A kernel [channels · kernel, outputs] as kernels in the layout of Conv: one that mixes
        input channels, one that slides, one that mixes output channels.
        """
        size = int(np.prod(kernel))
        channels, columns = len(self._matrix) // size, self._matrix.shape[1]
        outer = self._output_vectors[:, : ranks[1]]
        core = (self._matrix @ outer).reshape(channels, size * ranks[1])
        inner = self._channel_root(channels, size)
        white = inner.T @ core
        vectors = _components(white @ white.T)[:, : ranks[0]]
        first = np.linalg.solve(inner.T, vectors)
        middle = vectors.T @ white
        whole = (first @ middle).reshape(channels * size, ranks[1]) @ outer.T
        error, correction = self.error(self._matrix - whole)
        ones = (1,) * len(kernel)
        weights = (
            first.T.reshape(ranks[0], channels, *ones),
            np.moveaxis(middle.reshape(ranks[0], size, ranks[1]), 2, 0).reshape(
                ranks[1], ranks[0], *kernel
            ),
            outer.reshape(columns, ranks[1], *ones),
        )
        return Factors(_scaled(weights), ranks[1], error, correction, spatial=1)

    @cached_property
    def _output_vectors(self) -> Doubles:
        """The principal components of the results."""
        return _components(self._matrix.T @ self._covariance @ self._matrix)

    def _channel_root(self, channels: int, size: int) -> Doubles:
        """A root of the mean covariance of channels over the places of the kernel."""
        blocks = self._covariance.reshape(channels, size, channels, size)
        return _root(np.einsum("isjs->ij", blocks) / size)


def _components(gram: Doubles) -> Doubles:
    """The eigenvectors of a symmetric matrix, those of the largest eigenvalues first."""
    return np.asarray(np.linalg.eigh(gram)[1][:, ::-1])


def _root(covariance: Doubles) -> Doubles:
    """A matrix with an inverse whose product with its transpose is the covariance; directions in
    which activations never vary, or by less than rounding, have a little of their own.
    """
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, DAMPING * max(values[-1], 1e-30))))


def _balanced(first: Doubles, second: Doubles) -> tuple[Array, Array]:
    """Two factors in which each of the inner channels is of the same magnitude in both."""
    sizes = [np.sqrt(np.sum(first**2, 0)), np.sqrt(np.sum(second**2, 1))]
    ratio = np.sqrt(np.maximum(sizes[1], 1e-30) / np.maximum(sizes[0], 1e-30))
    return first * ratio, second / ratio[:, None]


def _scaled(weights: Sequence[Doubles]) -> tuple[Array, ...]:
    """Factors of the same magnitude."""
    sizes = [max(float(np.sqrt(np.mean(each**2))), 1e-30) for each in weights]
    mean = float(np.exp(np.mean(np.log(sizes))))
    return tuple(each * (mean / size) for each, size in zip(weights, sizes))


def factored(layer: Layer, decomposition: Decomposition, share: float) -> Factors | None:
    """A layer in factors with at most about `share` of its products; None where there are none."""
    depth, columns = layer.sizes[1:]
    rank = _rounded_down(share * depth * columns / (depth + columns))
    plain = decomposition.factors(rank) if rank else None
    if layer.kind != "Conv":
        return plain
    kernel = layer.weights.shape[2:]
    if plain is not None:
        plain = _as_kernels(plain, layer)
    ranks = tucker_ranks(layer, share) if int(np.prod(kernel)) > 1 else None
    if ranks is None:
        return plain
    tucker = decomposition.tucker(kernel, ranks)
    return tucker if plain is None or tucker.error < plain.error else plain


def _as_kernels(factors: Factors, layer: Layer) -> Factors:
    first, second = factors.weights
    kernel = layer.weights.shape[2:]
    weights = (
        np.ascontiguousarray(first.T).reshape(factors.rank, layer.weights.shape[1], *kernel),
        np.ascontiguousarray(second.T).reshape(-1, factors.rank, *(1,) * len(kernel)),
    )
    return Factors(weights, factors.rank, factors.error, factors.correction)


def tucker_ranks(layer: Layer, share: float) -> tuple[int, int] | None:
    """Ranks in the proportion of the channels, so that the products are about `share` of all."""
    outputs, channels, *kernel = layer.weights.shape
    size = int(np.prod(kernel))
    dense = size * channels * outputs * share
    # part² · size · channels · outputs + part · (channels² + outputs²) = dense
    a, b = size * channels * outputs, channels**2 + outputs**2
    part = (-b + np.sqrt(b * b + 4 * a * dense)) / (2 * a)
    first, second = _rounded_down(part * channels), _rounded_down(part * outputs)
    return (first, second) if first and second else None


def _rounded_down(rank: float) -> int:
    return int(rank // RANK_STEP) * RANK_STEP


def why_not_factored(layer: Layer) -> str:
    """Why a layer has no factors; nothing where it may have some."""
    if layer.kind == "ConvTranspose":
        return "transposed convolutions are not factored"
    if layer.sizes[0] > 1:
        return "grouped convolutions are not factored"
    if min(layer.sizes[1:]) < 2 * RANK_STEP:
        return f"it is too small for a rank of {RANK_STEP}"
    if not layer.is_finite:
        return "its weights are not finite"
    if layer.kind == "Conv" and not takes_bias(layer):
        return "its bias is computed"
    return ""
